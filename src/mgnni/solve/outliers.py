r"""The few large eigenvalues of a wide symmetric weight, and bounds for all the others.

The weights of MGNNI have :math:`\sum_j \lambda_j^2 \le 1`, so most eigenvalues of a wide one are
tiny. A block of vectors, multiplied three times by the weight, finds the others well enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.solve.dense import product

BLOCK = 32  # vectors to begin with; twice as many span the space that is searched
KEPT = 24  # eigenvalues that are kept; the other Ritz values tell how large the rest is
MARGIN = 1.4  # by which the rest may exceed its Ritz values, which lie inside of the spectrum
NOISE = 1e-12  # squares of singular values under which a direction is one of rounding


@dataclass(frozen=True, eq=False)
class Outliers:
    r"""Ritz pairs :math:`X W \approx \operatorname{diag}(\theta) X` of every weight of a stack.

    They are optimal in their space, :math:`X W X^{\top} = \operatorname{diag}(\theta)`, so that
    :math:`E = X W - \operatorname{diag}(\theta) X` is orthogonal to :math:`X`. Rows of zeros
    stand for directions that were not found.
    """

    values: Tensor  # theta, shape: (equations, kept), float64
    vectors: Tensor  # X, one in each row, orthonormal; shape: (equations, kept, channels)
    rest: Tensor  # E, shape: (equations, kept, channels)
    interval: list[list[float]]  # where all other eigenvalues should lie, two ends an equation


def outliers(weight: Tensor) -> Outliers:
    """Find the outliers of symmetric weights, shape ``(equations, channels, channels)``.

    What is found depends on the weight alone: the first vectors are always the same.
    """
    count, channels = weight.shape[:2]
    if 2 * BLOCK >= channels:  # nothing to search for in a space that is everything
        eye = torch.eye(channels, dtype=torch.float64, device=weight.device)
        basis, kept = eye.expand(count, -1, -1), channels
    else:
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(BLOCK, channels, generator=generator).to(weight)
        block = _orthonormal(_times(start.expand(count, -1, -1), weight))
        kept = KEPT
        basis = _orthonormal(torch.cat([block, _times(block.to(weight), weight)], -2))
    image = _times(basis.to(weight), weight)
    inner = basis @ image.double().mT
    theta, turn = torch.linalg.eigh((inner + inner.mT) / 2)
    order = theta.abs().argsort(dim=-1, descending=True)
    theta = theta.gather(-1, order)
    turn = turn.gather(-1, order.unsqueeze(-2).expand_as(turn)).mT
    others = torch.nn.functional.pad(theta[:, kept:], (0, 1))  # zero is always one of them
    ends = MARGIN * torch.stack([others.amin(-1), others.amax(-1)], -1)
    theta, turn = theta[:, :kept], turn[:, :kept]
    vectors = turn @ basis
    rest = turn @ image.double() - theta.unsqueeze(-1) * vectors
    return Outliers(theta, vectors.to(weight), rest.to(weight), ends.tolist())


def _times(rows: Tensor, weight: Tensor) -> Tensor:
    if weight.device.type != "cpu":
        return torch.bmm(rows, weight)
    # One by one: a batched product of few rows is half as fast.
    return torch.stack([product(a, b) for a, b in zip(rows, weight, strict=True)])


def _orthonormal(rows: Tensor) -> Tensor:
    """Return an orthonormal basis of the rows, in float64; rows of zeros fill it up."""
    rows = rows.double()
    values, vectors = torch.linalg.eigh(rows @ rows.mT)
    kept = values > NOISE * values[..., -1:]
    scale = torch.where(kept, values.clamp(min=0).rsqrt(), torch.zeros_like(values))
    basis: Tensor = scale.unsqueeze(-1) * (vectors.mT @ rows)
    # One step of Newton's iteration takes off what squaring the rows has cost.
    return 1.5 * basis - 0.5 * (basis @ basis.mT) @ basis
