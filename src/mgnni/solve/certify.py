r"""The one residual of the library, measured at the returned point, and the bound it certifies.

If the map :math:`T(Z) = \gamma P^m Z W + B` contracts by :math:`L < 1` in some norm, then
:math:`\|Z - Z^\star\| \le \|T(Z) - Z\| / (1 - L)`. The residual is measured per graph, over
all of its nodes and channels, since these are coupled; graphs of a batch are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from mgnni.solve.dense import biased_product
from mgnni.solve.equation import Equations
from mgnni.solve.operator import Graphs, Operator


def graph_sum(graphs: Graphs, x: Tensor) -> Tensor:
    """Sum over the nodes of each graph: ``(..., num_nodes)`` to ``(..., num_graphs)``."""
    if graphs.batch is None:
        return x.sum(-1, keepdim=True)
    total = x.new_zeros(*x.shape[:-1], graphs.num_graphs)
    return total.index_add_(-1, graphs.batch, x)


def graph_max(graphs: Graphs, x: Tensor) -> Tensor:
    """Largest non-negative number of each graph, zero for a graph without nodes."""
    if graphs.batch is None:
        return x.amax(-1, keepdim=True) if x.size(-1) else x.new_zeros(*x.shape[:-1], 1)
    largest = x.new_zeros(*x.shape[:-1], graphs.num_graphs)
    index = graphs.batch.expand_as(x)
    return largest.scatter_reduce_(-1, index, x, "amax", include_self=True)


def _rows(x: Tensor) -> Tensor:
    """Norm of every row: ``(..., nodes, channels)`` to ``(..., nodes)``, in float64.

    Rows are short, and inputs of extreme size have been scaled, so only the sums over nodes need
    the wider type.
    """
    rows: Tensor = torch.linalg.vector_norm(x, dim=-1).double()
    return rows


def frobenius(graphs: Graphs, x: Tensor) -> Tensor:
    """Frobenius norm of each graph's rows: ``(..., nodes, channels)`` to ``(..., graphs)``."""
    return graph_sum(graphs, _rows(x).square()).sqrt()


def _norm(operator: Operator, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The Frobenius norm and the operator's own norm of each graph, from norms of the rows."""
    plain = graph_sum(operator, rows.square()).sqrt()
    norm = operator.norm
    if norm.kind == "max" and norm.weight is not None:
        return plain, graph_max(operator, rows / norm.weight)
    if norm.kind == "sum" and norm.weight is not None:
        return plain, graph_sum(operator, rows * norm.weight)
    return plain, plain


def to_frobenius(operator: Operator) -> Tensor | None:
    """The factor from the operator's own norm to the Frobenius norm, one a graph, if any."""
    norm = operator.norm
    if norm.kind == "max" and norm.weight is not None:
        return graph_sum(operator, norm.weight.square()).sqrt()
    if norm.kind == "sum" and norm.weight is not None:
        return graph_max(operator, 1 / norm.weight)
    return None


def graph_magnitude(graphs: Graphs, x: Tensor) -> Tensor:
    """Largest absolute entry of each graph: ``(..., nodes, channels)`` to ``(..., graphs)``."""
    if x.size(-1) == 0:
        return x.new_zeros(*x.shape[:-2], max(graphs.num_graphs, 1))
    return graph_max(graphs, torch.maximum(x.amax(-1), -x.amin(-1)))


def spread(graphs: Graphs, x: Tensor) -> Tensor:
    """Hand one number a graph to its nodes: ``(..., graphs)`` to ``(..., nodes, 1)``."""
    rows = x if graphs.batch is None else x[..., graphs.batch]
    return rows.unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Residuals of a stack at one point; norms have shape ``(equations, graphs)``, on the CPU."""

    residual: Tensor  # T(Z) - Z, shape: (equations, nodes, channels)
    hop: Tensor  # P^m Z, which the gradient of the weight needs too
    residual_norm: Tensor
    reference: Tensor  # the larger of ||B||_F and ||Z||_F
    error_bound: Tensor  # on ||Z - Z*||_F
    exempt: Tensor  # where the residual is one of last digits only

    @property
    def relative(self) -> Tensor:
        """Residual norm over the reference; zero where both vanish."""
        return self._over_reference(self.residual_norm)

    @property
    def relative_bound(self) -> Tensor:
        """Error bound over the reference; zero where both vanish."""
        return self._over_reference(self.error_bound)

    def _over_reference(self, norm: Tensor) -> Tensor:
        return torch.where(norm == 0, torch.zeros_like(norm), norm / self.reference)

    def replaced(self, other: Measurement, where: Tensor, operator: Operator) -> Measurement:
        """This measurement with that of other states where they were taken, graph by graph."""
        rows = spread(operator, where.to(self.residual.device))
        return Measurement(
            torch.where(rows, other.residual, self.residual),
            torch.where(rows, other.hop, self.hop),
            torch.where(where, other.residual_norm, self.residual_norm),
            torch.where(where, other.reference, self.reference),
            torch.where(where, other.error_bound, self.error_bound),
            self.exempt,
        )

    def scaled(self, factor: Tensor, exempt: float) -> Measurement:
        """The measurement in other units, one a graph; residuals up to ``exempt`` pass."""
        names = ("residual_norm", "reference", "error_bound")
        scaled = {name: getattr(self, name) * factor for name in names}
        return replace(self, **scaled, exempt=scaled["residual_norm"] <= exempt)


@lru_cache(maxsize=256)
def constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers in float64 on a device, sent there once."""
    with torch.inference_mode(False):
        return torch.tensor(numbers, dtype=torch.float64, device=device)


def rounding_factors(equations: Equations) -> list[float]:
    """Units in the last place, over the norm of the state, that evaluating a residual loses.

    A sum of k terms loses about sqrt(k), save with negligible probability (Higham and Mary, 2019).
    """
    operator, factors = equations.operator, []
    for scale, norm in zip(equations.scales, equations.weights.frobenius, strict=True):
        terms = scale * operator.longest_row**0.5 + equations.channels**0.5 + 4
        factors.append(equations.gamma * norm * operator.norm_bound**scale * terms)
    return factors


def certified(
    equations: Equations, residual: Tensor, z: Tensor, bias: Tensor, contraction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return norms of the residual, the reference, and bounds on the error, all on the device.

    Args:
        equations: the equations, with their bias or a multiple of it.
        residual: measured at ``z``.
        z: the states.
        bias: that of the equations; a single one, if they share it.
        contraction: one constant an equation.
    """
    operator = equations.operator
    rows = [torch.linalg.vector_norm(x, dim=-1) for x in (residual, z, bias)]
    rows[2] = rows[2].expand_as(rows[0])
    plain, own = _norm(operator, torch.stack(rows).double())
    (plain_r, plain_z, plain_b), (own_r, own_z, own_b) = plain.unbind(), own.unbind()

    # A computed residual carries the rounding of its own evaluation.
    unit = torch.finfo(z.dtype).eps / 2
    factor = constants(tuple(rounding_factors(equations)), z.device)
    rounding = unit * (factor.unsqueeze(1) * own_z + 2 * (own_z + own_b))
    bound = (own_r + rounding) / (1 - contraction).unsqueeze(1)
    turned = to_frobenius(operator)
    reference = torch.maximum(plain_b, plain_z)
    return plain_r, reference, bound if turned is None else bound * turned


def measure(
    equations: Equations, z: Tensor, hop: Tensor | None = None, image: Tensor | None = None
) -> Measurement:
    r"""Measure the residual at ``z`` and what it certifies.

    Args:
        equations: the equations.
        z: the states.
        hop: :math:`P^m Z`, if it is at hand.
        image: :math:`\gamma P^m Z W + B`, if it is; it becomes the residual.
    """
    hop = equations.hop(z) if hop is None else hop
    if image is None:
        weight = equations.weights.tensor
        image = biased_product(equations.bias, hop, weight, equations.gamma)
    residual = image.sub_(z)
    contraction = torch.tensor(equations.contractions, dtype=torch.float64, device=z.device)
    bias = equations.bias[:1] if equations.shared_bias else equations.bias
    found = certified(equations, residual, z, bias, contraction)
    plain_r, reference, bound = torch.stack(found).cpu().unbind()  # one transfer
    none = torch.zeros_like(plain_r, dtype=torch.bool)
    return Measurement(residual, hop, plain_r, reference, bound, none)
