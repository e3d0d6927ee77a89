"""Bounds on the rounding error of a residual."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgnni.graph.csr import SparseMatrix
from mgnni.graph.memo import memoize
from mgnni.graph.propagation import Propagation
from mgnni.solve.equation import power

LONG_SUM = 32  # terms past which the rounding errors of a sum are not taken as independent
POWER_STEPS = 20  # of the bound on a norm


def sum_units(terms: int) -> float:
    """Rounding error of a sum, in units in the last place.

    A short sum of k terms loses about sqrt(k) units, except with negligible probability (Higham
    and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019). That assumes
    independent rounding errors. Sums of many equal terms, as at a hub with equal neighbors, are
    biased and lose up to k units, so long sums are allowed that many.
    """
    return float(terms) if terms > LONG_SUM else math.sqrt(terms)


@memoize
def summation_gain(operator: Propagation) -> float:
    r"""Bounds the rounding of :math:`P z` in units in the last place, relative to :math:`\|z\|`.

    With :math:`M = \operatorname{diag}(c)\,|P|` for the units :math:`c` of each row, see
    :func:`sum_units`, the gain is a bound on the norm of :math:`M`; in the Frobenius norm, Collatz
    and Wielandt's bound on :math:`\|M^{\top} M\|_2`.
    """
    if operator.longest_row <= LONG_SUM:
        return operator.norm_bound * sum_units(operator.longest_row)
    length = operator.lengths.double().to(operator.device).unsqueeze(1)
    units = torch.where(length > LONG_SUM, length, length.sqrt())
    if operator.symmetric and not operator.is_sharded:  # without a transpose, which may be large
        forth = back = SparseMatrix(operator.pattern, operator.values.detach().abs().double())
    else:
        forth, back = operator.magnitudes()
    weight = None if operator.norm.weight is None else operator.norm.weight.unsqueeze(1)
    if operator.norm.kind == "max" and weight is not None:
        return _largest(operator, units * forth.multiply(weight) / weight)
    if operator.norm.kind == "sum" and weight is not None:
        return _largest(operator, back.multiply(units * weight) / weight)
    vector = torch.ones_like(units)
    best = torch.inf
    for _ in range(POWER_STEPS):
        image = back.multiply(units.square() * forth.multiply(vector))
        best = min(best, _largest(operator, image / vector) ** 0.5)
        vector = (vector + image / _largest(operator, image)) / 2  # stays positive
    return best


def _largest(operator: Propagation, x: Tensor) -> float:
    """Returns the largest of positive numbers, over the nodes of all processes."""
    return float(operator.max_over_processes(x.max() if x.numel() else x.new_zeros(())))


def rounding_factors(
    operator: Propagation,
    scales: tuple[int, ...],
    gamma: float,
    channels: int,
    norms: list[float],
) -> list[float]:
    """Rounding error of evaluating a residual, in units in the last place of the state norm.

    Args:
        operator (Propagation): The operator.
        scales (tuple[int, ...]): The scale of each equation.
        gamma (float): The factor of the equations.
        channels (int): Number of channels.
        norms (list[float]): Frobenius norm of each weight.
    """
    factors, gain = [], summation_gain(operator)
    for scale, norm in zip(scales, norms, strict=True):
        before = power(operator.norm_bound, scale - 1)
        sums = scale * before * gain
        products = before * operator.norm_bound * (sum_units(channels) + 4)
        factors.append(gamma * norm * (sums + products))
    return factors
