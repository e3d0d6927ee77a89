r"""A proven bound on the Perron-Frobenius eigenvalue of an operator, and the norm it holds in.

For any :math:`v > 0`, :math:`\rho(|P|) \le \max_i (|P| v)_i / v_i` (Collatz and Wielandt), and
:math:`P` is bounded by that number in :math:`\max_i |z_i| / v_i`. Power iteration makes it tight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.graph.derived import derived
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation

STEPS = 400  # at most; each is one product
LOOK = 20  # steps between two looks at what they gained
GAIN = 1e-4  # relative; less is not worth more steps
FLOORS = (0.1, 1e-2, 1e-3, 1e-4, 1e-6)  # of the vector over its largest entry
ROUNDING = 1e-6  # relative; that of the entries included


@derived
def perron_bound(propagation: Propagation) -> Bound:
    r"""Return a bound on :math:`\rho(|P|)`, computed once.

    An operator that is normalised is bounded by one in a norm of its own, which is as much as its
    eigenvalue in all but odd cases. Any other goes through power iteration.
    """
    if propagation.normalization != "none" or propagation.norm_bound == 0:
        return propagation.bound
    value, vector = _power_iteration(propagation)
    if value >= propagation.norm_bound:
        return propagation.bound
    if propagation.symmetric:  # then the spectral radius of |P| is its 2-norm, and bounds that of P
        norm = NodeNorm("frobenius")
        return Bound(value, norm, "Collatz and Wielandt's bound on ||P||_2 <= rho(|P|)")
    return Bound(value, NodeNorm("max", vector), "Collatz and Wielandt's bound on rho(|P|)")


def _power_iteration(propagation: Propagation) -> tuple[float, Tensor]:
    """Return the lowest bound that was met, and its vector."""
    matrix = propagation.pattern.matrix(propagation.values.detach().abs().double())
    vector = torch.ones(propagation.num_nodes, dtype=torch.float64, device=propagation.device)
    best, best_vector, before = torch.full_like(vector[:1], torch.inf), vector, torch.inf
    for count in range(1, STEPS + 1):
        image = matrix @ vector
        bound = (image / vector).amax(0, keepdim=True)
        best_vector = torch.where(bound < best, vector, best_vector)
        best = torch.minimum(best, bound)
        if count % LOOK == 0:
            now = float(best)
            if now > (1 - GAIN) * before:
                break
            before = now
        # Half of the old vector keeps every entry positive, and what has a period from swinging.
        vector = vector / 2 + image / (2 * bound)
        vector = vector / vector.max()
    return _levelled(matrix, best_vector, float(best))


def _levelled(matrix: Tensor, vector: Tensor, best: float) -> tuple[float, Tensor]:
    """Lift the smallest entries where the bound does not suffer: errors are divided by them."""
    for floor in FLOORS:
        lifted = vector.clamp(min=floor * float(vector.max()))
        bound = float((matrix @ lifted / lifted).max())
        if bound <= (1 + GAIN) * best:
            return bound * (1 + ROUNDING), lifted
    return best * (1 + ROUNDING), vector
