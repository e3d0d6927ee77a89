r"""Weights :math:`W` for which :math:`Z = \sigma(G Z W^{\top} + B)` has one solution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError


class OrthogonalWeight(nn.Module):
    r"""A scaled orthogonal matrix, by the Cayley transform of a skew-symmetric one.

    .. math::  W = \kappa\, s(\mu)\, (I - C)(I + C)^{-1} D, \qquad C = A - A^{\top},

    with the logistic function :math:`s` and a diagonal matrix :math:`D` of signs, without which
    -1 would be no eigenvalue of the orthogonal factor. All singular values are
    :math:`\kappa\, s(\mu) < \kappa`.

    Args:
        channels: rows, and columns.
        kappa: :math:`\kappa \in (0, 1)`, a bound on the norm.
        negative: share of the signs that are negative; which ones is drawn.
    """

    signs: Tensor

    def __init__(self, channels: int, kappa: float = 0.9, negative: float = 0.2) -> None:
        super().__init__()
        if not isinstance(kappa, (int, float)) or not 0 < kappa < 1:
            raise ArgumentError(
                f"'kappa' must lie in (0, 1), so that the equation contracts (got {kappa!r}); 0.9 "
                "is the authors' choice"
            )
        self.kappa, self.negative = float(kappa), negative
        self.skew = nn.Parameter(torch.empty(channels, channels))
        self.mu = nn.Parameter(torch.empty(()))
        self.register_buffer("signs", torch.ones(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrix and the signs anew, and start from the authors' size."""
        _draw(self.skew)
        nn.init.ones_(self.mu)
        channels = self.signs.numel()
        order = torch.randperm(channels, device=self.signs.device)
        self.signs.fill_(1.0)[order[: int(self.negative * channels)]] = -1.0

    def forward(self) -> Tensor:
        """Return :math:`W`, shape ``(channels, channels)``."""
        skew = self.skew - self.skew.mT
        eye = torch.eye(skew.size(0), dtype=skew.dtype, device=skew.device)
        turn: Tensor = torch.linalg.solve(eye + skew, eye - skew)  # the two factors commute
        return self.kappa * self.mu.sigmoid() * turn * self.signs


class MonotoneWeight(nn.Module):
    r"""A matrix whose symmetric part is bounded from above alone.

    .. math::  W = \tfrac{1 - m}{2} I - A A^{\top} + C - C^{\top}, \qquad m = e^{\mu}.

    For a symmetric :math:`G` with eigenvalues in :math:`[0, 2]`, such as a normalised Laplacian,
    :math:`I - G \otimes W` is strongly monotone with the constant :math:`\min(1, m)`: the symmetric
    part of :math:`G \otimes W` has eigenvalues :math:`g w` with :math:`w \le (1 - m) / 2`.

    Args:
        channels: rows, and columns.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.empty(channels, channels))
        self.skew = nn.Parameter(torch.empty(channels, channels))
        self.mu = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both matrices anew, and start from :math:`m = 1`."""
        _draw(self.root)
        _draw(self.skew)
        nn.init.zeros_(self.mu)

    def forward(self) -> Tensor:
        """Return :math:`W`, shape ``(channels, channels)``."""
        eye = torch.eye(self.root.size(0), dtype=self.root.dtype, device=self.root.device)
        shift = (1 - self.mu.exp()) / 2
        return shift * eye - self.root @ self.root.mT + self.skew - self.skew.mT


def _draw(parameter: Tensor) -> None:
    bound = max(parameter.size(-1), 1) ** -0.5
    nn.init.uniform_(parameter, -bound, bound)
