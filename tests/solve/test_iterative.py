"""Iterative methods: Picard iteration, conjugate gradients, GMRES, and the loop they share."""

import math
from itertools import pairwise

import pytest
import torch

from mgnni import ConvergenceWarning, Propagation, solve_equilibrium
from mgnni.solve.equation import Equations
from mgnni.solve.iterative import Iterative, State, System, divide
from mgnni.solve.prepare import METHODS
from mgnni.solve.weights import Weights
from problems import chain, dense_solution, generator, propagation, state_norm, weight


class Halve(Iterative):
    """Halves the residual in every step, whatever the equation is."""

    name = "halve"

    def step(self, system, state):
        state.z = state.z + state.r / 2
        state.r = state.r / 2


def proposed(method, operator, bias, tol, max_iter, gamma=0.9, form="general"):
    """States, iterations per graph and whether the budget ran out, for a single equation."""
    w = weight(form, bias.size(1)).unsqueeze(0).to(bias.device)
    equations = Equations(operator, (1,), gamma, Weights(w))
    found = method(equations).propose(bias.unsqueeze(0), tol, max_iter)
    return found.z[0], found.iterations[0].tolist(), found.exhausted


def after(operator, w, bias, scale, gamma, solver, count):
    """The iterate after ``count`` steps."""
    with pytest.warns(ConvergenceWarning):
        result = solve_equilibrium(
            operator,
            w,
            bias,
            scale,
            gamma,
            solver=solver,
            tol=1e-300,
            max_iter=count,
            on_failure="warn",
        )
    assert result.iterations == count
    return result.value


def system_matrix(operator, w, scale, gamma):
    """The matrix of the equation for the flattened states."""
    p = torch.linalg.matrix_power(operator.to_dense(), scale)
    kron = torch.kron(p, w.T.contiguous())
    return torch.eye(len(kron), dtype=torch.float64, device=w.device) - gamma * kron


def krylov(matrix, start, size):
    """An orthonormal basis of the span of ``b, A b, .., A^(size-1) b``."""
    vectors = []
    v = start
    for _ in range(size):
        for _ in range(2):
            for u in vectors:
                v = v - (u @ v) * u
        v = v / v.norm()
        vectors.append(v)
        v = matrix @ v
    return torch.stack(vectors, dim=1)


def normal(*shape, device):
    return torch.randn(shape, dtype=torch.float64, generator=generator(1)).to(device)


class TestLoop:
    def test_each_graph_stops_when_its_own_residual_is_small_enough(self, device):
        """Residuals are 2^-k b relative to b, because z = (1 - 2^-k) b is smaller."""
        batch = torch.tensor([0, 0, 1, 1, 1, 2], device=device)
        empty = torch.zeros(2, 0, dtype=torch.long, device=device)
        operator = Propagation.from_edge_index(empty, 6, batch=batch, dtype=torch.float64)
        bias = normal(6, 2, device=device)
        bias[2:5] = 0
        z, steps, exhausted = proposed(Halve, operator, bias, 2.0**-10, 50)
        assert steps == [10, 0, 10]
        assert not exhausted
        torch.testing.assert_close(z, bias * (1 - 2.0**-10), rtol=1e-15, atol=0)

    def test_the_budget_is_the_number_of_steps(self, device):
        operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
        bias = torch.ones(4, 1, dtype=torch.float64, device=device)
        z, steps, exhausted = proposed(Halve, operator, bias, 1e-9, 7)
        assert (steps, exhausted) == ([7], True)
        torch.testing.assert_close(z, bias * (1 - 2.0**-7), rtol=1e-15, atol=0)
        assert bool((bias == 1).all()), "the bias was written to"

    @pytest.mark.parametrize("name", ["picard", "anderson", "cg", "gmres"])
    def test_the_residual_of_the_whole_graph_decides(self, name, device):
        """With a bias on one node, most rows have not moved after the first steps."""
        operator = Propagation.from_edge_index(chain(20).to(device), 20, dtype=torch.float64)
        w, dense = weight("random", 2).to(device), operator.to_dense()
        for node in (0, 7, 19):
            bias = torch.zeros(20, 2, dtype=torch.float64, device=device)
            bias[node] = 1.0
            for tol in (1e-2, 1e-6, 1e-10):
                z, _, exhausted = proposed(METHODS[name], operator, bias, tol, 5000, 0.99, "random")
                residual = 0.99 * dense @ z @ w + bias - z
                assert not exhausted
                assert residual.norm() <= tol * max(bias.norm(), z.norm()) * (1 + 1e-3)

    def test_the_linear_part_is_that_of_the_equation(self, device):
        operator, w = propagation("out").to(device), weight("general", 3).to(device)
        x = normal(12, 3, device=device)
        equation = Equations(operator, (3,), 0.7, Weights(w.unsqueeze(0)))
        expected = 0.7 * torch.linalg.matrix_power(operator.to_dense(), 3) @ x @ w
        torch.testing.assert_close(System(equation, operator).linear(x), expected)

    def test_inner_products_are_taken_per_graph(self, device):
        batch = torch.tensor([0, 0, 1, 2], device=device)
        empty = torch.zeros(2, 0, dtype=torch.long, device=device)
        operator = Propagation.from_edge_index(empty, 4, batch=batch, dtype=torch.float64)
        x, y = normal(2, 4, 3, device=device)
        weights = Weights(weight("general", 3).unsqueeze(0).to(device))
        system = System(Equations(operator, (1,), 0.9, weights), operator)
        expected = torch.stack([(x[:2] * y[:2]).sum(), (x[2] * y[2]).sum(), (x[3] * y[3]).sum()])
        torch.testing.assert_close(system.dot(x, y), expected)
        history = torch.stack([x, y], dim=1)
        torch.testing.assert_close(system.dots(history, y)[:, 0], expected)
        torch.testing.assert_close(system.spread(expected, x), expected[batch])

    def test_frozen_nodes_keep_their_states_and_selected_nodes_stay(self, device):
        z, r, p = normal(3, 4, 2, device=device)
        history = normal(4, 3, 2, device=device)
        state = State(z, r, {"p": p, "h": history}, {"rr": torch.arange(2, device=device)})
        keep = torch.tensor([True, False, True, False], device=device)
        state.freeze(keep)
        for tensor in (state.r, state.memory["p"], state.memory["h"]):
            assert bool((tensor[~keep] == 0).all())
            assert bool((tensor[keep] != 0).all())
        torch.testing.assert_close(state.z, z)
        nodes = keep.nonzero().squeeze(1)
        state.select(nodes, torch.tensor([False, True], device=device))
        torch.testing.assert_close(state.z, z[nodes])
        torch.testing.assert_close(state.memory["h"], history[nodes])
        assert state.graphs["rr"].tolist() == [1]

    def test_division_by_zero_gives_zero(self):
        a = torch.tensor([1.0, 2.0, 0.0])
        b = torch.tensor([0.0, 4.0, 0.0])
        assert divide(a, b).tolist() == [0.0, 0.5, 0.0]


class TestPicard:
    @pytest.mark.parametrize("form", ["random", "general", "rank-one"])
    @pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
    @pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row", "none"])
    def test_every_step_contracts_by_the_proven_constant(self, normalization, flow, form, device):
        loops = normalization != "none"
        operator = propagation(normalization, flow=flow, self_loops=loops).to(device)
        w, bias = weight(form, 3).to(device), normal(12, 3, device=device)
        p = torch.linalg.matrix_power(operator.to_dense(), 2)
        norms = [state_norm(operator, bias)]
        for count in range(1, 9):
            z = after(operator, w, bias, 2, 0.95, "picard", count)
            norms.append(state_norm(operator, 0.95 * p @ z @ w + bias - z))
        constant = 0.95 * torch.linalg.matrix_norm(w, 2).item() * operator.norm_bound**2
        for before, following in pairwise(norms):
            assert following <= constant * before * (1 + 1e-12) + 1e-13 * norms[0]

    def test_iterates_are_partial_sums_of_the_neumann_series(self, device):
        operator, w = propagation("dir").to(device), weight("general", 3).to(device)
        bias = normal(12, 3, device=device)
        p = operator.to_dense() @ operator.to_dense()
        term, total = bias, torch.zeros_like(bias)
        for count in range(1, 6):
            total = total + term
            term = 0.9 * p @ term @ w
            value = after(operator, w, bias, 2, 0.9, "picard", count)
            torch.testing.assert_close(value, total, rtol=1e-13, atol=1e-13)

    @pytest.mark.parametrize("gamma", [0.5, 0.8, 0.95, 0.99])
    def test_the_constant_bounds_the_number_of_steps(self, gamma, device):
        """The residual at zero is the bias, so ln(tol) / ln(L) steps suffice."""
        operator = Propagation.from_edge_index(chain(40).to(device), 40, dtype=torch.float64)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        bias, tol = normal(40, 1, device=device), 1e-8
        result = solve_equilibrium(operator, one, bias, 1, gamma, solver="picard", tol=tol)
        assert result.contraction == pytest.approx(gamma)
        assert result.iterations <= math.ceil(math.log(0.7 * tol) / math.log(gamma))

    def test_iteration_stops_at_the_tolerance(self, device):
        """On one node the residual after k steps is 2^-k, relative to z = 2 (1 - 2^-k)."""
        empty = torch.zeros(2, 0, dtype=torch.long, device=device)
        operator = Propagation.from_edge_index(empty, 1, dtype=torch.float64)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        result = solve_equilibrium(operator, one, one, 1, 0.5, solver="picard", tol=1e-3)
        steps = next(k for k in range(1, 99) if 2.0**-k / (2 - 2.0 ** (1 - k)) <= 0.7e-3)
        assert result.iterations == steps
        assert result.value.item() == pytest.approx(2 * (1 - 2.0**-steps), rel=1e-15)


class TestConjugateGradients:
    @pytest.mark.parametrize("form", ["random", "indefinite"])
    def test_iterates_minimise_the_energy_norm_over_the_krylov_space(self, form, device):
        operator, w = propagation("sym", 8).to(device), weight(form, 2).to(device)
        bias = normal(8, 2, device=device)
        matrix, b = system_matrix(operator, w, 2, 0.95), bias.flatten()
        for count in range(1, 6):
            basis = krylov(matrix, b, count)
            expected = basis @ torch.linalg.solve(basis.T @ matrix @ basis, basis.T @ b)
            value = after(operator, w, bias, 2, 0.95, "cg", count)
            torch.testing.assert_close(value.flatten(), expected, rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
    @pytest.mark.parametrize("gamma", [0.8, 0.95, 0.99])
    def test_iterations_on_a_chain_stay_below_the_closed_form(self, gamma, tol, device):
        r"""The residual is at most 2 sqrt(kappa) rho^k, with kappa = (1 + L) / (1 - L)."""
        operator = Propagation.from_edge_index(chain(200).to(device), 200, dtype=torch.float64)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        bias = normal(200, 1, device=device)
        rate = (1 - math.sqrt(1 - gamma**2)) / gamma
        kappa = (1 + gamma) / (1 - gamma)
        limit = math.ceil(math.log(0.7 * tol / (2 * math.sqrt(kappa))) / math.log(rate))
        result = solve_equilibrium(operator, one, bias, 1, gamma, solver="cg", tol=tol)
        picard = solve_equilibrium(operator, one, bias, 1, gamma, solver="picard", tol=tol)
        assert result.iterations <= limit
        assert result.iterations < picard.iterations / 2

    def test_there_are_as_many_steps_as_eigenvalues(self, device):
        """The complete graph with self-loops has the eigenvalues 1 and 0, so A has two."""
        nodes = torch.arange(9)
        edge_index = torch.cartesian_prod(nodes, nodes).T
        edge_index = edge_index[:, edge_index[0] != edge_index[1]].to(device)
        operator = Propagation.from_edge_index(edge_index, 9, dtype=torch.float64)
        w = torch.eye(2, dtype=torch.float64, device=device)
        bias = normal(9, 2, device=device)
        result = solve_equilibrium(operator, w, bias, 1, 0.99, solver="cg", tol=1e-11)
        assert result.iterations == 2
        mean = bias.mean(0, keepdim=True)
        torch.testing.assert_close(result.value, bias - mean + mean / (1 - 0.99))


class TestGMRES:
    @pytest.mark.parametrize("normalization", ["dir", "out", "row"])
    def test_residuals_are_minimal_over_the_krylov_space(self, normalization, device):
        operator, w = propagation(normalization, 9).to(device), weight("general", 2).to(device)
        bias = normal(9, 2, device=device)
        matrix, b = system_matrix(operator, w, 2, 0.95), bias.flatten()
        for size in range(1, 6):
            space = krylov(matrix, b, size)
            best = torch.linalg.lstsq(matrix @ space, b.unsqueeze(1)).solution.squeeze(1)
            value = after(operator, w, bias, 2, 0.95, "gmres", size)
            torch.testing.assert_close(value.flatten(), space @ best, rtol=1e-8, atol=1e-9)

    @pytest.mark.parametrize("normalization", ["dir", "out"])
    def test_residuals_within_a_cycle_do_not_exceed_those_of_picard(self, normalization, device):
        operator, w = propagation(normalization, 12).to(device), weight("general", 3).to(device)
        bias, p = normal(12, 3, device=device), operator.to_dense()

        def residual(solver, count):
            z = after(operator, w, bias, 1, 0.99, solver, count)
            return (0.99 * p @ z @ w + bias - z).norm().item()

        for count in range(1, 12):
            assert residual("gmres", count) <= residual("picard", count) * (1 + 1e-10)

    def test_restarts_continue_where_the_cycle_ended(self, device):
        """The problem needs several cycles of twelve steps."""
        operator, w = propagation("dir", 60, seed=3).to(device), weight("general", 4).to(device)
        bias = normal(60, 4, device=device)
        result = solve_equilibrium(operator, w, bias, 1, 0.99, solver="gmres", tol=1e-13)
        picard = solve_equilibrium(operator, w, bias, 1, 0.99, solver="picard", tol=1e-13)
        assert 12 < result.iterations < picard.iterations / 2
        expected = dense_solution(operator, w, bias, 1, 0.99)
        assert (result.value - expected).norm() <= 1e-10 * expected.norm()
