"""Expansions in the operator, against the same polynomials of known operators.

Rings are diagonalised by the Fourier transform, so the answer is known for any size: small states
are processed at once, and states of more than ``SMALL`` numbers in panels of columns.
"""

import math

import pytest
import torch

from mgnni import Propagation
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.expansion import BLOCK, Expansion
from mgnni.solve.scratch import scratch
from mgnni.solve.sweep import EARLY, LANES, SMALL, Chebyshev, Series
from mgnni.solve.weights import Weights
from problems import chain, directed_ring, generator, ring, ring_spectrum, weight

DEGREES = {
    "all equal": lambda columns, g: torch.full((columns,), 9),
    "all different": lambda columns, g: torch.randperm(columns, generator=g) + 1,
    "mostly zero": lambda columns, g: (torch.arange(columns) == 3).long() * 20,
    "all zero": lambda columns, g: torch.zeros(columns, dtype=torch.long),
    "past a block": lambda columns, g: torch.randint(0, 2 * BLOCK + 5, (columns,), generator=g),
    "at a block": lambda columns, g: BLOCK - 1 + torch.arange(columns) % 3,
}
LARGE = 4096, 2 * PANEL + 1  # nodes and channels, the last panel a single column
BUDGET = 10**6


def on_a_ring(equations, bias, table, chebyshev, bound):
    """The polynomials by the Fourier transform: all terms of every column."""
    nodes = bias.size(1)
    s = ring_spectrum(nodes, directed=not chebyshev) / bound
    vectors = equations.weights.eigenpairs.vectors
    width = bias.size(2)
    states = []
    for i, b in enumerate(bias):
        a = table[:, i * width : (i + 1) * width].to(torch.complex128)
        now, before = torch.ones_like(s), torch.zeros_like(s)
        total = torch.zeros(nodes, width, dtype=torch.complex128)
        for k, row in enumerate(a):
            total += now.unsqueeze(1) * row
            following = 2 * s * now - before if chebyshev and k else s * now
            now, before = following, now
        c = torch.fft.fft((b @ vectors[i]).cpu(), dim=0)
        columns = torch.fft.ifft(total * c, dim=0).real.to(b.device)
        states.append(columns @ vectors[i].T)
    return torch.stack(states)


def check_polynomials(kind, chebyshev, shared, device, nodes, channels, count):
    """Evaluates random polynomials of the given degrees by the method and by Fourier."""
    g = generator(5)
    operator = (ring if chebyshev else directed_ring)(nodes).to(device)
    stack = torch.stack([weight("random", channels, seed) for seed in range(count)]).to(device)
    bias = torch.randn(1 if shared else count, nodes, channels, dtype=torch.float64, generator=g)
    bias = bias.to(device).expand(count, -1, -1)
    degree = DEGREES[kind](count * channels, g)
    highest, bound = int(degree.max()), 2.0
    table = torch.randn(highest + 1, count * channels, dtype=torch.float64, generator=g)

    def coefficient(k):
        return table[k.squeeze(1).clamp(max=highest)]

    expansion = Expansion(coefficient, degree, chebyshev, bound, truncated=False)
    equations = Equations(operator, (1,) * count, 0.9, Weights(stack))
    method = (Chebyshev if chebyshev else Series)(equations, {(0.5, 1): expansion})
    found = method.propose(bias, 0.5, 1)
    cut = torch.where(torch.arange(highest + 1).unsqueeze(1) > degree, 0.0, table)
    expected = on_a_ring(equations, bias, cut, chebyshev, bound)
    torch.testing.assert_close(found.z, expected, rtol=1e-9, atol=1e-9)
    wanted = degree.view(count, -1).amax(1).tolist()
    assert found.iterations.squeeze(1).tolist() == wanted


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("chebyshev", [True, False], ids=["chebyshev", "powers"])
@pytest.mark.parametrize("kind", DEGREES)
def test_columns_of_different_degrees_are_evaluated_together(kind, chebyshev, shared, device):
    check_polynomials(kind, chebyshev, shared, device, 10, 3 * LANES // 2, 3)


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("chebyshev", [True, False], ids=["chebyshev", "powers"])
@pytest.mark.parametrize("kind", DEGREES)
def test_columns_of_large_states_are_evaluated_in_panels(kind, chebyshev, shared, device):
    assert math.prod(LARGE) > SMALL
    check_polynomials(kind, chebyshev, shared, device, *LARGE, 2)


def copies(edges, size, normalization="row"):
    """Many disjoint copies of a small graph, as one graph of :data:`LARGE` nodes."""
    count = LARGE[0] // size + 1
    first = size * torch.arange(count).view(-1, 1, 1)
    edge_index = (edges.unsqueeze(0) + first).permute(1, 0, 2).flatten(1)
    operator = Propagation.from_edge_index(
        edge_index, size * count, None, normalization, False, dtype=torch.float64
    )
    part = Propagation.from_edge_index(edges, size, None, normalization, False, dtype=torch.float64)
    return operator, part.to_dense(), count


def one_slow_column(gamma, scale, operator):
    """Equations whose weight has one large eigenvalue and many small ones, and their bias."""
    channels = LARGE[1]
    values = torch.full((channels,), 0.3, dtype=torch.float64)
    values[0] = 0.99
    q = torch.linalg.qr(torch.randn(channels, channels, generator=generator(1)).double()).Q
    w = q @ torch.diag(values) @ q.T
    bias = torch.randn(operator.num_nodes, channels, generator=generator(2)).double()
    equations = Equations(operator, (scale,), gamma, Weights(w.unsqueeze(0)))
    return equations, bias.unsqueeze(0), values, q


def sufficient(gamma, tol):
    """Terms that the bound asks for."""
    return math.ceil(math.log(tol) / math.log(0.99 * gamma))


@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("normalization", ["out", "dir", "row"])
def test_a_series_ends_once_its_terms_are_multiples_of_one_another(normalization, scale):
    """In a well-mixed graph all eigenvalues but one are small, and the bias has its direction."""
    tol, gamma, nodes = 1e-6, 0.9, LARGE[0]
    edge_index = torch.randint(0, nodes, (2, 10 * nodes), generator=generator(0))
    operator = Propagation.from_edge_index(
        edge_index, nodes, normalization=normalization, dtype=torch.float64
    )
    equations, bias, _, _ = one_slow_column(gamma, scale, operator)
    bias += 10 * bias.mean(1, keepdim=True).sign()
    found = Series(equations).propose(bias, tol, BUDGET)
    z = hop = found.z[0]
    for _ in range(scale):
        hop = operator.matrix @ hop
    residual = gamma * hop @ equations.weights.tensor[0] + bias[0] - z
    assert residual.norm() <= tol * bias.norm()
    assert EARLY <= int(found.iterations) < 0.8 * sufficient(gamma, tol)


def test_a_series_whose_terms_alternate_takes_all_of_them():
    """Two nodes that swap their states have the eigenvalue -1: no term is like the last one."""
    operator, _, count = copies(torch.tensor([[0, 1], [1, 0]]), 2)
    equations, bias, values, q = one_slow_column(0.9, 1, operator)
    bias = bias.view(count, 2, -1)
    bias[:, 1] = -bias[:, 0]
    bias = bias.view(1, 2 * count, -1)
    found = Series(equations).propose(bias, 1e-8, BUDGET)
    expected = (bias @ q) / (1 + 0.9 * values) @ q.T
    torch.testing.assert_close(found.z, expected, rtol=0, atol=1e-6)
    assert int(found.iterations) == sufficient(0.9, 1e-8)


@pytest.mark.parametrize("scale", [1, 2])
def test_a_series_ends_once_its_terms_vanish(scale):
    """Along a one-way path of ten nodes, all terms past the ninth are zero."""
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    operator, dense, count = copies(path, 10)
    assert operator.norm_bound == 1
    equations, bias, values, q = one_slow_column(0.99, scale, operator)
    found = Series(equations).propose(bias, 1e-8, BUDGET)
    p = torch.linalg.matrix_power(dense, scale)
    eye = torch.eye(10, dtype=torch.float64)
    system = eye - 0.99 * values.view(-1, 1, 1) * p  # one per column
    columns = (bias[0] @ q).view(count, 10, -1).permute(2, 1, 0)
    expected = torch.linalg.solve(system, columns).permute(2, 1, 0).reshape(10 * count, -1) @ q.T
    assert (found.z[0] - expected).norm() <= 1e-7 * expected.norm()
    assert int(found.iterations) <= 9 + EARLY < sufficient(0.99, 1e-8)


def test_no_graph_of_a_batch_ends_the_series_early():
    """The first graph mixes at once; the second is a chain, and its states are tiny."""
    nodes = LARGE[0]
    half = nodes // 2
    random = torch.randint(0, half, (2, 10 * half), generator=generator(0))
    edge_index = torch.cat([random, chain(half) + half], 1)
    batch = torch.arange(2).repeat_interleave(half)
    operator = Propagation.from_edge_index(
        edge_index, nodes, normalization="row", batch=batch, dtype=torch.float64
    )
    equations, bias, _, _ = one_slow_column(0.9, 1, operator)
    bias[:, half:] *= 1e-9
    found = Series(equations).propose(bias, 1e-6, BUDGET)
    assert found.iterations.tolist() == [[sufficient(0.9, 1e-6)] * 2]
    z = found.z[0]
    residual = 0.9 * (operator.matrix @ z) @ equations.weights.tensor[0] + bias[0] - z
    for part in (slice(0, half), slice(half, None)):
        assert residual[part].norm() <= 1e-6 * bias[0, part].norm()


def test_the_adjoint_method_evaluates_the_same_polynomials_of_the_transpose(device):
    nodes, channels = 10, 5
    operator = directed_ring(nodes).to(device)
    stack = torch.stack([weight("random", channels, seed) for seed in range(2)]).to(device)
    equations = Equations(operator, (1, 2), 0.9, Weights(stack))
    method = Series(equations)
    bias = torch.randn(2, nodes, channels, dtype=torch.float64, device=device)
    method.propose(bias, 1e-12, BUDGET)
    found = method.prepared_for(equations.adjoint()).propose(bias, 1e-12, BUDGET)
    p = operator.to_dense()
    for i, scale in enumerate((1, 2)):
        power = torch.linalg.matrix_power(p.T, scale)
        residual = 0.9 * power @ found.z[i] @ stack[i] + bias[i] - found.z[i]
        assert residual.norm() <= 1e-11 * bias[i].norm()


def test_borrowed_memory_is_not_read_before_it_is_written(device):
    """Two sweeps, between which the borrowed memory is filled with nan."""
    operator = directed_ring(10).to(device)
    stack = weight("random", 4).unsqueeze(0).to(device)
    bias = torch.randn(1, 10, 4, dtype=torch.float64, device=device)
    equations = Equations(operator, (1,), 0.9, Weights(stack))
    degree = torch.tensor([3, 1, 0, 2])
    ones = Expansion(lambda k: torch.ones(len(k), 4), degree, False, 1.0, truncated=False)
    method = Series(equations, {(0.5, 1): ones})
    first = method.propose(bias, 0.5, 1).z
    with scratch(bias) as take:
        for size in (40, 40, 40, 40, 400):
            take(size).fill_(float("nan"))
    again = method.propose(bias, 0.5, 1).z
    torch.testing.assert_close(again, first, rtol=1e-13, atol=1e-13)
    cut = (torch.arange(4).unsqueeze(1) <= degree).double()
    torch.testing.assert_close(first, on_a_ring(equations, bias, cut, False, 1.0))
