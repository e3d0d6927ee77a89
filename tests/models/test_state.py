"""Copies, pickles, checkpoints and resets of MGNNI."""

import copy
import io
import pickle

import pytest
import torch

from mgnni import MGNNI
from models.cases import FEATURES, NODES, graph, make_model, normal

HEADS = [
    {"head": "linear", "batch_norm": True},
    {"head": "residual"},
    {"head": "graph"},
]


def run(model, device):
    edge_index, _ = graph(True, device)
    return model(normal(NODES, FEATURES, device=device), edge_index)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_copy_gives_the_same_output_and_shares_no_memory(how, used, device):
    model = make_model(device, batch_norm=True)
    want = run(model, device).detach()
    if used:
        run(model, device).sum().backward()
    if how == "deepcopy":
        other = copy.deepcopy(model)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(model))
    else:
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    torch.testing.assert_close(run(other, device), want, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(run(model, device), want, rtol=0, atol=0)
    assert (run(other, device) - want).abs().max() > 1e-3


@pytest.mark.parametrize("options", HEADS, ids=lambda options: options["head"])
def test_a_saved_state_dict_can_be_loaded_into_a_new_model(options, tmp_path, device):
    model = make_model(device, **options)
    want = run(model, device)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    torch.manual_seed(99)
    other = make_model(device, **options)
    assert (run(other, device) - want).abs().max() > 1e-3
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    missing = other.load_state_dict(state)
    assert not missing.missing_keys
    assert not missing.unexpected_keys
    torch.testing.assert_close(run(other, device), want, rtol=0, atol=0)


def test_the_state_dict_holds_parameters_and_statistics_only(device):
    model = make_model(device, batch_norm=True)
    run(model, device).sum().backward()
    names = {name for name, _ in model.named_parameters()}
    statistics = {f"head.norm.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")}
    assert set(model.state_dict()) == names | statistics


@pytest.mark.parametrize("options", HEADS, ids=lambda options: options["head"])
def test_reset_parameters_depends_on_the_seed_only(options, device):
    model = make_model(device, **options)
    with torch.no_grad():  # a batch norm starts at ones and zeros, so move off them
        for parameter in model.parameters():
            parameter.add_(0.1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    torch.manual_seed(5)
    model.reset_parameters()
    once = {name: p.detach().clone() for name, p in model.named_parameters()}
    torch.manual_seed(5)
    model.reset_parameters()
    for name, parameter in model.named_parameters():
        assert (once[name] != before[name]).all(), name
        torch.testing.assert_close(parameter.detach(), once[name], rtol=0, atol=0)
    torch.manual_seed(6)
    model.reset_parameters()
    assert (model.equilibrium.factor != once["equilibrium.factor"]).any()


def test_the_initial_parameters_depend_on_the_seed_only(device):
    models = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        models.append(MGNNI(FEATURES, 6, 3))
    first, same, other = (model.state_dict() for model in models)
    for name, value in first.items():
        torch.testing.assert_close(value, same[name], rtol=0, atol=0)
        assert (value != other[name]).any()


def test_a_model_can_be_cast_between_precisions(device):
    model = make_model(device, tol=1e-6)
    want = run(model, device)
    edge_index, _ = graph(True, device)
    single = model.float()(normal(NODES, FEATURES, device=device).float(), edge_index)
    assert single.dtype is torch.float32
    torch.testing.assert_close(single.double(), want, rtol=1e-4, atol=1e-5)
    again = run(model.double(), device)
    torch.testing.assert_close(again, want, rtol=1e-4, atol=1e-5)
