"""Closed forms: spectra that are known, and dense systems factorised."""

import math

import pytest
import torch

from mgnni import ArgumentError, Propagation, solve_equilibria, solve_equilibrium
from mgnni.solve.closed_form import LARGEST, Dense, Spectral
from mgnni.solve.equation import Equations
from mgnni.solve.weights import Weights
from problems import chain, dense_solution, generator, propagation, ring, weight


def normal(*shape, device, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


class TestSpectral:
    def test_waves_on_a_ring_are_divided_by_their_eigenvalues(self, device):
        """A wave of frequency k on n nodes has the eigenvalue (1 + 2 cos(2 pi k / n)) / 3."""
        n, gamma, scale = 12, 0.95, 3
        operator, nodes = ring(n).to(device), torch.arange(n)
        w = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, device=device)  # +1 and -1
        for k in range(n // 2 + 1):
            wave = torch.cos(2 * math.pi * k * nodes.double() / n).to(device)
            s = ((1 + 2 * math.cos(2 * math.pi * k / n)) / 3) ** scale
            bias = torch.stack([wave, torch.zeros_like(wave)], dim=1)
            result = solve_equilibrium(
                operator, w, bias, scale, gamma, solver="spectral", tol=1e-12
            )
            # (I - g s W)^-1 = [[1, g s], [g s, 1]] / (1 - g^2 s^2)
            below = 1 - (gamma * s) ** 2
            expected = torch.stack([wave / below, gamma * s * wave / below], dim=1)
            torch.testing.assert_close(result.value, expected, rtol=0, atol=1e-12)
            assert result.iterations == 0

    def test_graphs_of_different_size_have_their_own_closed_forms(self, device):
        """P is 1/2 everywhere on a pair of nodes, so the mean is divided by 1 - 0.4."""
        edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]], device=device)
        batch = torch.tensor([0, 0, 1, 1, 2], device=device)
        operator = Propagation.from_edge_index(edge_index, 5, batch=batch, dtype=torch.float64)
        w = torch.full((1, 1), 0.5, dtype=torch.float64, device=device)
        for seed in range(3):
            bias = normal(5, 1, device=device, seed=seed)
            result = solve_equilibrium(operator, w, bias, 1, 0.8, solver="spectral", tol=1e-13)
            pairs = bias[:4].view(2, 2)
            mean = pairs.mean(1, keepdim=True)
            expected = (pairs - mean + mean / 0.6).view(4, 1)
            torch.testing.assert_close(result.value[:4], expected)
            torch.testing.assert_close(result.value[4], bias[4] / 0.6)

    @pytest.mark.parametrize("shared", [True, False])
    def test_every_equation_of_a_stack_has_its_own_closed_form(self, shared, device):
        operator = propagation("sym").to(device)
        stack = torch.stack([weight("random", 4, seed) for seed in range(3)]).to(device)
        bias = normal(1 if shared else 3, 12, 4, device=device).expand(3, -1, -1)
        equations = Equations(operator, (1, 2, 5), 0.9, Weights(stack))
        found = Spectral(equations).propose(bias, 1e-6, 1)
        for i, scale in enumerate((1, 2, 5)):
            expected = dense_solution(operator, stack[i], bias[i], scale, 0.9)
            torch.testing.assert_close(found.z[i], expected)

    def test_the_closed_form_depends_on_gamma(self, device):
        operator = propagation("sym").to(device)
        weights = Weights(weight("random").unsqueeze(0).to(device))
        bias = normal(12, 4, device=device)
        for gamma in (0.8, 0.3):
            method = Spectral(Equations(operator, (1,), gamma, weights))
            z = method.propose(bias.unsqueeze(0), 1e-6, 1).z[0]
            expected = dense_solution(operator, weights.tensor[0], bias, 1, gamma)
            torch.testing.assert_close(z, expected)


class TestDense:
    @pytest.mark.parametrize("adjoint", [False, True])
    @pytest.mark.parametrize("form", ["random", "indefinite", "general"])
    @pytest.mark.parametrize("kind", ["sym", "dir", "out", "row"])
    def test_proposals_are_dense_solutions_without_iterations(self, kind, form, adjoint, device):
        operator = propagation(kind).to(device)
        stack = torch.stack([weight(form, 3, seed) for seed in range(2)]).to(device)
        equations = Equations(operator, (1, 3), 0.99, Weights(stack))
        method = Dense(equations)
        if adjoint:
            equations = equations.adjoint()
            method = method.prepared_for(equations)
        bias = normal(2, 12, 3, device=device)
        found = method.propose(bias, 1e-6, 1)
        assert found.iterations.tolist() == [[0], [0]]
        assert not found.exhausted
        for i, scale in enumerate((1, 3)):
            w = equations.weights.tensor[i]
            expected = dense_solution(equations.operator, w, bias[i], scale, 0.99)
            torch.testing.assert_close(found.z[i], expected, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("form", ["identity", "turn"])
    def test_float32_equations_are_factorised_in_float64(self, form, device):
        """Their condition number is 1e5, so float32 would lose nearly all digits."""
        operator = propagation("row").to(device).to(torch.float32)
        w = {"identity": [[1.0, 0.0], [0.0, 1.0]], "turn": [[0.96, 0.28], [-0.28, 0.96]]}[form]
        w, bias, gamma = torch.tensor(w, device=device), torch.ones(12, 2, device=device), 0.99999
        equations = Equations(operator, (3,), gamma, Weights(w.unsqueeze(0)))
        assert equations.weights.symmetric == (form == "identity")
        z = Dense(equations).propose(bias.unsqueeze(0), 1e-6, 1).z[0]
        expected = dense_solution(operator, w, bias, 3, gamma)
        assert (z.double() - expected).norm() <= 1e-6 * expected.norm()

    def test_systems_that_are_too_large_are_refused(self, device):
        """Weights without symmetry couple all channels, symmetric ones do not."""
        nodes, channels = 256, 40
        assert nodes**2 * channels <= LARGEST < nodes**2 * channels**2
        operator = Propagation.from_edge_index(chain(nodes).to(device), nodes, dtype=torch.float64)
        bias = normal(nodes, channels, device=device)
        w = weight("general", channels).to(device)
        with pytest.raises(ArgumentError, match=r"'solver' .*'dense'.*1\.0e\+08.*solver='auto'"):
            solve_equilibrium(operator, w, bias, solver="dense")
        w = torch.diag(torch.linspace(-0.9, 0.9, channels, dtype=torch.float64)).to(device)
        result = solve_equilibrium(operator, w, bias, 1, 0.9, solver="dense", tol=1e-12)
        hop = operator.to_dense() @ result.value
        residual = 0.9 * hop * w.diag() + bias - result.value
        assert residual.norm() <= 1e-12 * bias.norm()

    def test_gradients_are_those_of_the_dense_solution(self, device):
        operator = propagation("dir").to(device)
        w = weight("general", 3).to(device).requires_grad_()
        bias = normal(12, 3, device=device).requires_grad_()
        ours = solve_equilibrium(operator, w, bias, 2, 0.9, solver="dense", tol=1e-12).value
        want = dense_solution(operator, w, bias, 2, 0.9)
        for got, known in zip(
            *(torch.autograd.grad(z[3].pow(3).sum(), [w, bias]) for z in (ours, want)), strict=True
        ):
            torch.testing.assert_close(got, known, rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize("form", ["general", "random", "identity"])
    @pytest.mark.parametrize("normalization", ["dir", "out", "row"])
    def test_auto_factorises_tiny_systems_that_hardly_contract(self, normalization, form, device):
        """With L = 0.99999 and scale 3, iterations would take minutes."""
        operator = propagation(normalization, 24).to(device)
        w = weight(form, 3).to(device)
        w = w / torch.linalg.matrix_norm(w, 2)
        bias = normal(24, 3, device=device)
        result = solve_equilibrium(operator, w, bias, 3, 0.99999, tol=0.01)
        assert (result.solver, result.iterations) == ("dense", 0)
        expected = dense_solution(operator, w, bias, 3, 0.99999)
        assert (result.value - expected).norm() <= result.error_bound
        assert (result.value - expected).norm() <= 1e-8 * expected.norm()

    def test_auto_iterates_on_larger_systems_and_safer_contractions(self, device):
        operator, w = propagation("dir", 24).to(device), weight("general", 3).to(device)
        bias = normal(24, 3, device=device)
        assert solve_equilibrium(operator, w, bias, 3, 0.99, tol=0.01).solver == "gmres"
        nodes = 400  # 400^2 * 3^2 exceeds 2^20
        large = Propagation.from_edge_index(
            chain(nodes).to(device), nodes, normalization="row", dtype=torch.float64
        )
        bias = normal(nodes, 3, device=device)
        assert solve_equilibrium(large, 0.9 * w, bias, 1, 0.99999, tol=0.5).solver != "dense"

    def test_scales_are_factorised_one_by_one(self, device):
        operator = propagation("dir").to(device)
        stack = torch.stack([weight("general", 3, seed) for seed in range(2)]).to(device)
        bias = normal(12, 3, device=device)
        results = solve_equilibria(operator, stack, bias, (4, 1), 0.9, solver="dense", tol=1e-12)
        for result, w, scale in zip(results, stack, (4, 1), strict=True):
            expected = dense_solution(operator, w, bias, scale, 0.9)
            torch.testing.assert_close(result.value, expected)
