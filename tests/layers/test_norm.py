import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call, stack_module_state, vmap

from mgnni.layers.norm import BatchNorm


def pair(device, dtype=torch.float64):
    ours, theirs = BatchNorm(5).to(device, dtype), torch.nn.BatchNorm1d(5).to(device, dtype)
    with torch.no_grad():
        for parameter in (ours.weight, ours.bias):
            parameter.uniform_(0.5, 2)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def test_it_is_torchs_batch_norm_in_training_and_evaluation(device):
    ours, theirs = pair(device)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(7, 5, dtype=torch.float64, device=device) * 3 + seed
        torch.testing.assert_close(ours(x), theirs(x))
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_its_gradient(device):
    ours, _ = pair(device)
    x = torch.randn(6, 5, dtype=torch.float64, device=device, requires_grad=True)
    assert gradcheck(ours, (x,))


def test_a_single_row_is_refused_as_by_torch(device):
    ours, _ = pair(device)
    with pytest.raises(ValueError, match="more than 1 value"):
        ours(torch.zeros(1, 5, dtype=torch.float64, device=device))


def test_a_run_is_the_same_to_the_last_bit_in_any_company():
    models = [pair("cpu", torch.float32)[0] for _ in range(6)]
    x = torch.randn(6, 183, 5)

    def passes(chosen):
        parameters, buffers = stack_module_state([models[i] for i in chosen])
        rows = x[chosen].requires_grad_()

        def one(p, b, row):
            return functional_call(models[0], (p, b), (row,))

        y = vmap(one)(parameters, buffers, rows)
        (grad,) = torch.autograd.grad((y * y.detach().cos()).sum(), rows)
        return y, grad, buffers["running_var"]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for together, alone in zip(passes([0, 1, 2, 3, 4, 5]), passes([4]), strict=True):
            assert torch.equal(together[4], alone[0])
    finally:
        torch.set_num_threads(threads)
