"""Solves that do not converge are reported, every time."""

import warnings

import pytest
import torch
from torch import Tensor

from mgnni import (
    ArgumentError,
    ConvergenceError,
    ConvergenceWarning,
    MgnniError,
    NotContractiveError,
    Propagation,
    SolveResult,
    Status,
    solve_equilibria,
    solve_equilibrium,
)
from mgnni.solve.prepare import METHODS
from problems import chain, dense_solution, generator, propagation, weight

SEEDS = range(100)
# Closed forms take no iterations, and neither does "wide" with few channels.
LIMITED = [name for name in METHODS if name not in ("spectral", "wide", "dense")]


def slow(seed: int, device: torch.device, dtype: torch.dtype = torch.float64):
    """A chain with one slow direction, which a few steps cannot resolve, from a random bias."""
    operator = Propagation.from_edge_index(chain(30).to(device), 30, dtype=dtype)
    bias = torch.randn(30, 2, dtype=torch.float64, generator=generator(seed)).to(device, dtype)
    return operator, weight("rank-one", 2, seed).to(device, dtype), bias


def relative_residual(operator, w, bias, scale, gamma, z: Tensor) -> float:
    """By dense products in float64, at the point returned."""
    p = torch.linalg.matrix_power(operator.to_dense().double(), scale)
    residual = gamma * p @ z.double() @ w.double() + bias.double() - z.double()
    return residual.norm().item() / max(bias.double().norm().item(), z.double().norm().item())


def outcome(*args, **options) -> tuple[SolveResult, list[str]]:
    """Returns the result and the messages of convergence warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve_equilibrium(*args, on_failure="warn", **options)
    return result, [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


@pytest.mark.parametrize("solver", LIMITED)
def test_too_few_iterations_are_reported_every_time(solver, device):
    for seed in SEEDS:
        operator, w, bias = slow(seed, device)
        limit = 1 + seed % 6
        result, said = outcome(operator, w, bias, 1, 0.99, solver=solver, tol=1e-10, max_iter=limit)
        assert result.status is Status.MAX_ITER
        assert not result.converged
        assert result.relative_residual > 1e-10
        assert result.iterations <= limit
        assert len(said) == 1
        # The numbers of a failed solve are correct as well.
        measured = relative_residual(operator, w, bias, 1, 0.99, result.value)
        assert result.relative_residual == pytest.approx(measured, rel=1e-9)
        error = (result.value - dense_solution(operator, w, bias, 1, 0.99)).norm().item()
        assert error <= result.error_bound


@pytest.mark.parametrize("solver", LIMITED)
def test_failure_raises_by_default_with_the_numbers(solver, device):
    operator, w, bias = slow(0, device)
    expected = (
        rf"equilibrium equation: solver '{solver}' at scale 2 stopped after \d+ iterations with "
        r"relative residual \d\.\d+e[+-]\d+ \(tol=1e-10, contraction 0\.99\d*\): "
        r"the iteration budget ran out; leave max_iter at None or raise it, or loosen tol"
    )
    with pytest.raises(ConvergenceError, match=expected) as caught:
        solve_equilibrium(operator, w, bias, 2, 0.99, solver=solver, tol=1e-10, max_iter=3)
    assert isinstance(caught.value, MgnniError)
    assert isinstance(caught.value, RuntimeError)
    result, said = outcome(operator, w, bias, 2, 0.99, solver=solver, tol=1e-10, max_iter=3)
    assert said == [str(caught.value)]
    assert result.failure() in said[0]


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_tolerance_below_rounding_is_reported_every_time(solver, device):
    """float32 states cannot meet 1e-9: their own rounding leaves a residual of some 1e-8."""
    for seed in SEEDS:
        operator, w, bias = slow(seed, device, torch.float32)
        result, said = outcome(operator, w, bias, 1 + seed % 3, 0.9, solver=solver, tol=1e-9)
        assert result.status in (Status.STAGNATED, Status.MAX_ITER)
        assert result.relative_residual > 1e-9
        assert len(said) == 1
        assert "float64" in said[0] or "max_iter" in said[0]
        # The states are as accurate as float32 permits.
        measured = relative_residual(operator, w, bias, 1 + seed % 3, 0.9, result.value)
        assert measured <= 3e-7
        assert result.relative_residual == pytest.approx(measured, rel=1e-3)


def test_a_tolerance_below_rounding_raises_by_default(device):
    operator, w, bias = slow(0, device, torch.float32)
    with pytest.raises(ConvergenceError, match=r"tol=1e-09.*loosen tol, or use float64"):
        solve_equilibrium(operator, w, bias, tol=1e-9)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_wrong_norm_bound_never_leads_to_an_unreported_wrong_answer(solver, device):
    """The given norm bound is 0.9, the true norm is above 2, and the map expands."""
    failures = 0
    for seed in SEEDS:
        g = generator(seed)
        edge_index = chain(12).to(device)
        strength = 1.2 + torch.rand((), dtype=torch.float64, generator=g).item()
        given = torch.full((22,), strength, dtype=torch.float64, device=device)
        operator = Propagation.from_edge_index(edge_index, 12, given, "none", False, norm_bound=0.9)
        assert torch.linalg.matrix_norm(operator.to_dense(), 2).item() > 2
        w = weight("rank-one", 2, seed).to(device)
        bias = torch.randn(12, 2, dtype=torch.float64, generator=g).to(device)
        result, said = outcome(operator, w, bias, 1, 0.7, solver=solver, tol=1e-5)
        measured = relative_residual(operator, w, bias, 1, 0.7, result.value)
        # Some methods may solve the system nevertheless; then the residual proves it.
        assert result.converged == (len(said) == 0)
        assert result.converged == (result.relative_residual <= 1e-5)
        assert not result.converged or measured <= 1.001e-5
        failures += not result.converged
    if solver in ("picard", "series", "chebyshev"):
        assert failures == len(SEEDS), "these rely on the contraction"


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_overflow_is_reported_every_time(solver, device):
    """The solution is ten times as large as the bias, which exceeds float32."""
    operator = Propagation.from_edge_index(chain(6).to(device), 6)
    w = torch.eye(2, device=device)
    for seed in SEEDS:
        g = generator(seed)
        size = 1e38 * (1 + torch.rand(6, 2, generator=g)).to(device)
        result, said = outcome(operator, w, size, 1, 0.9, solver=solver, tol=1e-5)
        assert result.status is Status.NOT_FINITE
        assert len(said) == 1
        assert "inf or nan" in said[0]
    with pytest.raises(ConvergenceError, match="became inf or nan"):
        solve_equilibrium(operator, w, size, 1, 0.9, solver=solver, tol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_bias_that_is_not_finite_is_named_every_time(solver, bad, device):
    for seed in range(34):
        for dtype in (torch.float64, torch.float32):
            operator, w, bias = slow(seed, device, dtype)
            bias[seed % 30, seed % 2] = bad
            for on_failure in ("raise", "warn"):
                with pytest.raises(ArgumentError, match=r"'bias' must be finite \(got nan or inf"):
                    solve_equilibrium(
                        operator, w, bias, 1, 0.8, solver=solver, on_failure=on_failure
                    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_named(bad, device):
    operator, w, bias = slow(0, device)
    w[0, 1] = bad
    with pytest.raises(ArgumentError, match=r"'weight' must be finite \(got nan or inf"):
        solve_equilibrium(operator, w, bias)


@pytest.mark.parametrize("solver", LIMITED)
def test_one_stiff_graph_fails_for_the_batch(solver, device):
    """Many easy graphs must not hide one that failed."""
    edges = torch.cat([chain(30), torch.arange(30, 60).expand(2, -1)], dim=1).to(device)
    batch = torch.cat([torch.zeros(30), torch.arange(1, 31)]).long().to(device)
    operator = Propagation.from_edge_index(
        edges, 60, batch=batch, self_loops=False, dtype=torch.float64
    )
    w = weight("rank-one", 2).to(device)
    bias = torch.randn(60, 2, dtype=torch.float64, device=device)
    bias[30:] *= 1e-6
    with pytest.raises(ConvergenceError, match="max_iter at None"):
        solve_equilibrium(operator, w, bias, 1, 0.99, solver=solver, tol=1e-9, max_iter=5)


def test_one_scale_that_fails_is_named(device):
    operator, w, bias = slow(0, device)
    stack = torch.stack([w, 1e-3 * w])
    with pytest.raises(ConvergenceError, match="solver 'picard' at scale 1 "):
        solve_equilibria(operator, stack, bias, (1, 2), 0.99, solver="picard", tol=1e-9, max_iter=9)
    with pytest.raises(ConvergenceError, match="solver 'picard' at scale 1 "):
        solve_equilibria(
            operator, stack.flip(0), bias, (2, 1), 0.99, solver="picard", tol=1e-9, max_iter=9
        )
    with pytest.warns(ConvergenceWarning, match="at scale 1 "):
        first, second = solve_equilibria(
            operator,
            stack,
            bias,
            (1, 2),
            0.99,
            solver="picard",
            tol=1e-9,
            max_iter=9,
            on_failure="warn",
        )
    assert (first.status, second.status) == (Status.MAX_ITER, Status.CONVERGED)
    expected = dense_solution(operator, stack[1], bias, 2, 0.99)
    torch.testing.assert_close(second.value, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_an_expanding_map_is_refused_with_the_numbers(solver, device):
    operator, w, bias = slow(0, device)
    message = (
        r"gamma \* \|\|W\|\|_2 \* \|\|P\|\|\^scale must be below 1 "
        r"\(got 1\.6 = 0\.8 \* 2 \* 1\^3; S is symmetric.*\); lower gamma"
    )
    with pytest.raises(NotContractiveError, match=message) as caught:
        solve_equilibrium(operator, 2 * w, bias, 3, 0.8, solver=solver)
    assert isinstance(caught.value, ValueError)


def test_an_operator_that_expands_is_refused_at_the_scale_where_it_does(device):
    """Norm 1.2: contracts at scale 1 with gamma 0.5, still at 3, no longer at 4."""
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    operator = Propagation.from_edge_index(
        edge_index, 2, torch.full((2,), 1.2, dtype=torch.float64, device=device), "none", False
    )
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.tensor([[1.0], [2.0]], dtype=torch.float64, device=device)
    for scale in (1, 3):
        result = solve_equilibrium(operator, one, bias, scale, 0.5, tol=1e-12)
        torch.testing.assert_close(result.value, dense_solution(operator, one, bias, scale, 0.5))
        assert result.contraction == pytest.approx(0.5 * 1.2**scale)
    with pytest.raises(NotContractiveError, match=r"got 1\.037 = 0\.5 \* 1 \* 1\.2\^4"):
        solve_equilibrium(operator, one, bias, 4, 0.5)


@pytest.mark.parametrize("solver", ["auto", "picard", "gmres", "dense"])
@pytest.mark.parametrize("form", ["symmetric", "general"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_weights_at_the_end_of_the_range_are_refused(dtype, form, solver, device):
    """Their norm exceeds the range, or the powers of the operator do."""
    largest = torch.finfo(dtype).max
    w = torch.full((4, 4), largest, dtype=dtype, device=device)
    if form == "general":
        w = w.triu()
    operator = Propagation.from_edge_index(chain(6).to(device), 6, dtype=dtype)
    bias = torch.ones(6, 4, dtype=dtype, device=device)
    for scale in (1, 50):
        with pytest.raises(NotContractiveError, match="must be below 1"):
            solve_equilibrium(operator, w, bias, scale, 0.5, solver=solver)
    given = torch.full((10,), 0.1 * largest, dtype=dtype, device=device)
    operator = Propagation.from_edge_index(chain(6).to(device), 6, given, "none", False)
    for scale in (1, 2, 50):
        with pytest.raises(NotContractiveError, match="must be below 1"):
            solve_equilibrium(operator, w / largest, bias, scale, 0.5, solver=solver)


def test_a_constant_of_one_is_refused_and_one_just_below_is_solved(device):
    operator = Propagation.from_edge_index(chain(5).to(device), 5, dtype=torch.float64)
    bias = torch.ones(5, 1, dtype=torch.float64, device=device)
    w = torch.full((1, 1), 2.0, dtype=torch.float64, device=device)
    with pytest.raises(NotContractiveError, match=r"got 1 = 0\.5 \* 2 \* 1\^1"):
        solve_equilibrium(operator, w, bias, 1, 0.5)
    result = solve_equilibrium(operator, w * (1 - 1e-4), bias, 1, 0.5, tol=1e-12)
    expected = dense_solution(operator, w * (1 - 1e-4), bias, 1, 0.5)
    assert (result.value - expected).norm().item() <= result.error_bound


def test_a_small_gamma_admits_a_weight_of_large_norm(device):
    operator = propagation("dir").to(device)
    w = 10 * weight("general", 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 2, 0.09, tol=1e-12)
    torch.testing.assert_close(result.value, dense_solution(operator, w, bias, 2, 0.09))
