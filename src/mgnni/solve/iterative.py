"""Iterative methods and the loop that they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.solve.certify import frobenius, graph_sum
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.products import product

WINDOW = 12  # directions kept by GMRES before it restarts


@dataclass
class State:
    """The state of an iteration: the point ``z``, its residual ``r`` and the method's memory.

    Every tensor in ``memory`` has one row per node and every tensor in ``graphs`` one row per
    graph, so that finished graphs can be frozen and removed independently of the method.
    """

    z: Tensor  # shape: (num_nodes, channels)
    r: Tensor  # shape: (num_nodes, channels)
    memory: dict[str, Tensor] = field(default_factory=dict)  # shape: (num_nodes, ...)
    graphs: dict[str, Tensor] = field(default_factory=dict)  # shape: (num_graphs, ...)

    def freeze(self, keep: Tensor) -> None:
        """Stops the nodes where ``keep`` is zero: without a residual they do not move."""
        self.r = self.r * keep.unsqueeze(-1)
        for name, tensor in self.memory.items():
            self.memory[name] = tensor * keep.view(-1, *[1] * (tensor.dim() - 1))

    def select(self, nodes: Tensor, graphs: Tensor) -> None:
        """Keeps only the given nodes and graphs."""
        self.z, self.r = self.z[nodes], self.r[nodes]
        self.memory = {name: tensor[nodes] for name, tensor in self.memory.items()}
        self.graphs = {name: tensor[graphs] for name, tensor in self.graphs.items()}


class System:
    """One equation as a linear system ``A z = b``, with inner products per graph."""

    def __init__(self, equation: Equations, operator: Propagation) -> None:
        self.equation, self.operator = equation, operator

    def linear(self, x: Tensor) -> Tensor:
        r"""Returns :math:`M x = \gamma P^m x W`; the system matrix is :math:`A = I - M`."""
        for _ in range(self.equation.scales[0]):
            x = self.operator.multiply(x)
        return product(x, self.equation.weights.tensor[0]).mul_(self.equation.gamma)

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """Inner product per graph in float64, shape ``(num_graphs,)``."""
        return graph_sum(self.operator, (x * y).sum(-1, dtype=torch.float64))

    def dots(self, history: Tensor, y: Tensor) -> Tensor:
        """Inner products with every member of ``history``, shape ``(num_graphs, members)``."""
        rows = torch.einsum("nkh,nh->kn", history, y).double()
        return graph_sum(self.operator, rows).T

    def spread(self, coefficient: Tensor, like: Tensor) -> Tensor:
        """Broadcasts one coefficient per graph to its nodes."""
        coefficient = coefficient.to(like.dtype)
        return coefficient if self.operator.batch is None else coefficient[self.operator.batch]


class Iterative(Method):
    """Solves one equation after another by an iteration from zero."""

    @abstractmethod
    def step(self, system: System, state: State) -> None:
        """Advances ``state.z``, and ``state.r`` so that it stays :math:`b - A z`."""

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Iterates until the recursive residual of every graph meets the tolerance."""
        z = torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)
        steps, exhausted = [], False
        for index in range(len(self.equations)):
            found = self._iterate(self.equations[index], bias[index], tol, max_iter)
            z[index], count, over = found
            steps.append(count)
            exhausted |= over
        return Proposal(z, torch.stack(steps), exhausted)

    def _iterate(
        self, equation: Equations, bias: Tensor, tol: float, max_iter: int
    ) -> tuple[Tensor, Tensor, bool]:
        """Returns the states, the iterations per graph, and whether the budget ran out."""
        operator = equation.operator
        system = System(equation, operator)
        state = State(torch.zeros_like(bias), bias.clone())
        size = frobenius(operator, bias)
        value = state.z
        steps = torch.zeros(max(operator.num_graphs, 1), dtype=torch.long)
        nodes: Tensor | None = None  # the nodes that still iterate, if not all do
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
                keep = running[system.operator.graph_of_node()]
                if 2 * int(keep.sum()) <= keep.numel():  # remove the finished graphs
                    smaller, chosen = system.operator.restrict(running)
                    value = _write(value, nodes, state.z)
                    nodes = chosen if nodes is None else nodes[chosen]
                    state.select(chosen, running)
                    size, graphs, running = size[running], graphs[running], running[running]
                    system = System(equation, smaller)
                else:
                    state.freeze(keep)
            self.step(system, state)
        return _write(value, nodes, state.z), steps, exhausted


def _write(value: Tensor, nodes: Tensor | None, z: Tensor) -> Tensor:
    return z if nodes is None else value.index_copy(0, nodes, z)


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Returns ``a / b``, and zero where ``b`` is zero: a finished graph takes no step.

    Args:
        a (Tensor): Numerators.
        b (Tensor): Denominators.

    Shapes:
        - **a, b, output:** ``(num_graphs, *)``
    """
    return torch.where(b == 0, torch.zeros_like(a), a / torch.where(b == 0, torch.ones_like(b), b))


class Picard(Iterative):
    r"""Picard iteration :math:`z_{k+1} = T(z_k) = z_k + r_k`, as in the paper.

    The map is affine, so :math:`r_{k+1} = M r_k`: the residual falls by at least the factor
    :math:`L` in every step.
    """

    name = "picard"

    def step(self, system: System, state: State) -> None:
        """Takes one step."""
        state.z = state.z + state.r
        state.r = system.linear(state.r)


class ConjugateGradients(Iterative):
    r"""Conjugate gradients on :math:`A = I - \gamma P^m \cdot W`, with one step size per graph.

    For a symmetric operator and weight, :math:`A` is symmetric with spectrum in
    :math:`[1 - L, 1 + L]`, hence positive definite. The residual falls about as
    :math:`2 ((1 - \sqrt{1 - L^2}) / L)^k`.
    """

    name = "cg"
    needs_symmetric_operator = needs_symmetric_weight = True

    def step(self, system: System, state: State) -> None:
        """Takes one step."""
        if "p" not in state.memory:
            state.memory["p"] = state.r
            state.graphs["rr"] = system.dot(state.r, state.r)
        p = state.memory["p"]
        ap = p - system.linear(p)
        before = state.graphs["rr"]
        # alpha_k = <r_k, r_k> / <p_k, A p_k>
        alpha = system.spread(divide(before, system.dot(p, ap)), p).unsqueeze(-1)
        state.z = state.z + alpha * p
        state.r = state.r - alpha * ap
        after = system.dot(state.r, state.r)
        # p_{k+1} = r_{k+1} + <r_{k+1}, r_{k+1}> / <r_k, r_k> p_k
        state.memory["p"] = state.r + system.spread(divide(after, before), p).unsqueeze(-1) * p
        state.graphs["rr"] = after


class GMRES(Iterative):
    r"""Restarted GMRES in the form of generalised conjugate residuals.

    Keeps directions :math:`p_i` with orthogonal :math:`A p_i` and minimises the residual over
    their span, per graph (Eisenstat, Elman and Schultz, 1983). Where the map contracts in the
    Frobenius norm, every step reduces the residual by at least the factor :math:`L`.

    Where it contracts in another norm only, the minimal Frobenius residual may stagnate. A graph
    whose cycle gained less than Picard steps would is therefore given Picard steps, which converge
    in any norm: for one cycle at first, and for twice as many each time after.
    """

    name = "gmres"

    def step(self, system: System, state: State) -> None:
        """Takes one step."""
        if "p" not in state.memory:
            self._begin(system, state)
        p, ap = state.r, state.r - system.linear(state.r)
        plain = state.graphs["plain"] > 0  # Picard: direction r with step size one
        # p = r - sum_i beta_i p_i with beta_i = <A r, A p_i> / <A p_i, A p_i>
        if state.memory["p"].size(1):
            beta = divide(system.dots(state.memory["ap"], ap), state.graphs["size"])
            beta = torch.where(plain.unsqueeze(1), torch.zeros_like(beta), beta)
            weight = system.spread(beta, ap).expand(len(p), -1)
            p = p - torch.einsum("nkh,nk->nh", state.memory["p"], weight)
            ap = ap - torch.einsum("nkh,nk->nh", state.memory["ap"], weight)
        size = system.dot(ap, ap)
        length = divide(system.dot(state.r, ap), size)
        length = torch.where(plain, torch.ones_like(length), length)
        alpha = system.spread(length, p).unsqueeze(-1)
        state.z = state.z + alpha * p
        state.r = state.r - alpha * ap
        if state.memory["p"].size(1) + 1 == WINDOW:
            self._end(system, state)
            return
        state.memory["p"] = torch.cat([state.memory["p"], p.unsqueeze(1)], dim=1)
        state.memory["ap"] = torch.cat([state.memory["ap"], ap.unsqueeze(1)], dim=1)
        state.graphs["size"] = torch.cat([state.graphs["size"], size.unsqueeze(1)], dim=1)

    @staticmethod
    def _begin(system: System, state: State) -> None:
        """Starts a cycle without directions."""
        state.memory["p"] = state.memory["ap"] = state.r.unsqueeze(1)[:, :0]
        state.graphs["begin"] = system.dot(state.r, state.r)
        state.graphs["size"] = state.graphs["begin"].unsqueeze(1)[:, :0]
        if "plain" not in state.graphs:  # Picard cycles that a graph still has, and gets next
            state.graphs["plain"] = torch.zeros_like(state.graphs["begin"], dtype=torch.long)
            state.graphs["next"] = torch.ones_like(state.graphs["plain"])

    @staticmethod
    def _end(system: System, state: State) -> None:
        """Drops the directions, and gives Picard steps to the graphs that gained little."""
        state.memory = {}
        expected = system.equation.contractions[0] ** (2 * WINDOW)
        plain, following = state.graphs["plain"], state.graphs["next"]
        poor = system.dot(state.r, state.r) > expected * state.graphs["begin"]
        sent = poor & (plain == 0)
        state.graphs["plain"] = torch.where(sent, following, (plain - 1).clamp(min=0))
        state.graphs["next"] = torch.where(sent, 2 * following, following)
