"""Parameters that change between passes, and mixed precision, for every model."""

import pytest
import torch

from mgnni.models.catalog import MODELS, find_model
from models.cases import FEATURES, batch_of_graphs


def setting(name, device, dtype=torch.float64):
    """Build a model for graphs and its inputs."""
    torch.manual_seed(0)
    model = find_model(name).load()(FEATURES, FEATURES, 3, level="graph")
    x, edge_index, batch, _ = batch_of_graphs(device)
    edge_weight = torch.linspace(0.5, 1.5, edge_index.size(1), dtype=dtype, device=device)
    return model.to(device, dtype).eval(), (x.to(dtype), edge_index, edge_weight, batch)


@pytest.mark.parametrize("learnable_features", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_parameter_changed_before_backward_raises_or_has_no_effect(
    name, learnable_features, device
):
    """As for nn.Linear, whose gradient does not depend on its weight if the input is fixed."""
    model, (x, *rest) = setting(name, device)
    x.requires_grad_(learnable_features)
    inputs = [*model.parameters(), *([x] if learnable_features else [])]

    def gradients(loss):
        return torch.autograd.grad(loss, inputs, allow_unused=True)

    want = gradients(model(x, *rest).square().sum())
    noticed = 0
    for parameter in model.parameters():
        loss = model(x, *rest).square().sum()
        before = parameter.detach().clone()
        with torch.no_grad():
            parameter.mul_(1.5).add_(0.1)
        try:
            for one, other in zip(gradients(loss), want, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
        except RuntimeError as error:
            if "inplace" not in str(error):
                raise
            noticed += 1
        with torch.no_grad():
            parameter.copy_(before)
    if learnable_features and name != "fdgnn":  # which has no gradients of features
        assert noticed


@pytest.mark.parametrize("how", ["in place", ".data", "numpy"])
@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_buffers_changed_between_passes_are_used(name, how, device):
    if how == "numpy" and device.type != "cpu":
        pytest.skip("NumPy shares memory with the CPU only")
    model, inputs = setting(name, device)
    twin, _ = setting(name, device)
    before = model(*inputs)
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    with torch.no_grad():
        for tensor in tensors:
            if how == "in place":
                tensor.mul_(0.7)
            elif how == ".data":
                tensor.data.mul_(0.7)
            else:
                tensor.detach().numpy()[...] *= 0.7
    twin.load_state_dict(model.state_dict())
    after = model(*inputs)
    torch.testing.assert_close(after, twin(*inputs), rtol=1e-6, atol=1e-8)
    assert (after - before).abs().max() > 1e-6


@pytest.mark.parametrize("learnable_weights", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_autocast_gives_the_output_of_full_precision_up_to_rounding(
    name, learnable_weights, device
):
    model, (x, edge_index, edge_weight, batch) = setting(name, device, torch.float32)
    edge_weight.requires_grad_(learnable_weights)
    want = model(x, edge_index, edge_weight, batch)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(x, edge_index, edge_weight, batch)
    assert (logits.double() - want).norm() <= 0.05 * want.norm()
    logits.float().square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad.isfinite().all()
