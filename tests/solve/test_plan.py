"""The precision and the mode of autograd in which plans solve."""

import pytest
import torch

from mgnni import solve_equilibrium
from mgnni.solve.plan import full_precision
from mgnni.solve.prepare import METHODS
from problems import dense_solution, propagation, weight


def test_autocast_does_not_reach_the_solve(device):
    operator = propagation("dir").to(device).to(torch.float32)
    w = weight("random", 3).to(device).float()
    bias = torch.randn(12, 3, device=device)
    for solver in ("picard", "gmres", "series"):
        plain = solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver).value
        with torch.autocast(device.type, dtype=torch.bfloat16):
            under = solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver).value
        assert under.dtype is torch.float32
        torch.testing.assert_close(under, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("choice", ["highest", "high", "medium"])
def test_products_are_in_full_precision_on_a_cpu_too(choice):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(choice)
        with full_precision(torch.device("cpu")):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == choice
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="needs torch 2.9")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_precision_chosen_in_backends_does_not_reach_the_solve(place, device):
    places = [torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    operator = propagation("dir").to(device).to(torch.float32)
    bias = torch.randn(12, 3, device=device)
    before = [one.fp32_precision for one in places]
    try:
        for one in places:
            one.fp32_precision = "none"
        places[place].fp32_precision = "tf32"
        chosen = [one.fp32_precision for one in places]
        with full_precision(device):
            assert [one.fp32_precision for one in places[1:]] == ["ieee", "ieee"]
        result = solve_equilibrium(operator, weight("random", 3).to(device).float(), bias)
        assert result.converged
        assert [one.fp32_precision for one in places] == chosen, "the caller's choice was undone"
        places[place].fp32_precision = "none"
        after = [one.fp32_precision for one in places]
        assert after == ["none"] * 3, "the products no longer follow torch.backends"
    finally:
        for one, choice in zip(places, before, strict=True):
            one.fp32_precision = choice


def test_reduced_precision_does_not_reach_the_solve(device):
    operator = propagation("dir", 64).to(device).to(torch.float32)
    w = weight("random", 64).to(device).float()
    bias = torch.randn(64, 64, device=device)
    expected = dense_solution(operator, w[:1, :1], bias[:, :1], 1, 0.9)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        result = solve_equilibrium(operator, w, bias, 2, 0.9, tol=1e-6)
        small = solve_equilibrium(operator, w[:1, :1], bias[:, :1], 1, 0.9, tol=1e-6)
        assert torch.get_float32_matmul_precision() == "medium", "the caller's choice was undone"
    finally:
        torch.set_float32_matmul_precision(before)
    p = operator.to_dense().double() @ operator.to_dense().double()
    residual = 0.9 * p @ result.value.double() @ w.double() + bias.double() - result.value.double()
    assert residual.norm() <= 1.5e-6 * result.value.double().norm()
    assert (small.value.double() - expected).norm().item() <= small.error_bound


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_training_works_after_inference_mode(solver, device):
    """Matrices, memory and eigenpairs created under inference_mode are reused for gradients."""
    operator = propagation("sym", 9, seed=7).to(device).to(torch.float32)
    w = weight("random", 3).to(device).float()
    bias = torch.randn(9, 3, device=device)
    with torch.inference_mode():
        inside = solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver, tol=1e-6).value
    learned = bias.clone().requires_grad_()
    outside = solve_equilibrium(operator, w, learned, 2, 0.9, solver=solver, tol=1e-6).value
    torch.testing.assert_close(outside.detach(), inside.clone(), rtol=1e-6, atol=1e-6)
    cotangent = torch.randn(9, 3, device=device)
    (grad,) = torch.autograd.grad(outside, learned, cotangent)
    expected = dense_solution(operator.adjoint(), w.T, cotangent, 2, 0.9)
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-4)
