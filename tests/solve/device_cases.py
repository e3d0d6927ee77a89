"""Equations that CUDA kernels can solve, and their answers by dense algebra.

On the CPU the kernels are replaced by plain torch, which tests of their own compare with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni import MultiscaleEquilibrium, Propagation, Status
from mgnni.kernels import launches
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import prepare
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import dense_solution, lopsided_edges, propagation, weight

SCALES = (1, 3)


@dataclass
class Problem:
    """Equations with their bias, shape ``(equations, num_nodes, channels)``."""

    equations: Equations
    bias: Tensor

    @property
    def operator(self) -> Propagation:
        return self.equations.operator

    def dense(self) -> Tensor:
        """The exact states."""
        e = self.equations
        parts = zip(e.weights.tensor, self.bias, e.scales, strict=True)
        return torch.stack([dense_solution(e.operator, w, b, m, e.gamma) for w, b, m in parts])

    def hops(self, z: Tensor) -> Tensor:
        """The states after as many hops as the scale, by dense products."""
        p = self.operator.to_dense().double()
        powers = [torch.linalg.matrix_power(p, m) for m in self.equations.scales]
        return torch.stack([power @ one.double() for power, one in zip(powers, z, strict=True)])


def operator(kind: str, device: torch.device, loops: bool = False) -> Propagation:
    """Without self-loops, two of the nodes are isolated and have empty rows."""
    return propagation(kind, self_loops=loops, dtype=torch.float32).to(device)


def batched(kind: str, device: torch.device) -> Propagation:
    """A batch of four graphs, one of a single node, and one without nodes."""
    edges = [lopsided_edges(size, seed=size)[0] for size in (12, 9)]
    edge_index = torch.cat([edges[0], edges[1] + 12], 1)
    if kind == "sym":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    batch = torch.tensor([0] * 12 + [2] * 9 + [3])
    return Propagation.from_edge_index(
        edge_index, 22, normalization=kind, batch=batch, dtype=torch.float32
    ).to(device)


def problem(
    operator: Propagation, h: int = 7, shared: bool = True, size: float = 1.0, kind: str = "gram"
) -> Problem:
    """Two equations whose weights are g(F)."""
    device, count = operator.device, len(SCALES)
    ws = torch.stack([weight(kind, h, seed) for seed in range(count)]).float().to(device)
    bias = torch.randn(1 if shared else count, operator.num_nodes, h).to(device) * size
    equations = Equations(operator, SCALES, 0.8, Weights(ws, psd_norm=1.0))
    return Problem(equations, bias.expand(count, -1, -1))


def assert_solved(problem: Problem, tol: float = 1e-6, certified: float = 1e-3) -> None:
    """Compares states, hops and records of a device sweep with dense algebra, per graph.

    The relative error bound must be at most ``certified``.
    """
    equations, bias, wanted = problem.equations, problem.bias, problem.dense()
    solver = "chebyshev" if problem.operator.symmetric else "series"
    plan = prepare(equations, Options(solver, tol))
    found = plan.solve(bias)
    assert found.records.exhausted is None, "the fallback has solved the equations"
    hops = problem.hops(wanted)
    graph = problem.operator.graph_of_node()
    for i, one in enumerate(found.records.stats):
        size = wanted[i].norm()
        assert (found.z[i] - wanted[i]).norm() <= 1e-5 * size
        assert (found.hop[i] - hops[i]).norm() <= 1e-5 * size
        assert one.status is Status.CONVERGED
        assert one.relative_residual <= tol
        assert (one.solver, one.scale) == (solver, equations.scales[i])
        assert one.norm == problem.operator.norm.kind
        assert_contraction(one.contraction, equations, i)
        assert len(one.graph_error_bound) == problem.operator.num_graphs
        for number, bound in enumerate(one.graph_error_bound.tolist()):
            mine = graph == number
            error = float((found.z[i, mine] - wanted[i, mine]).norm())
            assert error <= bound, f"graph {number}: error {error}, certified {bound}"
            assert bound <= certified * float(wanted[i, mine].norm())


def assert_contraction(contraction: float, equations: Equations, i: int) -> None:
    """The constant is no less than the true one, and includes the error of the eigenvalues."""
    largest = float(torch.linalg.matrix_norm(equations.weights.tensor[i].double().cpu(), 2))
    step = equations.gamma * equations.step_bounds[i]
    left = 1e-8 * launches.padded(equations.channels)
    assert step * largest * (1 - 1e-12) <= contraction <= step * (largest + left) * (1 + 1e-6)


def layer(device: torch.device, channels: int = 7, **options: object) -> MultiscaleEquilibrium:
    """A layer with fixed parameters."""
    torch.manual_seed(3)
    return MultiscaleEquilibrium(channels, SCALES, **options).to(device)


def passed(made: MultiscaleEquilibrium, p: Propagation) -> list[Tensor]:
    """States and gradients, for a cotangent that differs by scale, node and channel."""
    torch.manual_seed(4)
    bias = torch.randn(p.num_nodes, made.factor.size(-1)).to(p.device).requires_grad_()
    z = made(bias, p)
    cotangent = torch.randn(z.shape).to(p.device)
    return [z, *torch.autograd.grad(z, [bias, made.factor], cotangent)]


def assert_agree(found: list[Tensor], wanted: list[Tensor]) -> None:
    """Compares states and gradients of two passes."""
    for ours, theirs, close in zip(found, wanted, (1e-5, 1e-4, 1e-4), strict=True):
        assert (ours - theirs).norm() <= close * theirs.norm()
