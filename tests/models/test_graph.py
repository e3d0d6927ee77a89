"""Graphs as inputs: edge indices, sparse matrices, operators, batches, and the cache."""

import gc
import inspect
import weakref

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_undirected

from mgnni import CGS, IGNN, MGNNI, ArgumentError, Propagation
from mgnni.models.catalog import MODELS, find_model
from mgnni.models.catalog import make_model as make_named
from mgnni.models.gat import GAT
from mgnni.models.gcn import GCN
from models.cases import FEATURES, NODES, batch_of_graphs, by_hand, graph, make_model, normal

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}


@pytest.fixture
def builds(monkeypatch):
    """A list of weak references to all operators that were built from edges."""
    made = []
    original = Propagation.from_edge_index.__func__

    def counted(cls, *args, **options):
        operator = original(cls, *args, **options)
        made.append(weakref.ref(operator))
        return operator

    monkeypatch.setattr(Propagation, "from_edge_index", classmethod(counted))
    return made


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_a_propagation_gives_the_output_of_its_edges(directed, device):
    model = make_model(device)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    propagation = Propagation.from_edge_index(edge_index, NODES, edge_weight, "auto")
    torch.testing.assert_close(
        model(x, propagation), model(x, edge_index, edge_weight), rtol=1e-12, atol=1e-12
    )


def test_a_propagation_keeps_its_own_options(device):
    model = make_model(device)  # would take "dir", with self-loops, along the edges
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, edge_weight, "out", False, flow="target_to_source"
    )
    other = make_model(device, normalization="out", self_loops=False, flow="target_to_source")
    other.load_state_dict(model.state_dict())
    want, _ = by_hand(other, x, edge_index, edge_weight, normalization="out")
    torch.testing.assert_close(model(x, propagation), want, **TOLERANCE)


def test_a_float64_propagation_works_with_a_float32_model(device):
    model = make_model(device, tol=1e-6).float()
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device).float()
    propagation = Propagation.from_edge_index(edge_index, NODES, dtype=torch.float64)
    logits = model(x, propagation)
    assert logits.dtype is torch.float32
    torch.testing.assert_close(logits, model(x, edge_index), rtol=1e-5, atol=1e-5)


def test_the_operator_of_an_edge_index_is_built_once(builds, device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    for given in (None, edge_weight):
        before = len(builds)
        first = model(x, edge_index, given)
        first.sum().backward()
        with torch.no_grad():
            second = model(2 * x, edge_index, given)
        model(x, edge_index, given).sum().backward()
        assert len(builds) == before + 1
        assert (first != second).any()


def test_the_operator_of_a_batch_is_built_once(builds, device):
    model = make_model(device)
    x, edge_index, batch, _ = batch_of_graphs(device)
    first = model(x, edge_index, batch=batch)
    torch.testing.assert_close(model(x, edge_index, batch=batch), first, rtol=0, atol=0)
    assert len(builds) == 1


def test_in_place_changes_of_the_graph_are_noticed(builds, device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    before = model(x, edge_index, edge_weight)
    edge_index[1, 0] = (edge_index[1, 0] + 1) % 7
    after = model(x, edge_index, edge_weight)
    want, _ = by_hand(model, x, edge_index, edge_weight, normalization="dir")
    torch.testing.assert_close(after, want, **TOLERANCE)
    assert (after - before).abs().max() > 1e-3
    edge_weight[0] = 5.0
    want, _ = by_hand(model, x, edge_index, edge_weight, normalization="dir")
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)
    assert len(builds) == 3


def test_changes_of_the_graph_through_numpy_are_noticed(device):
    if device.type != "cpu":
        pytest.skip("numpy shares memory with the CPU only")
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model(x, edge_index)
    edge_index.numpy()[1, 0] = (edge_index[1, 0].item() + 1) % 7
    want, _ = by_hand(model, x, edge_index, normalization="dir")
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


def test_operators_of_learnable_weights_are_not_cached(device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    edge_weight.requires_grad_()
    for _ in range(2):  # a remembered operator would hold the first pass's freed graph
        edge_weight.grad = None
        model(x, edge_index, edge_weight).sum().backward()
        assert edge_weight.grad.abs().max() > 0
        with torch.no_grad():
            edge_weight.mul_(1.5)
            want, _ = by_hand(model, x, edge_index, edge_weight, normalization="dir")
            torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)


def test_an_operator_is_freed_with_its_edge_index(builds, device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    model(normal(NODES, FEATURES, device=device), edge_index, edge_weight).sum().backward()
    assert builds[0]() is not None
    del edge_index
    gc.collect()
    assert builds[0]() is None


def test_models_with_different_options_do_not_share_operators(device):
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    first = make_model(device)
    second = make_model(device, normalization="row", self_loops=False)
    second.load_state_dict(first.state_dict())
    for model, normalization in ((first, "dir"), (second, "row"), (first, "dir")):
        want, _ = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
        torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)


def test_the_same_edges_may_be_used_with_more_nodes(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES + 3, FEATURES, device=device)
    model(x[:NODES], edge_index)
    want, _ = by_hand(model, x, edge_index, normalization="dir")
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


def test_auto_normalization_is_sym_or_dir_and_the_repr_does_not_change(device):
    model = make_model(device)
    x = normal(NODES, FEATURES, device=device)
    before = repr(model)
    assert "normalization='auto', self_loops=True, flow='source_to_target', level='auto'" in before
    directed, _ = graph(True, device)
    for edge_index, used in ((directed, "dir"), (to_undirected(directed), "sym")):
        want, _ = by_hand(model, x, edge_index, normalization=used)
        torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)
        assert repr(model) == before


@pytest.mark.parametrize("sort_order", [None, "row", "col"])
def test_pygs_edge_index_class_is_accepted(sort_order, builds, device):
    model = make_model(device)
    plain, _ = graph(True, device)
    if sort_order is not None:
        plain = plain[:, plain[0 if sort_order == "row" else 1].argsort(stable=True)]
    edge_index = EdgeIndex(plain, sparse_size=(NODES, NODES), sort_order=sort_order)
    x = normal(NODES, FEATURES, device=device)
    want, _ = by_hand(model, x, plain, normalization="dir")
    for _ in range(2):
        torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)
    assert len(builds) == 1


def test_32_bit_indices_are_accepted(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    torch.testing.assert_close(model(x, edge_index.int()), model(x, edge_index), rtol=0, atol=0)


def test_the_order_of_edges_does_not_matter(device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    order = torch.randperm(edge_index.size(1), device=device)
    x = normal(NODES, FEATURES, device=device)
    torch.testing.assert_close(
        model(x, edge_index[:, order], edge_weight[order]),
        model(x, edge_index, edge_weight),
        **TOLERANCE,
    )


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("cls", [MGNNI, GCN, IGNN])
def test_a_sparse_adjacency_gives_the_output_of_its_edges(cls, layout, builds, device):
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = cls(FEATURES, 4, 3).to(device, torch.float64).eval()
    want = model(x, edge_index, edge_weight)
    adj_t = torch.sparse_coo_tensor(edge_index.flip(0), edge_weight, (NODES, NODES)).coalesce()
    adj_t = adj_t if layout is torch.sparse_coo else adj_t.to_sparse(layout=layout)
    before = len(builds)
    for _ in range(2):
        torch.testing.assert_close(model(x, adj_t), want, **TOLERANCE)
    assert len(builds) == before + 1
    with pytest.raises(ArgumentError, match="'edge_weight'"):
        model(x, adj_t, edge_weight)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_batch_size_counts_graphs_without_nodes(name, device):
    x, edge_index, batch, _ = batch_of_graphs(device)
    torch.manual_seed(0)
    model = find_model(name).load()(FEATURES, FEATURES, 3, level="graph")
    model = model.to(device, torch.float64).eval()
    want = model(x, edge_index, batch=batch)
    torch.testing.assert_close(model(x, edge_index, None, batch, 4), want, **TOLERANCE)
    more = model(x, edge_index, batch=batch, batch_size=6)
    assert more.shape == (6, 3)
    torch.testing.assert_close(more[:4], want, **TOLERANCE)
    torch.testing.assert_close(more[4], more[5], rtol=0, atol=0)  # both without nodes
    with pytest.raises(ArgumentError, match=r"batch_size=3 \(got 3\)"):  # there is a graph 3
        model(x, edge_index, batch=batch, batch_size=3)


def test_batch_size_is_accepted_with_a_propagation(device):
    x, edge_index, batch, _ = batch_of_graphs(device)
    model = make_model(device, level="graph")
    propagation = Propagation.from_edge_index(
        edge_index, len(x), normalization="auto", batch=batch, dtype=torch.float64
    )
    want = model(x, edge_index, batch=batch)
    for given in (batch, batch.clone()):
        torch.testing.assert_close(model(x, propagation, None, given, 4), want, rtol=0, atol=0)
    assert model(x, propagation, batch=batch, batch_size=5).shape == (5, 3)
    with pytest.raises(ArgumentError, match=r"'batch_size' .*4.*got 3"):
        model(x, propagation, batch=batch, batch_size=3)


@pytest.mark.parametrize("cls", [MGNNI, GCN, IGNN, CGS])
def test_add_self_loops_is_an_alias_of_self_loops(cls):
    for value in (True, False):
        model = cls(5, 4, 3, add_self_loops=value)
        assert model.graph_options["self_loops"] is value
    with pytest.raises(ArgumentError, match=r"'add_self_loops' .*'self_loops'"):
        cls(5, 4, 3, self_loops=True, add_self_loops=True)
    assert "add_self_loops" not in inspect.signature(cls).parameters


def test_add_self_loops_is_an_alias_for_models_by_name_and_presets():
    assert make_named("gcn", 5, 4, 3, add_self_loops=False).graph_options["self_loops"] is False
    model = MGNNI.from_preset("wikipedia", 5, 3, add_self_loops=True)
    assert model.graph_options["self_loops"] is True
    with pytest.raises(TypeError, match="add_self_loops"):
        GAT(5, 4, 3, add_self_loops=True)  # which has no choice
