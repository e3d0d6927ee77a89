"""How the equilibrium behaves inside PyTorch: modes, hooks, repeated and nested passes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from implicit.cases import (
    GAMMA,
    SCALES,
    TIGHT,
    assert_all_close,
    dense,
    edges,
    implicit,
    normal,
    operator,
    weights,
)
from mgnni import Propagation
from mgnni.implicit.linear import equilibria
from problems import chain


@pytest.fixture
def case(device):
    """A lopsided operator, and leaves: weights without symmetry, and a bias."""
    propagation = operator("dir", *edges("dir", device))
    w = weights("general", device).requires_grad_()
    return propagation, w, normal(8, 3, device=device).requires_grad_()


def known_gradients(propagation, w, bias, loss):
    return torch.autograd.grad(loss(dense(propagation, w, bias)), [w, bias])


def loss(z):
    return z[:, 3].pow(3).sum()


def test_two_passes_share_one_backward(case):
    propagation, w, bias = case
    first, log = equilibria(propagation, w, bias, SCALES, GAMMA, options=TIGHT)
    second, other_log = equilibria(propagation, w, 2 * bias, SCALES, GAMMA, options=TIGHT)
    (loss(first) + loss(second)).backward()
    one = known_gradients(propagation, w, bias, loss)
    two = known_gradients(
        propagation, w, 2 * bias, loss
    )  # the second one is with respect to 2 bias
    bias_want = one[1]
    twice = dense(propagation, w, 2 * bias)
    bias_want = bias_want + torch.autograd.grad(loss(twice), bias)[0]
    assert_all_close((w.grad, bias.grad), (one[0] + two[0], bias_want), rtol=1e-8)
    assert len(log.backward) == len(other_log.backward) == len(SCALES)


def test_gradients_flow_through_nested_solves(case):
    propagation, w, bias = case

    def nested(solve):
        return loss(solve(propagation, w, solve(propagation, w, bias).sum(0)))

    ours, want = (torch.autograd.grad(nested(s), [w, bias]) for s in (implicit, dense))
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("memory", ["fast", "low"])
def test_a_retained_graph_admits_a_second_backward(memory, case):
    propagation, w, bias = case
    value = loss(implicit(propagation, w, bias, memory=memory))
    value.backward(retain_graph=True)
    value.backward()
    want = tuple(2 * g for g in known_gradients(propagation, w, bias, loss))
    assert_all_close((w.grad, bias.grad), want, rtol=1e-8)


def test_a_second_backward_without_it_is_refused(case):
    propagation, w, bias = case
    value = implicit(propagation, w, bias).sum()
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_a_weight_changed_before_backward_is_refused(case):
    propagation, w, bias = case
    z = implicit(propagation, w, bias)
    with torch.no_grad():
        w.mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_bias_may_change_before_backward(case):
    propagation, w, bias = case
    want = known_gradients(propagation, w, bias, loss)
    z = implicit(propagation, w, bias)
    with torch.no_grad():
        bias.mul_(0.5)
    assert_all_close(torch.autograd.grad(loss(z), [w, bias]), want, rtol=1e-8)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_state_is_the_same(mode, case):
    propagation, w, bias = case
    with mode():
        z = implicit(propagation, w, bias)
    assert not z.requires_grad
    torch.testing.assert_close(z, dense(propagation, w, bias).detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("solver", ["auto", "picard", "chebyshev", "gmres", "spectral"])
def test_training_works_after_inference_mode(solver, device):
    def run():
        propagation = Propagation.from_edge_index(chain(20).to(device), 20, dtype=torch.float64)
        w, bias = weights("psd", device), normal(20, 3, device=device).requires_grad_()
        with torch.inference_mode():
            implicit(propagation, w, bias, solver)
        ours, want = implicit(propagation, w, bias, solver), dense(propagation, w, bias)
        assert_all_close((ours,), (want,), rtol=1e-9)
        ours, want = (torch.autograd.grad(loss(z), bias) for z in (ours, want))
        assert_all_close(ours, want, rtol=1e-8)

    # In a new thread, which has no scratch memory from earlier passes.
    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(run).result()


def test_gradients_flow_inside_enable_grad_within_no_grad(case):
    propagation, w, bias = case
    with torch.no_grad(), torch.enable_grad():
        value = loss(implicit(propagation, w, bias))
    ours = torch.autograd.grad(value, [w, bias])
    assert_all_close(ours, known_gradients(propagation, w, bias, loss), rtol=1e-8)


def test_hooks_on_the_state_and_on_the_bias_see_the_gradients(case):
    propagation, w, bias = case
    seen = {}
    leaf = bias * 1.0
    leaf.register_hook(lambda grad: seen.update(bias=grad))
    z = implicit(propagation, w, leaf)
    z.register_hook(lambda grad: seen.update(state=grad))
    loss(z).backward()
    _, want = known_gradients(propagation, w, bias, loss)
    reached = torch.zeros_like(z)
    reached[:, 3] = 3 * z.detach()[:, 3] ** 2
    torch.testing.assert_close(seen["state"], reached)
    assert_all_close((seen["bias"],), (want,), rtol=1e-8)


def test_a_hook_may_change_the_gradient(case):
    propagation, w, bias = case
    z = implicit(propagation, w, bias)
    z.register_hook(lambda grad: -2 * grad)
    ours = torch.autograd.grad(loss(z), [w, bias])
    want = known_gradients(propagation, w, bias, lambda z: -2 * loss(z))
    assert_all_close(ours, want, rtol=1e-8)


def test_gradients_flow_through_a_checkpoint(case):
    propagation, w, bias = case

    def solve(w, bias):
        return implicit(propagation, w, bias)

    ours = torch.autograd.grad(loss(checkpoint(solve, w, bias, use_reentrant=False)), [w, bias])
    assert_all_close(ours, known_gradients(propagation, w, bias, loss), rtol=1e-8)


def test_torch_func_computes_the_same_gradients(case):
    propagation, w, bias = case

    def value(w, bias):
        return loss(implicit(propagation, w, bias))

    ours = torch.func.grad(value, (0, 1))(w.detach(), bias.detach())
    assert_all_close(ours, known_gradients(propagation, w, bias, loss), rtol=1e-8)


def test_autocast_does_not_change_the_gradients(device):
    # Backward inside the autocast block is discouraged but common.
    propagation = operator("dir", *edges("dir", device)).to(torch.float32)
    w = weights("general", device).float().requires_grad_()
    bias = normal(8, 3, device=device).float().requires_grad_()
    z, _ = equilibria(propagation, w, bias, SCALES, GAMMA)
    want = torch.autograd.grad(z.square().sum(), [w, bias])
    with torch.autocast(device.type, dtype=torch.bfloat16):
        z, _ = equilibria(propagation, w, bias, SCALES, GAMMA)
        ours = torch.autograd.grad(z.square().sum(), [w, bias])
    assert_all_close(ours, want, rtol=1e-5)
