"""MGNNI in float64, float32, half precision and autocast, with certified solves."""

import copy

import pytest
import torch

from mgnni import Status
from mgnni import make_model as catalog_model
from mgnni.models.catalog import MODELS
from models.cases import FEATURES, NODES, by_hand, graph, make_model, normal


def setting(device, dtype):
    """A float64 model, the same model in ``dtype``, features and edges."""
    exact = make_model(device)
    edge_index, _ = graph(True, device)
    model = make_model(device, tol=1e-6)
    model.load_state_dict(exact.state_dict())
    return exact, model.to(dtype), normal(NODES, FEATURES, device=device), edge_index


def certified(model, solves):
    log = model.solve_log
    stats = (*log.forward, *log.backward)
    assert len(stats) == solves
    assert {s.status for s in stats} == {Status.CONVERGED}
    assert all(s.relative_residual <= 1e-6 for s in stats)


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [(torch.float64, 1e-6), (torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)],
)
def test_models_of_any_precision_agree_up_to_rounding(dtype, rtol, device):
    exact, model, x, edge_index = setting(device, dtype)
    want, _ = by_hand(exact, x, edge_index, normalization="dir")
    logits = model(x.to(dtype), edge_index)
    assert logits.dtype is dtype
    assert (logits.double() - want).norm() <= rtol * want.norm()
    logits.float().pow(2).sum().backward()
    want.pow(2).sum().backward()
    for (name, ours), known in zip(model.named_parameters(), exact.parameters(), strict=True):
        assert ours.grad.dtype is dtype
        error = (ours.grad.double() - known.grad).norm().item()
        assert error <= 3 * rtol * known.grad.norm().item() + rtol**2, name
    certified(model, 6)


@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward outside"])
def test_autocast_agrees_up_to_rounding(inside, device):
    exact, model, x, edge_index = setting(device, torch.float32)
    want, _ = by_hand(exact, x, edge_index, normalization="dir")
    seen = []
    model.equilibrium.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(x.float(), edge_index)
        if inside:
            logits.float().pow(2).sum().backward()
    if not inside:
        logits.float().pow(2).sum().backward()
    assert logits.dtype is torch.bfloat16
    assert seen[0].dtype is torch.float32
    assert (logits.double() - want).norm() <= 0.1 * want.norm()
    for parameter in model.parameters():
        assert parameter.grad.dtype is torch.float32
        assert parameter.grad.isfinite().all()
    certified(model, 6)


def test_features_of_another_dtype_than_the_model_are_refused_by_torch(device):
    _, model, x, edge_index = setting(device, torch.float32)
    with pytest.raises(RuntimeError, match="dtype"):
        model(x, edge_index)


def test_the_default_dtype_does_not_matter(device):
    _, model, x, edge_index = setting(device, torch.float32)
    want = model(x.float(), edge_index)
    torch.set_default_dtype(torch.float64)
    try:
        logits = model(x.float(), edge_index.clone())
    finally:
        torch.set_default_dtype(torch.float32)
    assert logits.dtype is torch.float32
    torch.testing.assert_close(logits, want, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name, one in MODELS.items() if one.kind == "implicit"])
def test_every_implicit_model_takes_bfloat16(name, device):
    torch.manual_seed(0)
    level = "graph" if name == "dgcnn" else "node"
    exact = catalog_model(name, FEATURES, FEATURES, 3, level=level).eval().to(device)
    model = copy.deepcopy(exact).bfloat16()
    x, (edge_index, _) = normal(NODES, FEATURES, device=device), graph(False, device)
    with torch.no_grad():
        logits, want = model(x.bfloat16(), edge_index), exact(x.float(), edge_index)
    assert logits.dtype is torch.bfloat16
    assert (logits.float() - want).norm() <= 0.1 * want.norm()
