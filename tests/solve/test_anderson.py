"""Anderson mixing: one step of the map after GMRES (Walker and Ni, 2011), and its fallback."""

from types import SimpleNamespace

import pytest
import torch

from mgnni import ConvergenceWarning, solve_equilibrium
from mgnni.solve.anderson import PATIENCE, AndersonMixing
from problems import generator, propagation, weight


@pytest.mark.parametrize("normalization", ["sym", "dir", "out"])
def test_iterates_are_the_map_applied_to_those_of_gmres(normalization, device):
    operator = propagation(normalization, 9).to(device)
    w = weight("general", 2).to(device)
    bias = torch.randn(9, 2, dtype=torch.float64, device=device)
    p = torch.linalg.matrix_power(operator.to_dense(), 2)
    linear = 0.95 * torch.kron(p, w.T.contiguous())
    system = torch.eye(18, dtype=torch.float64, device=device) - linear
    b = bias.flatten()
    basis = [b / b.norm()]
    for _ in range(4):
        v = system @ basis[-1]
        for _ in range(2):
            for u in basis:
                v = v - (u @ v) * u
        basis.append(v / v.norm())
    for count in range(1, 5):
        if count == 1:
            best = torch.zeros_like(b)
        else:  # GMRES from zero after count - 1 steps, by dense least squares
            space = torch.stack(basis[: count - 1], dim=1)
            best = space @ torch.linalg.lstsq(system @ space, b.unsqueeze(1)).solution.squeeze(1)
        with pytest.warns(ConvergenceWarning):
            result = solve_equilibrium(
                operator,
                w,
                bias,
                2,
                0.95,
                solver="anderson",
                tol=1e-14,
                max_iter=count,
                on_failure="warn",
            )
        torch.testing.assert_close(result.value.flatten(), linear @ best + b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("normalization", ["sym", "dir"])
def test_mixing_is_faster_than_picard(normalization, device):
    operator = propagation(normalization, 40).to(device)
    w = weight("rank-one", 3).to(device)
    bias = torch.randn(40, 3, dtype=torch.float64, device=device)
    mixed, plain = (
        solve_equilibrium(operator, w, bias, 1, 0.99, solver=solver, tol=1e-10)
        for solver in ("anderson", "picard")
    )
    assert mixed.iterations < plain.iterations / 4


def test_a_mixed_step_that_increases_the_residual_is_rejected(device):
    graphs = SimpleNamespace(batch=torch.tensor([0, 1], device=device), num_graphs=2)

    def numbers(*values):
        return torch.tensor(values, dtype=torch.float64, device=device)

    # Two graphs of one node: T(z) = z / 2 + 1 from 0, so one difference determines the map.
    mixing = AndersonMixing(graphs, numbers([1.0], [1.0]), numbers([1.0], [1.0]), numbers(1.0, 1.0))
    following = mixing.step(numbers([1.5], [1.5]), numbers([0.5], [0.5]), numbers(0.5, 0.5))
    torch.testing.assert_close(following, numbers([2.0], [2.0]))  # the fixed point
    # The map of the second graph turns out to differ: its residual is 3 instead of 0.
    following = mixing.step(numbers([2.01], [5.0]), numbers([0.01], [3.0]), numbers(0.01, 3.0))
    assert following[1].item() == 1.5  # a Picard step from the point before
    # A Picard step is kept even if the residual grows.
    following = mixing.step(numbers([2.0], [4.5]), numbers([0.001], [3.0]), numbers(0.001, 3.0))
    assert mixing.size.tolist() == [0.001, 3.0]
    assert mixing.refused.tolist() == [0.0, 1.0]


def test_a_graph_takes_picard_steps_after_several_rejections(device):
    graphs = SimpleNamespace(batch=None, num_graphs=1)
    mixing = None
    for count in range(20):
        size = torch.tensor([1.0 + count], dtype=torch.float64, device=device)  # worse and worse
        image, residual = (
            torch.randn(3, 2, dtype=torch.float64, generator=generator(seed)).to(device)
            for seed in (count, 0)
        )
        if mixing is None:
            mixing = AndersonMixing(graphs, image, residual, size)
            continue
        following = mixing.step(image, residual * (1 + count), size)
    assert mixing.refused.tolist() == [PATIENCE]
    assert torch.equal(following, image)
