"""Anderson mixing: for a linear map, one step of the map after GMRES (Walker and Ni, 2011)."""

import pytest
import torch

from mgnni import ConvergenceWarning, solve_equilibrium
from problems import propagation, weight


@pytest.mark.parametrize("normalization", ["sym", "dir", "out"])
def test_iterates_are_the_map_of_those_of_gmres(normalization, device):
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
def test_it_is_faster_than_picard(normalization, device):
    operator = propagation(normalization, 40).to(device)
    w = weight("rank-one", 3).to(device)
    bias = torch.randn(40, 3, dtype=torch.float64, device=device)
    mixed, plain = (
        solve_equilibrium(operator, w, bias, 1, 0.99, solver=solver, tol=1e-10)
        for solver in ("anderson", "picard")
    )
    assert mixed.iterations < plain.iterations / 4
