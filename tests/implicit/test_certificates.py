"""The adjoint solve is certified like the forward solve, and its failures are reported."""

from dataclasses import replace

import pytest
import torch

from implicit.cases import (
    ADMITTED,
    GAMMA,
    SCALES,
    TIGHT,
    dense,
    edges,
    normal,
    operator,
    weights,
)
from mgnni import ArgumentError, ConvergenceError, ConvergenceWarning, Status
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options
from problems import dense_solution, weight


@pytest.mark.parametrize(("normalization", "kind", "solver"), ADMITTED)
def test_the_backward_log_holds_a_true_certificate(normalization, kind, solver, device):
    propagation = operator(normalization, *edges(normalization, device))
    tol = 1e-4  # loose, so that the errors are far above rounding
    for index, scale in enumerate(SCALES):
        w, bias = weights(kind, device)[index : index + 1], normal(8, 3, device=device)
        bias.requires_grad_()
        options = Options(solver, tol)
        z, log = equilibria(propagation, w, bias, (scale,), GAMMA, options=options)
        assert log.backward == ()
        cotangent = torch.zeros_like(z)
        cotangent[:, 3] = normal(3, device=device, seed=7)
        (u,) = torch.autograd.grad(z, bias, cotangent)
        (forward,), (backward,) = log.forward, log.backward

        assert backward.status is Status.CONVERGED
        assert (backward.scale, backward.tol) == (scale, tol)
        assert backward.contraction == pytest.approx(forward.contraction, rel=1e-12)
        assert 0 < backward.contraction < 1
        assert backward.solver == forward.solver != "auto"
        dual = {"frobenius": "frobenius", "max": "sum", "sum": "max"}
        assert backward.norm == dual[forward.norm]
        # The adjoint equation, written out: U = gamma (P^T)^m U W^T + G.
        p = torch.linalg.matrix_power(propagation.to_dense().T, scale)
        residual = (GAMMA * p @ u @ w[0].T + cotangent[0] - u).norm().item()
        assert backward.residual == pytest.approx(residual, rel=1e-6, abs=1e-14)
        reference = max(cotangent.norm().item(), u.norm().item())
        assert backward.relative_residual == pytest.approx(
            residual / reference, rel=1e-6, abs=1e-14
        )
        assert backward.relative_residual <= tol
        system = torch.eye(24, dtype=torch.float64, device=device)
        system = system - GAMMA * torch.kron(p, w[0].contiguous())
        want = torch.linalg.solve(system, cotangent.flatten()).view(8, 3)
        assert (u - want).norm().item() <= backward.error_bound


def blind_bias(w, device):
    """A bias that ``W`` sends to zero, so that the forward equation is solved in one step."""
    _, _, right = torch.linalg.svd(w.T)
    return normal(8, 1, device=device) * right[-1]


@pytest.mark.parametrize("solver", ["picard", "anderson", "gmres", "cg"])
def test_a_backward_solve_that_fails_raises(solver, device):
    normalization = "sym" if solver == "cg" else "dir"
    propagation = operator(normalization, *edges(normalization, device))
    w = weight("rank-one", 3).to(device)
    bias = blind_bias(w, device).requires_grad_()
    options = Options(solver, 1e-10, max_iter=3)
    z, log = equilibria(propagation, w[None], bias, (1,), GAMMA, options=options)
    torch.testing.assert_close(z[0], bias)
    with pytest.raises(ConvergenceError, match=r"adjoint.*after 3 iterations.*max_iter at None"):
        z.square().sum().mul(normal(1, device=device).sum()).add(z.sum()).backward()
    assert bias.grad is None
    assert log.backward[0].status is Status.MAX_ITER


def test_a_backward_solve_that_fails_warns_on_request(device):
    # Three Picard steps sum the first three terms of the Neumann series of the adjoint.
    propagation = operator("dir", *edges("dir", device))
    w = weight("rank-one", 3).to(device)
    bias = blind_bias(w, device).requires_grad_()
    options = Options("picard", 1e-10, max_iter=3, on_failure="warn")
    z, log = equilibria(propagation, w[None], bias, (2,), GAMMA, options=options)
    cotangent = normal(8, 3, device=device, seed=7)
    with pytest.warns(ConvergenceWarning, match=r"adjoint.*after 3 iterations.*max_iter at None"):
        (u,) = torch.autograd.grad(z, bias, cotangent[None])
    p = torch.linalg.matrix_power(propagation.to_dense().T, 2)
    term, want = cotangent, cotangent
    for _ in range(2):
        term = GAMMA * p @ term @ w.T
        want = want + term
    torch.testing.assert_close(u, want, rtol=1e-12, atol=1e-14)
    stats = log.backward[0]
    assert (stats.status, stats.iterations, stats.converged) == (Status.MAX_ITER, 3, False)
    assert stats.relative_residual > stats.tol
    true = dense_solution_of_the_adjoint(propagation, w, cotangent)
    assert (u - true).norm().item() <= stats.error_bound  # holds for failed solves as well


def dense_solution_of_the_adjoint(propagation, w, cotangent):
    return dense_solution(propagation.adjoint(), w.T, cotangent, 2, GAMMA)


def test_a_forward_solve_that_fails_raises_or_warns(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = weights("general", device), normal(8, 3, device=device)
    options = Options("picard", 1e-10, max_iter=3)
    with pytest.raises(ConvergenceError, match=r"equilibrium.*3 iterations.*max_iter at None"):
        equilibria(propagation, w, bias, SCALES, GAMMA, options=options)
    options = replace(options, on_failure="warn")
    with pytest.warns(ConvergenceWarning, match="equilibrium equation") as caught:
        z, log = equilibria(propagation, w, bias, SCALES, GAMMA, options=options)
    assert len(caught) == len(SCALES)
    truth = dense(propagation, w, bias)
    for ours, want, stats in zip(z, truth, log.forward, strict=True):
        assert 0 < (ours - want).norm().item() <= stats.error_bound


@pytest.mark.parametrize("on_failure", ["raise", "warn"])
@pytest.mark.parametrize("solver", ["auto", "picard", "anderson", "gmres", "cg", "spectral"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_named(value, solver, on_failure, device):
    propagation = operator("sym", *edges("sym", device))
    bias = normal(8, 3, device=device).requires_grad_()
    z, _ = equilibria(
        propagation,
        weights("psd", device),
        bias,
        SCALES,
        GAMMA,
        options=Options(solver, on_failure=on_failure),
    )
    cotangent = torch.zeros_like(z)
    cotangent[1, 3, 0] = value
    with pytest.raises(ArgumentError, match=r"the gradient .* finite .* check .*loss"):
        torch.autograd.grad(z, bias, cotangent)


def test_a_second_gradient_that_is_not_finite_is_not_blamed_on_the_bias(device):
    propagation = operator("dir", *edges("dir", device))
    bias = normal(8, 3, device=device).requires_grad_()
    z, _ = equilibria(propagation, weights("psd", device), bias, SCALES, GAMMA)
    (first,) = torch.autograd.grad(z.square().sum(), bias, create_graph=True)
    with pytest.raises(ArgumentError, match="gradient") as caught:
        torch.autograd.grad(first, bias, torch.full_like(first, float("nan")))
    assert "'bias'" not in str(caught.value)


def test_second_derivatives_leave_the_log_of_the_pass_alone(device):
    propagation = operator("dir", *edges("dir", device))
    w = weights("psd", device).requires_grad_()
    bias = normal(8, 3, device=device).requires_grad_()
    z, log = equilibria(propagation, w, bias, SCALES, GAMMA, options=TIGHT)
    forward = log.forward
    (first,) = torch.autograd.grad(z.sum(), bias, create_graph=True)  # does not depend on z
    backward = log.backward
    first.square().sum().backward()
    assert all(one is other for one, other in zip(log.forward, forward, strict=True))
    assert all(one is other for one, other in zip(log.backward, backward, strict=True))
    assert [stats.scale for stats in log.backward] == list(SCALES)
