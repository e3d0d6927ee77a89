r"""Weights for which :math:`Z = \sigma(G Z W^{\top} + B)` has exactly one solution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import check_number


class OrthogonalWeight(nn.Module):
    r"""A scaled orthogonal matrix, parametrised by the Cayley transform.

    .. math::
        \mathbf{W} = \kappa\, s(\mu)\, (\mathbf{I} - \mathbf{C})(\mathbf{I} + \mathbf{C})^{-1}
        \mathbf{D}, \qquad \mathbf{C} = \mathbf{A} - \mathbf{A}^{\top},

    with the logistic function :math:`s`. The diagonal matrix :math:`\mathbf{D}` of signs admits
    orthogonal matrices with the eigenvalue -1, which the Cayley transform excludes. All singular
    values are :math:`\kappa\, s(\mu) < \kappa`.

    Args:
        channels (int): Number of rows and columns.
        kappa (float, optional): Bound :math:`\kappa \in (0, 1)` on the spectral norm.
            (default: :obj:`0.9`)
        negative (float, optional): Fraction of negative signs, at random positions.
            (default: :obj:`0.2`)

    Shapes:
        - **output:** :math:`(F, F)`
    """

    signs: Tensor

    def __init__(self, channels: int, kappa: float = 0.9, negative: float = 0.2) -> None:
        super().__init__()
        hint = "the equation then contracts; 0.9 is the authors' choice"
        check_number("kappa", kappa, "(0, 1)", hint)
        self.kappa, self.negative = float(kappa), negative
        self.skew = nn.Parameter(torch.empty(channels, channels))
        self.mu = nn.Parameter(torch.empty(()))
        self.register_buffer("signs", torch.ones(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters and the signs of the module."""
        _reset_uniform(self.skew)
        nn.init.ones_(self.mu)
        channels = self.signs.numel()
        order = torch.randperm(channels, device=self.signs.device)
        self.signs.fill_(1.0)[order[: int(self.negative * channels)]] = -1.0

    def forward(self) -> Tensor:
        """Return the matrix, in float32 or float64."""
        skew = self.skew.to(torch.promote_types(self.skew.dtype, torch.float32))
        skew = skew - skew.mT
        eye = torch.eye(skew.size(0), dtype=skew.dtype, device=skew.device)
        rotation: Tensor = torch.linalg.solve(eye + skew, eye - skew)  # the two factors commute
        return self.kappa * self.mu.sigmoid() * rotation * self.signs


class MonotoneWeight(nn.Module):
    r"""A matrix whose symmetric part is bounded from above.

    .. math::
        \mathbf{W} = \tfrac{1 - m}{2} \mathbf{I} - \mathbf{A} \mathbf{A}^{\top} + \mathbf{C} -
        \mathbf{C}^{\top}, \qquad m = e^{\mu}.

    For a symmetric :math:`\mathbf{G}` with eigenvalues in :math:`[0, 2]`, such as a normalised
    Laplacian, :math:`\mathbf{I} - \mathbf{G} \otimes \mathbf{W}` is strongly monotone with the
    constant :math:`\min(1, m)`: the eigenvalues of the symmetric part of :math:`\mathbf{G} \otimes
    \mathbf{W}` are :math:`g w` with :math:`w \le (1 - m) / 2`.

    Args:
        channels (int): Number of rows and columns.

    Shapes:
        - **output:** :math:`(F, F)`
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.empty(channels, channels))
        self.skew = nn.Parameter(torch.empty(channels, channels))
        self.mu = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module, with :math:`m = 1`."""
        _reset_uniform(self.root)
        _reset_uniform(self.skew)
        nn.init.zeros_(self.mu)

    def forward(self) -> Tensor:
        """Return the matrix."""
        eye = torch.eye(self.root.size(0), dtype=self.root.dtype, device=self.root.device)
        shift = (1 - self.mu.exp()) / 2
        return shift * eye - self.root @ self.root.mT + self.skew - self.skew.mT


def _reset_uniform(parameter: Tensor) -> None:
    bound = max(parameter.size(-1), 1) ** -0.5
    nn.init.uniform_(parameter, -bound, bound)
