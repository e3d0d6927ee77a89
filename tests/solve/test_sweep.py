"""The sweep against the same polynomials of the dense matrix, nothing dropped."""

import pytest
import torch

from mgnni.solve.equation import Equations
from mgnni.solve.scratch import scratch
from mgnni.solve.sweep import BLOCK, LANES, Polynomials, sweep
from mgnni.solve.weights import Weights
from problems import generator, propagation, weight


def dense_sweep(equations: Equations, table: torch.Tensor, chebyshev: bool, bound: float):
    """Every polynomial in full, column by column, from dense powers or Chebyshev recurrences."""
    p = equations.operator.to_dense() / bound
    n, h = equations.bias.shape[1:]
    basis = [torch.eye(n, dtype=torch.float64, device=p.device), p]
    while len(basis) < len(table):
        step = 2 * p @ basis[-1] - basis[-2] if chebyshev else p @ basis[-1]
        basis.append(step)
    states = []
    vectors = equations.weights.decoupling.eigenvectors
    for i in range(len(equations)):
        right = equations.bias[i] @ vectors[i]
        columns = []
        for j in range(h):
            a = table[:, i * h + j].tolist()
            columns.append(sum(a[k] * (basis[k] @ right[:, j]) for k in range(len(table))))
        states.append(torch.stack(columns, dim=1) @ vectors[i].T)
    return torch.stack(states)


DEGREES = {
    "all alike": lambda columns, g: torch.full((columns,), 9),
    "all different": lambda columns, g: torch.randperm(columns, generator=g) + 1,
    "mostly zero": lambda columns, g: (torch.arange(columns) == 3).long() * 20,
    "all zero": lambda columns, g: torch.zeros(columns, dtype=torch.long),
    "past a block": lambda columns, g: torch.randint(0, 2 * BLOCK + 5, (columns,), generator=g),
    "at a block": lambda columns, g: BLOCK - 1 + torch.arange(columns) % 3,
}


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("chebyshev", [True, False], ids=["chebyshev", "powers"])
@pytest.mark.parametrize("kind", DEGREES)
def test_dropping_columns_changes_nothing(kind, chebyshev, shared, device, monkeypatch):
    g = generator(5)
    n, h, count = 10, 3 * LANES // 2, 3
    operator = propagation("sym" if chebyshev else "out", n).to(device)
    stack = torch.stack([weight("random", h, seed) for seed in range(count)]).to(device)
    bias = torch.randn(1 if shared else count, n, h, dtype=torch.float64, generator=g).to(device)
    equations = Equations(operator, (1,) * count, 0.9, Weights(stack), bias.expand(count, n, h))
    degree = DEGREES[kind](count * h, g)
    highest = int(degree.max())
    table = torch.randn(highest + 1, count * h, dtype=torch.float64, generator=g)
    widths = []
    multiply_into = type(operator).multiply_into

    def counted(self, out, x, factor=1.0, beta=0.0):
        widths.append(x.size(1))
        assert out.is_contiguous()
        assert x.is_contiguous()
        return multiply_into(self, out, x, factor, beta)

    monkeypatch.setattr(type(operator), "multiply_into", counted)
    bound = 2.0 if chebyshev else 1.0
    polynomials = Polynomials(
        lambda k: table[k.squeeze(1).clamp(max=highest)], degree, chebyshev, bound
    )
    states = sweep(equations, polynomials)
    monkeypatch.undo()

    cut = torch.where(torch.arange(highest + 1).unsqueeze(1) > degree, 0.0, table)
    expected = dense_sweep(equations, cut, chebyshev, bound)
    torch.testing.assert_close(states, expected, rtol=1e-10, atol=1e-10)
    # One product a term, and as few columns as whole lanes allow.
    needed = [int((degree >= k).sum()) for k in range(1, highest + 1)]
    assert widths == [min(-(-width // LANES) * LANES, count * h) for width in needed]


def test_a_sweep_reads_no_old_memory(device):
    """Two sweeps of different widths, between which the borrowed memory is spoilt."""
    operator = propagation("out", 10).to(device)
    stack = weight("random", 4).unsqueeze(0).to(device)
    bias = torch.randn(1, 10, 4, dtype=torch.float64, device=device)
    equations = Equations(operator, (1,), 0.9, Weights(stack), bias)
    ones = Polynomials(lambda k: torch.ones(len(k), 4), torch.tensor([3, 1, 0, 2]), False, 1.0)
    first = sweep(equations, ones)
    with scratch(bias) as take:
        for size in (40, 40, 40, 40, 400):
            take(size).fill_(float("nan"))
    torch.testing.assert_close(sweep(equations, ones), first, rtol=1e-13, atol=1e-13)
    cut = (torch.arange(4).unsqueeze(1) <= ones.degree).double()
    torch.testing.assert_close(first, dense_sweep(equations, cut, False, 1.0))
