"""Properties of all models that ignore edge weights: GAT, H2GCN and Geom-GCN."""

import pytest
import torch
from torch.func import functional_call, vmap

from mgnni import Propagation
from mgnni.layers.regularization import Dropout
from mgnni.models.gat import GAT
from mgnni.models.geom_gcn import GeomGCN
from mgnni.models.h2gcn import H2GCN
from models.cases import (
    CLASSES,
    FEATURES,
    HIDDEN,
    NODES,
    assert_runs_are_each_alone,
    batch_of_graphs,
    drawn,
    graph,
    normal,
)

TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}
RUNS = 3
MODELS = (GAT, H2GCN, GeomGCN)

pytestmark = pytest.mark.parametrize("kind", MODELS)


def make(kind, device, **options):
    return kind(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).eval()


@pytest.mark.parametrize("level", ["node", "graph"])
def test_graphs_of_a_batch_are_independent(kind, level, device):
    x, edge_index, batch, alone = batch_of_graphs(device)
    model = make(kind, device, level=level)
    sizes = torch.bincount(batch).tolist()
    parts = zip(x.split(sizes), alone, strict=True)
    want = torch.cat([model(part, edges) for part, edges in parts])
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, **TOLERANCE)


DEGENERATE = {
    "no nodes": (0, []),
    "one node": (1, []),
    "one node and its loop": (1, [(0, 0)]),
    "no edges": (3, []),
    "an edge twice, and isolated nodes": (4, [(1, 2), (1, 2)]),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_graphs_are_supported(kind, case, device):
    size, edges = DEGENERATE[case]
    edge_index = torch.tensor(edges, dtype=torch.long, device=device).view(-1, 2).T
    x = normal(size, FEATURES, device=device).requires_grad_()
    model = make(kind, device)
    logits = model(x, edge_index)
    assert logits.shape == (size, CLASSES)
    grads = torch.autograd.grad(logits.sum(), [x, *model.parameters()])
    assert all(bool(torch.isfinite(part).all()) for part in (logits, *grads))
    apart = [v for v in range(size) if not any(v in edge for edge in edges if len(set(edge)) > 1)]
    for v in apart:  # nothing but itself
        torch.testing.assert_close(
            logits[v : v + 1], model(x[v : v + 1], edge_index[:, :0]), **TOLERANCE
        )


@pytest.mark.parametrize("self_loops", [False, True])
def test_the_normalization_of_a_propagation_does_not_matter(kind, self_loops, device):
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(kind, device)
    operator = Propagation.from_edge_index(
        edge_index, NODES, edge_weight, "dir", self_loops, dtype=torch.float64
    )
    torch.testing.assert_close(  # an accelerator adds up neighbours in any order
        model(x, operator), model(x, edge_index), rtol=1e-12, atol=1e-12
    )


def test_vmapped_models_match_single_models(kind, device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    models = drawn(lambda: make(kind, device))
    assert_runs_are_each_alone(models, x, edge_index, inside=True, **TOLERANCE)


def test_keyed_dropout_of_vmapped_runs_is_that_of_single_runs(kind, device):
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(kind, device, dropout=0.5).train()
    keys = [f"{n}.key" for n, part in model.named_modules() if isinstance(part, Dropout)]
    for part in model.modules():
        if isinstance(part, Dropout):
            part.keyed = True
    buffers = {key: torch.arange(RUNS, device=device) + 9 * i for i, key in enumerate(keys)}
    random = torch.get_rng_state()
    together = vmap(lambda own: functional_call(model, own, (x, edge_index)))(buffers)
    for run in range(RUNS):
        alone = {key: stack[run] for key, stack in buffers.items()}
        want = functional_call(model, alone, (x, edge_index))
        torch.testing.assert_close(together[run], want, **TOLERANCE)
    assert not torch.allclose(together[0], together[1])
    assert torch.equal(random, torch.get_rng_state())  # no mask came from elsewhere


def test_reset_parameters_changes_all_parameters(kind, device):
    torch.manual_seed(5)
    model = make(kind, device)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    model.reset_parameters()
    changed = [not torch.equal(p, before[name]) for name, p in model.state_dict().items()]
    drawn = [not bool((p == 0).all()) for p in before.values()]  # biases start at zero
    assert changed == drawn


def test_mixed_precision_agrees_up_to_rounding(kind, device):
    edge_index, _ = graph(False, device)
    model = make(kind, device).float()
    x = normal(NODES, FEATURES, device=device).float()
    want = model(x, edge_index)
    with torch.autocast(device.type, torch.bfloat16):
        ours = model(x, edge_index)
    torch.testing.assert_close(ours.float(), want, rtol=0.05, atol=0.05)


def test_training_may_follow_a_pass_without_gradients(kind, device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(kind, device)
    with torch.inference_mode():
        want = model(x, edge_index)
    logits = model(x, edge_index)
    logits.sum().backward()
    torch.testing.assert_close(logits.detach(), want.clone(), **TOLERANCE)
    assert all(p.grad is not None for p in model.parameters())
