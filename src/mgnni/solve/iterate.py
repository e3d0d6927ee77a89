"""The one loop of the iterative solvers: a method proposes, the loop decides, graph by graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mgnni.solve.certify import frobenius, graph_sum
from mgnni.solve.equation import Equations
from mgnni.solve.operator import Operator


@dataclass
class State:
    """Where an iteration stands: the point ``z``, its residual ``r``, the method's memory.

    Every tensor of ``memory`` has one row a node, every tensor of ``graphs`` one a graph, so
    that finished graphs can be frozen and dropped without knowing the method.
    """

    z: Tensor
    r: Tensor
    memory: dict[str, Tensor] = field(default_factory=dict)
    graphs: dict[str, Tensor] = field(default_factory=dict)

    def freeze(self, keep: Tensor) -> None:
        """Stop the nodes where ``keep`` is zero: without a residual nothing moves them."""
        self.r = self.r * keep.unsqueeze(-1)
        for name, tensor in self.memory.items():
            self.memory[name] = tensor * keep.view(-1, *[1] * (tensor.dim() - 1))

    def select(self, nodes: Tensor, graphs: Tensor) -> None:
        """Keep these rows only."""
        self.z, self.r = self.z[nodes], self.r[nodes]
        self.memory = {name: tensor[nodes] for name, tensor in self.memory.items()}
        self.graphs = {name: tensor[graphs] for name, tensor in self.graphs.items()}


class System:
    """One equation as a linear system ``A z = b``, with sums over the nodes of each graph."""

    def __init__(self, equation: Equations, operator: Operator) -> None:
        self.equation, self.operator = equation, operator

    def linear(self, x: Tensor) -> Tensor:
        r"""Return :math:`M x = \gamma P^m x W`; the system matrix is :math:`A = I - M`."""
        for _ in range(self.equation.scales[0]):
            x = self.operator.multiply(x)
        return (x @ self.equation.weights.tensor[0]).mul_(self.equation.gamma)

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """Inner product of each graph's rows, in float64, shape ``(num_graphs,)``."""
        return graph_sum(self.operator, (x * y).sum(-1, dtype=torch.float64))

    def dots(self, history: Tensor, y: Tensor) -> Tensor:
        """Inner products with every member of ``history``, shape ``(num_graphs, members)``."""
        rows = torch.einsum("nkh,nh->kn", history, y).double()
        return graph_sum(self.operator, rows).T

    def spread(self, coefficient: Tensor, like: Tensor) -> Tensor:
        """One coefficient a graph, handed to its nodes; for a single graph, left to broadcast."""
        coefficient = coefficient.to(like.dtype)
        return coefficient if self.operator.batch is None else coefficient[self.operator.batch]


class Method(ABC):
    """An iterative method for :math:`A z = b`; it never measures and never stops."""

    @abstractmethod
    def step(self, system: System, state: State) -> None:
        """Advance ``state.z``, and ``state.r`` so that it stays :math:`b - A z`."""


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a / b``, zero where ``b`` is zero: a finished graph takes no step."""
    return torch.where(b == 0, torch.zeros_like(a), a / torch.where(b == 0, torch.ones_like(b), b))


def iterate(
    equation: Equations, method: Method, tol: float, max_iter: int
) -> tuple[Tensor, Tensor, bool]:
    """Solve one equation from zero.

    Returns:
        The point, the iterations of each graph, and whether the budget ran out.
    """
    bias, operator = equation.bias[0], equation.operator
    system = System(equation, operator)
    state = State(torch.zeros_like(bias), bias.clone())
    size = frobenius(operator, bias)
    value = state.z
    steps = torch.zeros(max(operator.num_graphs, 1), dtype=torch.long)
    nodes: Tensor | None = None  # the nodes still in the arithmetic, if not all are
    graphs = torch.arange(steps.numel(), device=bias.device)
    running = torch.ones_like(graphs, dtype=torch.bool)
    exhausted = False
    for count in range(max_iter + 1):
        residual = frobenius(system.operator, state.r)
        reference = torch.maximum(size, frobenius(system.operator, state.z))
        still = running & (residual > tol * reference)
        stopped = running & ~still
        steps[graphs[stopped].cpu()] = count
        running = still
        unfinished = int(running.sum())
        if unfinished == 0 or not bool(residual.isfinite().all()):
            break
        if count == max_iter:
            steps[graphs[running].cpu()] = count
            exhausted = True
            break
        if bool(stopped.any()) and operator.batch is not None:
            batch = system.operator.batch
            keep = running[batch] if batch is not None else running
            if 2 * int(keep.sum()) <= keep.numel():  # drop the finished half
                smaller, chosen = system.operator.restrict(running)
                value = _write(value, nodes, state.z)
                nodes = chosen if nodes is None else nodes[chosen]
                state.select(chosen, running)
                size, graphs, running = size[running], graphs[running], running[running]
                system = System(equation, smaller)
            else:
                state.freeze(keep)
        method.step(system, state)
    return _write(value, nodes, state.z), steps, exhausted


def _write(value: Tensor, nodes: Tensor | None, z: Tensor) -> Tensor:
    return z if nodes is None else value.index_copy(0, nodes, z)
