"""Propose, measure, refine: what is returned has met the tolerance by measurement."""

import pytest
import torch

from mgnni import Propagation, solve_equilibrium
from mgnni.solve.plan import full_precision
from mgnni.solve.prepare import METHODS
from problems import chain, dense_solution, generator, propagation, weight


@pytest.mark.parametrize("solver", ["picard", "anderson", "gmres", "series", "auto"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_float32_reaches_a_tolerance_near_its_rounding(normalization, solver, device):
    """Refined with residuals in float64, float32 states meet 5e-7, sixteen times their unit."""
    for seed in range(12):
        operator = propagation(normalization, 20, seed).to(device).to(torch.float32)
        w = weight("rank-one", 3, seed).to(device).float()
        bias = torch.randn(20, 3, generator=generator(seed)).to(device)
        gamma = (0.8, 0.95, 0.99)[seed % 3]
        result = solve_equilibrium(operator, w, bias, 1 + seed % 4, gamma, solver=solver, tol=5e-7)
        expected = dense_solution(operator, w, bias, 1 + seed % 4, gamma)
        error = (result.value.double() - expected).norm().item()
        assert error <= result.error_bound


def test_a_correction_that_meets_the_tolerance_is_kept(device):
    """Just above the tolerance before, below it after: that is success, halved or not."""
    leaves = torch.arange(1, 40)
    edge_index = torch.stack([leaves, torch.zeros_like(leaves)]).to(device)
    operator = Propagation.from_edge_index(
        edge_index, 40, normalization="out", flow="target_to_source", dtype=torch.float32
    )
    w = weight("rank-one", 3).to(device).float()
    for seed in range(20):
        bias = torch.randn(40, 3, generator=generator(seed)).to(device)
        result = solve_equilibrium(operator, w, bias, 3, 0.9, solver="picard", tol=1e-6)
        assert result.relative_residual <= 1e-6


@pytest.mark.parametrize("form", ["indefinite", "random"])
@pytest.mark.parametrize("solver", ["series", "chebyshev", "spectral"])
def test_a_proposal_to_a_proven_tolerance_needs_no_second(solver, form, device, monkeypatch):
    """What is proven before the sweep is found after it; a correction would betray a mistake."""
    proposals = []
    kind = type(METHODS[solver])
    propose = kind.propose

    def counted(self, equations, tol, max_iter):
        proposals.append(tol)
        return propose(self, equations, tol, max_iter)

    monkeypatch.setattr(kind, "propose", counted)
    operator = propagation("sym").to(device)
    for seed in range(5):
        w = weight(form, 4, seed).to(device)
        bias = torch.randn(12, 4, dtype=torch.float64, generator=generator(seed)).to(device)
        for scale in (1, 2, 3, 8):
            proposals.clear()
            solve_equilibrium(operator, w, bias, scale, 0.95, solver=solver, tol=1e-11)
            assert len(proposals) == 1, (seed, scale)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_looser_tolerance_takes_no_more_work(solver, device):
    operator = Propagation.from_edge_index(chain(30).to(device), 30, dtype=torch.float64)
    w = weight("rank-one", 2).to(device)
    bias = torch.randn(30, 2, dtype=torch.float64, device=device)
    counts = [
        solve_equilibrium(operator, w, bias, 1, 0.9, solver=solver, tol=tol).iterations
        for tol in (0.5, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    ]
    assert counts == sorted(counts)
    assert solver in ("spectral", "wide") or counts[-1] > counts[0]  # closed forms have none


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_solving_twice_gives_the_same(solver, device):
    operator = propagation("sym").to(device)
    w = weight("random", 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    first, second = (
        solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver).value for _ in range(2)
    )
    torch.testing.assert_close(first, second, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_solution_is_not_borrowed_memory(solver, device):
    """Later solves must not write into what was returned."""
    operator = propagation("sym").to(device)
    w = weight("random", 3).to(device)
    biases = torch.randn(3, 12, 3, dtype=torch.float64, device=device)
    values = [solve_equilibrium(operator, w, b, 2, 0.9, solver=solver).value for b in biases]
    kept = [value.clone() for value in values]
    for bias in biases.flip(0):
        solve_equilibrium(operator, w, bias, 3, 0.9, solver=solver)
    for value, before in zip(values, kept, strict=True):
        assert torch.equal(value, before)


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
def test_inference_leaves_nothing_that_training_trips_over(solver, device):
    """Matrices, memory and eigenpairs made under inference_mode are used again for gradients."""
    operator = propagation("sym", 9, seed=7).to(device).to(torch.float32)
    w = weight("random", 3).to(device).float()
    bias = torch.randn(9, 3, device=device)
    with torch.inference_mode():
        inside = solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver, tol=1e-6).value
    learnt = bias.clone().requires_grad_()
    outside = solve_equilibrium(operator, w, learnt, 2, 0.9, solver=solver, tol=1e-6).value
    torch.testing.assert_close(outside.detach(), inside.clone(), rtol=1e-6, atol=1e-6)
    cotangent = torch.randn(9, 3, device=device)
    (grad,) = torch.autograd.grad(outside, learnt, cotangent)
    expected = dense_solution(operator.adjoint(), w.T, cotangent, 2, 0.9)
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-4)
