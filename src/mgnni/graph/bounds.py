r"""Bounds on operators from their entries: row sums, degrees and the Perron-Frobenius eigenvalue.

For any :math:`v > 0`, :math:`\rho(|P|) \le \max_i (|P| v)_i / v_i` (Collatz and Wielandt), and this
number bounds :math:`P` in the norm :math:`\max_i |z_i| / v_i`. Power iteration tightens it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.graph.memo import memoize, memoize_differentiable
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation

MAX_STEPS = 400  # of power iteration; each is one product
CHECK_EVERY = 20  # steps
MIN_GAIN = 1e-4  # relative; power iteration stops below it
FLOORS = (0.1, 1e-2, 1e-3, 1e-4, 1e-6)  # smallest over largest entry of the vector
ROUNDING = 1e-6  # relative allowance, including the rounding of the entries


@memoize_differentiable
def row_sums(propagation: Propagation) -> Tensor:
    """Return the row sums of an operator, cached per operator.

    Args:
        propagation (Propagation): The operator.

    Shapes:
        - **output:** ``(num_nodes, 1)``
    """
    return propagation.apply(propagation.values.new_ones(propagation.num_nodes, 1))


@memoize_differentiable
def largest_degrees(propagation: Propagation) -> Tensor:
    r"""Return a bound on :math:`\|P\|_2` per graph, in float64.

    It is the square root of the largest absolute row sum times the largest absolute column sum,
    which is the largest degree for undirected graphs. It is one for graphs without edges: any
    bound is valid there, and the square root has no derivative at zero.

    Args:
        propagation (Propagation): The operator.

    Shapes:
        - **output:** ``(num_graphs,)``
    """
    size, graph = propagation.values.double().abs(), propagation.graph_of_node()
    product = size.new_ones(propagation.num_graphs)
    for end in (propagation.pattern.row, propagation.pattern.col.long()):
        sums = size.new_zeros(propagation.num_nodes).index_add(0, end, size)
        product = product * torch.zeros_like(product).scatter_reduce(0, graph, sums, "amax")
    return torch.where(product > 0, product, 1.0).sqrt()


@memoize
def perron_bound(propagation: Propagation) -> Bound:
    r"""Return a bound on :math:`\rho(|P|)`, cached per operator.

    A normalised operator is bounded by one, which is almost always its spectral radius. All other
    operators are bounded by power iteration.
    """
    if propagation.normalization != "none" or propagation.norm_bound == 0:
        return propagation.bound
    value, vector = _power_iteration(propagation)
    if value >= propagation.norm_bound:
        return propagation.bound
    if propagation.symmetric:  # ||P||_2 = rho(P) <= rho(|P|)
        norm = NodeNorm("frobenius")
        return Bound(value, norm, "Collatz-Wielandt bound on ||P||_2 <= rho(|P|)")
    return Bound(value, NodeNorm("max", vector), "Collatz-Wielandt bound on rho(|P|)")


def _power_iteration(propagation: Propagation) -> tuple[float, Tensor]:
    """Return the smallest bound found, and its vector."""
    matrix = propagation.pattern.matrix(propagation.values.detach().abs().double())
    vector = torch.ones(propagation.num_nodes, dtype=torch.float64, device=propagation.device)
    best, best_vector, before = torch.full_like(vector[:1], torch.inf), vector, torch.inf
    for count in range(1, MAX_STEPS + 1):
        image = matrix @ vector
        bound = (image / vector).amax(0, keepdim=True)
        best_vector = torch.where(bound < best, vector, best_vector)
        best = torch.minimum(best, bound)
        if count % CHECK_EVERY == 0:
            now = float(best)
            if now > (1 - MIN_GAIN) * before:
                break
            before = now
        # Averaging with the old vector keeps entries positive and damps periodic graphs.
        vector = vector / 2 + image / (2 * bound)
        vector = vector / vector.max()
    return _raise_smallest(matrix, best_vector, float(best))


def _raise_smallest(matrix: Tensor, vector: Tensor, best: float) -> tuple[float, Tensor]:
    """Raise the smallest entries, by which errors are divided, while the bound stays close."""
    for floor in FLOORS:
        lifted = vector.clamp(min=floor * float(vector.max()))
        bound = float((matrix @ lifted / lifted).max())
        if bound <= (1 + MIN_GAIN) * best:
            return bound * (1 + ROUNDING), lifted
    return best * (1 + ROUNDING), vector
