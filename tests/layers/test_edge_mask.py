"""Edge masks of PyG's explainers: what they multiply, and who refuses them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.captum import CaptumModel
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

from mgnni import (
    MGNNI,
    ArgumentError,
    EquilibriumConv,
    MultiscaleEquilibrium,
    Propagation,
    make_model,
)
from mgnni.graph.masked import masked
from mgnni.layers import convs
from problems import lopsided_edges

REFUSING = {
    "gat": {},
    "h2gcn": {},
    "geom-gcn": {},
    "cgs": {},
    "fdgnn": {},
    "graphsage": {"aggr": "max"},
    "eignn": {"variant": "truncated"},
    "mgnni": {"input_map": "graph", "num_nodes": 12},
}


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_a_mask_multiplies_the_message_of_every_edge(self_loops: bool, flow: str) -> None:
    edge_index, weight = lopsided_edges()
    mask = torch.rand(weight.numel(), dtype=torch.float64)
    operator = Propagation.from_edge_index(
        edge_index, 12, weight, "dir", self_loops, flow=flow, dtype=torch.float64
    )
    found = masked(operator, edge_index, weight, mask, self_loops=self_loops, flow=flow)

    loops = torch.arange(12 if self_loops else 0)
    source, target = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
    every = torch.cat([weight, torch.ones(len(loops), dtype=torch.float64)])
    factor = torch.cat([mask, torch.ones(len(loops), dtype=torch.float64)])
    out = torch.zeros(12, dtype=torch.float64).index_add(0, source, every)
    into = torch.zeros(12, dtype=torch.float64).index_add(0, target, every)
    wanted = torch.zeros(12, 12, dtype=torch.float64)
    for s, t, w, m in zip(source, target, every, factor, strict=True):
        wanted[t, s] += m * w / (out[s] * into[t]).sqrt()
    wanted = wanted if flow == "source_to_target" else wanted.T
    torch.testing.assert_close(found.to_dense(), wanted)
    assert torch.linalg.matrix_norm(wanted, 2) <= found.norm_bound


def test_the_bound_of_a_masked_operator_with_negative_weights_holds() -> None:
    edge_index = torch.tensor([[0, 1, 0, 1], [0, 1, 1, 0]])
    weight = torch.tensor([0.3, 0.3, 0.3, -0.3], dtype=torch.float64)
    # The operator is a rotation times 0.42, which the caller states; masked, it is larger than it.
    operator = Propagation.from_edge_index(
        edge_index, 2, weight, "none", False, norm_bound=0.3 * 2**0.5
    )
    mask = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    found = masked(operator, edge_index, weight, mask, self_loops=False)
    size = torch.linalg.matrix_norm(found.to_dense(), 2)
    assert operator.norm_bound < size <= found.norm_bound


def test_an_equilibrium_is_masked_as_the_same_series_of_pyg_convolutions() -> None:
    edge_index = to_undirected(lopsided_edges()[0], num_nodes=12)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    layer = EquilibriumConv(3, 4, scales=(2,), tol=1e-12).double()
    hop = GCNConv(4, 4, bias=False).double()
    nn.init.eye_(hop.lin.weight)
    x = torch.randn(12, 3, dtype=torch.float64)
    mask = nn.Parameter(torch.randn(edge_index.size(1), dtype=torch.float64))
    set_masks(nn.ModuleList([layer, hop]), mask, edge_index)
    w = layer.equilibrium.weight(torch.float64, x.device)[0]
    wanted = term = layer.lin(x)
    for _ in range(150):
        term = 0.8 * hop(hop(term, edge_index), edge_index) @ w
        wanted = wanted + term
    found = layer(x, edge_index)
    torch.testing.assert_close(found, wanted)
    cotangent = torch.randn_like(found)
    gradients = [torch.autograd.grad(y, mask, cotangent)[0] for y in (found, wanted)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("aggr", ["mean", "sum"])
def test_a_mean_over_neighbours_divides_by_all_of_them_as_in_pyg(aggr: str) -> None:
    edge_index, _ = lopsided_edges()
    ours, theirs = convs.SAGEConv(3, 4, aggr), SAGEConv(3, 4, aggr)
    theirs.load_state_dict(ours.state_dict())
    x, mask = torch.randn(12, 3), nn.Parameter(torch.randn(edge_index.size(1)))
    set_masks(theirs, mask, edge_index)
    operator = Propagation.from_edge_index(edge_index, 12, None, "none", self_loops=False)
    found = ours(x, masked(operator, edge_index, None, mask.sigmoid(), self_loops=False))
    torch.testing.assert_close(found, theirs(x, edge_index))


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(2, 8, normalize=False, add_self_loops=False)
        self.equilibrium = EquilibriumConv(8, 2, scales=(1, 2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.equilibrium(self.conv(x, edge_index).relu(), edge_index)
        return out


def planted_graph() -> tuple[Tensor, Tensor, Tensor]:
    """Forty nodes with five in-neighbours each; the features of one of these are the label."""
    label = torch.randint(2, (40,))
    x = torch.zeros(240, 2)
    x[40 + 5 * torch.arange(40) + torch.arange(40) % 5, label] = 1.0
    edge_index = torch.stack([torch.arange(40, 240), torch.arange(40).repeat_interleave(5)])
    return x, edge_index, label


@pytest.mark.parametrize("name", ["mgnni", "mixed", "ignn", "gcn"])
def test_the_mask_of_the_edge_that_carries_the_label_is_the_largest(name: str) -> None:
    x, edge_index, label = planted_graph()
    if name == "mixed":  # it sees two hops, so every node has to be its own neighbour
        loops = torch.arange(240).expand(2, -1)
        edge_index = torch.cat([edge_index, loops], dim=1)
    model = Mixed() if name == "mixed" else make_model(name, 2, 8, 2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x, edge_index)[:40], label).backward()
        optimizer.step()
    model.eval()
    before = model(x, edge_index)
    assert (before[:40].argmax(1) == label).all()
    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=40, lr=0.1, edge_size=0.1),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    # The class that is predicted without any signal needs no edge.
    default = int(model(torch.zeros_like(x), edge_index)[0].argmax())
    for node in (label != default).nonzero().squeeze(1)[:2].tolist():
        mask = explainer(x, edge_index, index=node).edge_mask
        assert int(mask[:200].argmax()) == 5 * node + node % 5
    torch.testing.assert_close(model(x, edge_index), before)  # no mask is left


def test_captum_masks_lie_between_the_graph_without_edges_and_the_graph() -> None:
    edge_index, _ = lopsided_edges()
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    model = MGNNI(3, 4, 2).eval()
    x = torch.randn(12, 3)
    wrapped = CaptumModel(model, "edge", output_idx=0)
    full = wrapped(torch.ones(1, edge_index.size(1)), x, edge_index)
    torch.testing.assert_close(full, model(x, edge_index)[:1])
    empty = wrapped(torch.zeros(1, edge_index.size(1)), x, edge_index)
    operator = model.propagation(x, edge_index)
    alone = torch.zeros_like(operator.values).where(
        operator.pattern.row != operator.pattern.col, operator.values
    )
    loops = Propagation(
        operator.pattern,
        alone,
        symmetric=False,
        bound=operator.bound,
        normalization="none",
    )
    torch.testing.assert_close(empty, model(x, loops)[:1])


@pytest.mark.parametrize("name", REFUSING)
def test_models_that_would_ignore_a_mask_refuse_it_and_work_afterwards(name: str) -> None:
    edge_index = to_undirected(lopsided_edges()[0], num_nodes=12)
    model = make_model(name, 3, 3, 2, **REFUSING[name]).eval()
    x = torch.randn(12, 3)
    before = model(x, edge_index)
    set_masks(model, nn.Parameter(torch.zeros(edge_index.size(1))), edge_index)
    with pytest.raises(ArgumentError, match="'edge_mask_type' must be None"):
        model(x, edge_index)
    torch.testing.assert_close(model(x, edge_index), before)


@pytest.mark.parametrize("kind", ["layer", "conv", "mgnni", "gcn"])
def test_a_mask_of_other_edges_than_those_of_the_operator_is_an_error(kind: str) -> None:
    edge_index, _ = lopsided_edges()
    modules = {
        "layer": MultiscaleEquilibrium(3),
        "conv": EquilibriumConv(3, 3),
        "mgnni": MGNNI(3, 4, 2),
        "gcn": make_model("gcn", 3, 4, 2),
    }
    module, x = modules[kind], torch.randn(12, 3)
    operator = Propagation.from_edge_index(edge_index, 12)
    set_masks(module, nn.Parameter(torch.zeros(edge_index.size(1))), edge_index)
    with pytest.raises(ArgumentError, match="pass the edge_index that is explained"):
        module(x, operator)
    if kind != "layer":
        with pytest.raises(ArgumentError, match="must have shape"):
            module(x, edge_index[:, 1:])
    clear_masks(module)
    module(x, operator)


def test_a_mask_leaves_no_trace_in_the_weights() -> None:
    model = MGNNI(3, 4, 2)
    names = set(model.state_dict())
    set_masks(model, nn.Parameter(torch.zeros(5)), torch.zeros(2, 5, dtype=torch.long))
    clear_masks(model)
    assert set(model.state_dict()) == names
