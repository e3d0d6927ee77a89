"""Graphs, weights and equations whose answers are known by other means.

Symmetric cases hide a missing transpose, and losses on all nodes hide a row that stopped early, so
most of these are irregular: directed, weighted, with isolated nodes and non-symmetric weights.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from mgnni import Propagation


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def chain(num_nodes: int) -> Tensor:
    """The path 0-1-...-(n-1) as an undirected edge_index."""
    nodes = torch.arange(num_nodes)
    return to_undirected(torch.stack([nodes[:-1], nodes[1:]]), num_nodes=num_nodes)


def lopsided_edges(num_nodes: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A directed graph with weights, a self-loop, a repeated edge and two isolated nodes."""
    g = generator(seed)
    edge_index = torch.randint(0, max(num_nodes - 2, 1), (2, 3 * num_nodes), generator=g)
    if num_nodes > 2:
        extra = torch.tensor([[1, 0, 0], [1, 1, 1]])  # a self-loop and a duplicate edge
        edge_index = torch.cat([edge_index, extra], dim=1)
    weight = 0.1 + torch.rand(edge_index.size(1), dtype=torch.float64, generator=g)
    return edge_index, weight


def propagation(kind: str, num_nodes: int = 12, seed: int = 0, **options: object) -> Propagation:
    """An operator of each kind: ``sym`` is undirected, all others are lopsided."""
    edge_index, weight = lopsided_edges(num_nodes, seed)
    if kind == "sym":
        edge_index, weight = to_undirected(edge_index, weight, num_nodes=num_nodes)
    if kind == "none":  # scaled so that a contraction can be proven
        weight = weight / (weight.sum() + 1)
    options = {"dtype": torch.float64, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, weight, kind, **options)


def weight(kind: str, channels: int = 4, seed: int = 0) -> Tensor:
    """A square matrix of spectral norm at most one, in float64."""
    g = generator(seed)
    factor = torch.randn(channels, channels, dtype=torch.float64, generator=g)
    if kind == "general":  # not symmetric, not even normal
        return factor / torch.linalg.matrix_norm(factor, 2)
    if kind == "rank-one":
        factor = factor[:, :1] @ factor[:1]
    if kind == "identity":
        factor = torch.eye(channels, dtype=torch.float64)
    gram = factor.T @ factor
    if kind == "indefinite":
        gram = gram - 0.4 * torch.trace(gram) / channels * torch.eye(channels, dtype=torch.float64)
    return gram / torch.linalg.matrix_norm(gram)


def dense_solution(
    operator: Propagation, w: Tensor, bias: Tensor, scale: int, gamma: float
) -> Tensor:
    r"""Solve :math:`(I - \gamma P^m \otimes W^{\top}) \mathrm{vec}(Z) = \mathrm{vec}(B)` densely.

    In float64, and differentiable by autograd in all of its arguments.
    """
    n, h = bias.shape
    p = operator.to_dense().double()
    power = torch.linalg.matrix_power(p, scale)
    system = torch.eye(n * h, dtype=torch.float64, device=bias.device)
    system = system - gamma * torch.kron(power, w.double().T.contiguous())
    return torch.linalg.solve(system, bias.double().flatten()).view(n, h)


def dense_propagation(
    edge_index: Tensor,
    num_nodes: int,
    edge_weight: Tensor,
    normalization: str,
    self_loops: bool = True,
    flow: str = "source_to_target",
) -> Tensor:
    """The operator as a dense float64 matrix, entry by entry from the definitions."""
    a = [[0.0] * num_nodes for _ in range(num_nodes)]
    for (s, t), w in zip(edge_index.T.tolist(), edge_weight.tolist(), strict=True):
        a[s][t] += w
    for i in range(num_nodes if self_loops else 0):
        a[i][i] += 1.0
    d = [sum(row) for row in a]  # out-degrees
    e = [sum(row[t] for row in a) for t in range(num_nodes)]  # in-degrees

    def entry(s: int, t: int) -> float:
        if normalization == "none":
            return a[s][t]
        below = {
            "sym": (d[s] * d[t]) ** 0.5,
            "out": (d[s] * d[t]) ** 0.5,
            "dir": (d[s] * e[t]) ** 0.5,
            "row": d[s],
        }[normalization]
        return a[s][t] / below if below > 0 else 0.0

    table = [[entry(s, t) for t in range(num_nodes)] for s in range(num_nodes)]
    dense = torch.tensor(table, dtype=torch.float64).view(num_nodes, num_nodes)
    return dense.T.contiguous() if flow == "source_to_target" else dense


def state_norm(operator: Propagation, x: Tensor) -> float:
    """The norm of node states in which the operator contracts, from its definition."""
    kind, w = operator.norm.kind, operator.norm.weight
    rows = x.double().square().sum(-1).sqrt()
    if kind == "frobenius":
        return rows.square().sum().sqrt().item()
    if kind == "max":
        return (rows / w).max().item()
    if kind == "sum":
        return (w * rows).sum().item()
    raise ValueError(kind)


def admits(solver: str, operator: Propagation, w: Tensor) -> bool:
    """Whether a solver takes this problem: some need symmetry."""
    symmetric = torch.allclose(w, w.T, rtol=0, atol=1e-14 * w.abs().max().item())
    if solver in ("series", "deflated"):
        return symmetric
    if solver in ("cg", "chebyshev", "spectral", "wide"):
        return symmetric and operator.symmetric
    return True


def directed_ring(num_nodes: int, **options: object) -> Propagation:
    """A one-way ring without self-loops: ``P z`` is ``z.roll(1, 0)``, for any size."""
    nodes = torch.arange(num_nodes)
    edge_index = torch.stack([nodes, (nodes + 1) % num_nodes])
    options = {"dtype": torch.float64, "self_loops": False, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, None, "row", **options)


def ring(num_nodes: int, **options: object) -> Propagation:
    """An undirected ring with self-loops: ``P z`` is the mean of a node and its neighbors."""
    nodes = torch.arange(num_nodes)
    forth = torch.stack([nodes, (nodes + 1) % num_nodes])
    options = {"dtype": torch.float64, **options}
    return Propagation.from_edge_index(torch.cat([forth, forth.flip(0)], 1), num_nodes, **options)


def ring_spectrum(num_nodes: int, directed: bool) -> Tensor:
    """Eigenvalues of a ring, in the order of the frequencies of ``torch.fft.fft``."""
    angle = 2 * torch.pi * torch.arange(num_nodes, dtype=torch.float64) / num_nodes
    if directed:
        return torch.polar(torch.ones_like(angle), -angle)
    return ((1 + 2 * torch.cos(angle)) / 3).to(torch.complex128)
