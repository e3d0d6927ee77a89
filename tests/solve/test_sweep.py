"""The sweep against the same polynomials of the dense matrix, nothing dropped."""

import pytest
import torch

from mgnni import Propagation
from mgnni.kernels.terms import NARROW
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.polynomials import BLOCK, Polynomials
from mgnni.solve.scratch import scratch
from mgnni.solve.series import neumann
from mgnni.solve.sweep import EARLY, LANES, sweep
from mgnni.solve.weights import Weights
from problems import chain, generator, propagation, weight, widths_of_products


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
    widths = widths_of_products(monkeypatch)
    bound = 2.0 if chebyshev else 1.0
    polynomials = Polynomials(
        lambda k: table[k.squeeze(1).clamp(max=highest)], degree, chebyshev, bound
    )
    states, _ = sweep(equations, polynomials)
    monkeypatch.undo()

    cut = torch.where(torch.arange(highest + 1).unsqueeze(1) > degree, 0.0, table)
    expected = dense_sweep(equations, cut, chebyshev, bound)
    torch.testing.assert_close(states, expected, rtol=1e-10, atol=1e-10)
    # One product a term, and as few columns as whole lanes allow; a kernel takes them as they are,
    # or, the last few, as they were moved together.
    needed = [int((degree >= k).sum()) for k in range(1, highest + 1)]
    by_kernel = operator.pattern.lines.fit(operator.values, bias[0])
    assert widths == [taken(x) if by_kernel else min(lanes(x), count * h) for x in needed]


def taken(width: int) -> int:
    moved = 1 << (width - 1).bit_length()
    return moved if moved <= NARROW else width


def lanes(width: int) -> int:
    return -(-width // LANES) * LANES if width > 1 else width


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("chebyshev", [True, False], ids=["chebyshev", "powers"])
@pytest.mark.parametrize("kind", DEGREES)
def test_panels_change_nothing(kind, chebyshev, shared, monkeypatch):
    """As a CPU sweeps many columns of large graphs; two panels an equation, the last not full."""
    g = generator(6)
    n, h, count = 10, PANEL + 5, 2
    operator = propagation("sym" if chebyshev else "out", n)
    stack = torch.stack([weight("random", h, seed) for seed in range(count)])
    bias = torch.randn(1 if shared else count, n, h, dtype=torch.float64, generator=g)
    equations = Equations(operator, (1,) * count, 0.9, Weights(stack), bias.expand(count, n, h))
    degree = DEGREES[kind](count * h, g)
    highest = int(degree.max())
    table = torch.randn(highest + 1, count * h, dtype=torch.float64, generator=g)
    widths = widths_of_products(monkeypatch)
    monkeypatch.setattr("mgnni.solve.sweep.SMALL", 0)
    polynomials = Polynomials(
        lambda k: table[k.squeeze(1).clamp(max=highest)], degree, chebyshev, 1.0
    )
    states, _ = sweep(equations, polynomials)
    cut = torch.where(torch.arange(highest + 1).unsqueeze(1) > degree, 0.0, table)
    expected = dense_sweep(equations, cut, chebyshev, 1.0)
    torch.testing.assert_close(states, expected, rtol=1e-9, atol=1e-9)
    assert max(widths, default=0) <= PANEL
    falling = degree.view(count, h).sort(1, descending=True).values
    panels = [part for one in falling for part in torch.split(one, PANEL)]
    least = [int((part >= k).sum()) for part in panels for k in range(1, int(part[0]) + 1)]
    # Columns of zeros fill a panel up, and stay as long as the last of its columns.
    assert sum(map(lanes, least)) <= sum(widths) <= sum(lanes(x + LANES - 1) for x in least)


@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("normalization", ["out", "dir", "row"])
def test_a_series_ends_where_its_rest_is_known(normalization, scale, monkeypatch):
    """Against a dense solve: as exact as asked for, in fewer products than the bound allows."""
    tol, h, gamma = 1e-6, 12, 0.9
    # Directed, and well mixed: all eigenvalues but one are small.
    edge_index = torch.randint(0, 48, (2, 400), generator=generator(0))
    operator = Propagation.from_edge_index(
        edge_index, 48, normalization=normalization, dtype=torch.float64
    )
    values = torch.full((h,), 0.3, dtype=torch.float64)
    values[0] = 0.99
    q = torch.linalg.qr(torch.randn(h, h, dtype=torch.float64, generator=generator(1))).Q
    w = q @ torch.diag(values) @ q.T
    bias = torch.randn(1, 48, h, dtype=torch.float64, generator=generator(2))
    equations = Equations(operator, (scale,), gamma, Weights(w.unsqueeze(0)), bias)
    polynomials, _ = neumann(equations, tol, 10**6)
    widths = widths_of_products(monkeypatch)
    monkeypatch.setattr("mgnni.solve.sweep.SMALL", 0)
    (z,), (taken,) = sweep(equations, polynomials)
    p = torch.linalg.matrix_power(operator.to_dense(), scale)
    left = torch.eye(48 * h, dtype=torch.float64) - gamma * torch.kron(p, w.contiguous())
    exact = torch.linalg.solve(left, bias.flatten()).view(48, h)
    residual = gamma * p @ z @ w + bias[0] - z
    assert residual.norm() <= tol * bias.norm()
    assert (z - exact).norm() <= 10 * tol * exact.norm()
    slow = [width for width in widths if width == 1]
    assert EARLY * scale <= len(slow) < 0.7 * int(polynomials.degree.max())
    assert taken == len(slow)


def test_a_series_whose_rest_is_not_known_goes_on(monkeypatch):
    """Two nodes that change places: with the eigenvalue -1 no term is like the last."""
    edge_index = torch.tensor([[0, 1], [1, 0]])
    operator = Propagation.from_edge_index(
        edge_index, 2, normalization="row", self_loops=False, dtype=torch.float64
    )
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    bias = torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)
    equations = Equations(operator, (1,), 0.9, Weights(one), bias)
    polynomials, _ = neumann(equations, 1e-6, 10**6)
    monkeypatch.setattr("mgnni.solve.sweep.SMALL", 0)
    z, _ = sweep(equations, polynomials)
    torch.testing.assert_close(z, bias / 1.9, rtol=1e-6, atol=0)


@pytest.mark.parametrize("scale", [1, 2])
def test_a_series_ends_where_its_terms_are_gone(scale, monkeypatch):
    """A path in one direction: after its length there is nothing, whatever the bound says."""
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    operator = Propagation.from_edge_index(
        path, 10, normalization="row", self_loops=False, dtype=torch.float64
    )
    assert operator.norm_bound == 1
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    bias = torch.randn(1, 10, 1, dtype=torch.float64, generator=generator(4))
    equations = Equations(operator, (scale,), 0.99, Weights(one), bias)
    polynomials, _ = neumann(equations, 1e-8, 10**6)
    monkeypatch.setattr("mgnni.solve.sweep.SMALL", 0)
    (z,), (taken,) = sweep(equations, polynomials)
    p = torch.linalg.matrix_power(operator.to_dense(), scale)
    expected = torch.linalg.solve(torch.eye(10, dtype=torch.float64) - 0.99 * p, bias[0])
    torch.testing.assert_close(z, expected)
    assert taken <= 9 + EARLY * scale < int(polynomials.degree.max())


def test_no_graph_of_a_batch_ends_early(monkeypatch):
    """One graph could, the other is a chain, whose numbers are tiny: what it is depends on none."""
    size = 12
    ends = chain(size)
    edge_index = torch.cat([torch.combinations(torch.arange(size)).T, ends + size], 1)
    batch = torch.arange(2).repeat_interleave(size)
    operator = Propagation.from_edge_index(
        edge_index, 2 * size, normalization="row", batch=batch, dtype=torch.float64
    )
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    bias = torch.randn(1, 2 * size, 1, dtype=torch.float64, generator=generator(3))
    bias[:, size:] *= 1e-9
    equations = Equations(operator, (1,), 0.9, Weights(one), bias)
    polynomials, _ = neumann(equations, 1e-6, 10**6)
    monkeypatch.setattr("mgnni.solve.sweep.SMALL", 0)
    (z,), (taken,) = sweep(equations, polynomials)
    assert taken == int(polynomials.degree.max())
    residual = 0.9 * operator.to_dense() @ z + bias[0] - z
    for part in (slice(0, size), slice(size, None)):
        assert residual[part].norm() <= 1e-6 * bias[0, part].norm()


def test_a_sweep_reads_no_old_memory(device):
    """Two sweeps of different widths, between which the borrowed memory is spoilt."""
    operator = propagation("out", 10).to(device)
    stack = weight("random", 4).unsqueeze(0).to(device)
    bias = torch.randn(1, 10, 4, dtype=torch.float64, device=device)
    equations = Equations(operator, (1,), 0.9, Weights(stack), bias)
    ones = Polynomials(lambda k: torch.ones(len(k), 4), torch.tensor([3, 1, 0, 2]), False, 1.0)
    first, _ = sweep(equations, ones)
    with scratch(bias) as take:
        for size in (40, 40, 40, 40, 400):
            take(size).fill_(float("nan"))
    again, _ = sweep(equations, ones)
    torch.testing.assert_close(again, first, rtol=1e-13, atol=1e-13)
    cut = (torch.arange(4).unsqueeze(1) <= ones.degree).double()
    torch.testing.assert_close(first, dense_sweep(equations, cut, False, 1.0))
