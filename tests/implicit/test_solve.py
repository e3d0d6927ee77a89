"""The public solve: its results are the dense solution within a certified bound."""

import dataclasses

import pytest
import torch

from implicit.cases import (
    ADMITTED,
    GAMMA,
    NORMALIZATIONS,
    SCALES,
    dense,
    edges,
    normal,
    operator,
    weights,
)
from mgnni import Propagation, Status, solve_equilibria, solve_equilibrium
from problems import dense_solution, weight


@pytest.mark.parametrize(("normalization", "kind", "solver"), ADMITTED)
def test_every_result_is_the_dense_solution_within_its_bound(normalization, kind, solver, device):
    propagation = operator(normalization, *edges(normalization, device))
    w, bias = weights(kind, device), normal(8, 3, device=device)
    results = solve_equilibria(propagation, w, bias, SCALES, GAMMA, solver=solver, tol=1e-6)
    for result, truth, scale in zip(results, dense(propagation, w, bias), SCALES, strict=True):
        error = (result.value - truth).norm().item()
        assert error <= result.error_bound
        assert result.error_bound <= 1e-3 * truth.norm().item()  # the bound is useful
        assert (result.status, result.scale, result.tol) == (Status.CONVERGED, scale, 1e-6)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_scales_together_are_the_scales_one_by_one(normalization, device):
    propagation = operator(normalization, *edges(normalization, device))
    w, bias = weights("psd", device), normal(8, 3, device=device)
    together = solve_equilibria(propagation, w, bias, SCALES, GAMMA, tol=1e-12)
    for result, one, scale in zip(together, w, SCALES, strict=True):
        alone = solve_equilibrium(propagation, one, bias, scale, GAMMA, tol=1e-12)
        torch.testing.assert_close(result.value, alone.value, rtol=1e-10, atol=1e-12)
        assert (result.scale, result.solver) == (alone.scale, alone.solver)
        assert result.contraction == pytest.approx(alone.contraction, rel=1e-12)


def test_scales_may_have_any_order(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = weights("general", device), normal(8, 3, device=device)
    for result, one, scale in zip(
        solve_equilibria(propagation, w, bias, (3, 1, 5), GAMMA, tol=1e-12),
        w,
        (3, 1, 5),
        strict=True,
    ):
        want = dense_solution(propagation, one, bias, scale, GAMMA)
        torch.testing.assert_close(result.value, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("normalization", "kind", "used"),
    [
        ("sym", "psd", "chebyshev"),
        ("sym", "indefinite", "chebyshev"),
        ("dir", "psd", "series"),
        ("dir", "general", "gmres"),
        ("sym", "general", "gmres"),
    ],
)
def test_auto_decides_by_symmetry_and_the_result_names_the_solver(
    normalization, kind, used, device
):
    propagation = operator(normalization, *edges(normalization, device))
    w, bias = 1.2 * weight(kind, 3).to(device), normal(8, 3, device=device)
    assert solve_equilibrium(propagation, w, bias).solver == used


def test_a_strong_contraction_without_symmetry_is_solved_by_picard(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = 0.5 * weight("general", 3).to(device), normal(8, 3, device=device)
    result = solve_equilibrium(propagation, w, bias, gamma=0.9)
    assert result.contraction == pytest.approx(0.45, rel=1e-12)
    assert result.solver == "picard"


@pytest.mark.parametrize("gamma", [0, 0.0, 1e-300])
def test_without_coupling_the_state_is_the_bias(gamma, device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = weight("general", 3).to(device), normal(8, 3, device=device)
    w.requires_grad_()
    result = solve_equilibrium(propagation, w, bias, gamma=gamma)
    torch.testing.assert_close(result.value, bias, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(result.value.sum(), w)
    torch.testing.assert_close(grad, torch.zeros_like(w))


def test_a_bias_of_zeros_has_the_state_zero(device):
    propagation = operator("dir", *edges("dir", device))
    result = solve_equilibrium(
        propagation, weight("general", 3).to(device), torch.zeros(8, 3, device=device).double()
    )
    assert result.value.abs().max() == 0
    assert (result.residual, result.relative_residual, result.error_bound) == (0, 0, 0)
    assert result.converged


def test_the_result_is_frozen_and_prints_without_its_tensors(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = weight("general", 3).to(device), normal(8, 3, device=device)
    result = solve_equilibrium(propagation, w, bias)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.residual = 0.0
    assert "tensor" not in repr(result)
    assert "solver='gmres'" in repr(result)


def test_a_given_norm_bound_is_used(device):
    edge_index, edge_weight = edges("none", device)
    propagation = Propagation.from_edge_index(
        edge_index, 8, 3 * edge_weight, "none", False, norm_bound=1.25
    )
    w, bias = 0.8 * weight("general", 3).to(device), normal(8, 3, device=device)
    result = solve_equilibrium(propagation, w, bias, scale=1, gamma=0.5, on_failure="raise")
    assert result.contraction == pytest.approx(0.5 * 0.8 * 1.25, rel=1e-12)
