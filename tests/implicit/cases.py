"""Operators, stacks of weights and known answers for the tests of gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni import Propagation
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options
from problems import dense_solution, generator, lopsided_edges, weight

SCALES = (1, 2, 3)
GAMMA = 0.8
NORMALIZATIONS = ("sym", "dir", "out", "row", "none")
TIGHT = Options(tol=1e-12)  # only rounding remains


def solvers(normalization: str, weight_kind: str) -> list[str]:
    """The solvers that admit an operator of this kind with a weight of this kind."""
    names = ["auto", "picard", "anderson", "gmres", "dense"]
    if weight_kind != "general":
        names += ["series", "deflated"]
        if normalization == "sym":
            names += ["cg", "chebyshev", "spectral", "wide"]
    return names


ADMITTED = [
    (normalization, kind, solver)
    for normalization in NORMALIZATIONS
    for kind in ("psd", "general")
    for solver in solvers(normalization, kind)
]


def edges(normalization: str, device: torch.device, num_nodes: int = 8) -> tuple[Tensor, Tensor]:
    """Edges and weights of a lopsided graph; for ``none`` its largest row sum is one."""
    edge_index, edge_weight = lopsided_edges(num_nodes)
    if normalization == "none":
        rows = torch.zeros(num_nodes, dtype=torch.float64).index_add(0, edge_index[0], edge_weight)
        edge_weight = edge_weight / rows.max()
    return edge_index.to(device), edge_weight.to(device)


def operator(
    normalization: str, edge_index: Tensor, edge_weight: Tensor, num_nodes: int = 8
) -> Propagation:
    """The operator as a function of the weights; for ``sym`` each edge goes both ways."""
    if normalization == "sym":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        edge_weight = torch.cat([edge_weight, edge_weight])
    return Propagation.from_edge_index(
        edge_index,
        num_nodes,
        edge_weight,
        normalization,
        self_loops=normalization != "none",
        dtype=torch.float64,
    )


def weights(kind: str, device: torch.device, channels: int = 3) -> Tensor:
    """One weight for each of the scales, all different."""
    stack = [weight(kind, channels, seed) for seed in range(len(SCALES))]
    return torch.stack(stack).to(device)


def normal(*shape: int, device: torch.device, seed: int = 0) -> Tensor:
    """Normal numbers in float64, the same on every device."""
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def implicit(
    propagation: Propagation, w: Tensor, bias: Tensor, solver: str = "auto", memory: str = "fast"
) -> Tensor:
    """The states by the library, to rounding; shape ``(scales, num_nodes, channels)``."""
    options = Options(solver, TIGHT.tol, memory=memory)
    z, _ = equilibria(propagation, w, bias, SCALES, GAMMA, options=options)
    return z


def dense(propagation: Propagation, w: Tensor, bias: Tensor) -> Tensor:
    """The states by dense solves, for autograd to differentiate."""
    each = zip(w, SCALES, strict=True)
    return torch.stack([dense_solution(propagation, one, bias, m, GAMMA) for one, m in each])


def unrolled(propagation: Propagation, w: Tensor, bias: Tensor, steps: int = 2000) -> Tensor:
    """The states by Picard iteration, with every step in the autograd graph."""
    p = propagation.to_dense()
    powers = torch.stack([torch.linalg.matrix_power(p, m) for m in SCALES])
    z = torch.zeros(len(SCALES), *bias.shape, dtype=bias.dtype, device=bias.device)
    for _ in range(steps):
        z = GAMMA * powers @ z @ w + bias
    return z


def assert_all_close(got: tuple[Tensor, ...], want: tuple[Tensor, ...], rtol: float) -> None:
    """Compare in relative Frobenius norm, tensor by tensor; no expected tensor may vanish."""
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        size = b.norm().item()
        assert size > 0, f"number {index} of the known answers is zero: the test would be empty"
        assert (a - b).norm().item() <= rtol * size, f"number {index} of the answers differs"
