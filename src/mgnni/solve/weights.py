"""The weights of a stack of equations, with their norms, eigenpairs and outlying eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from mgnni.errors import ArgumentError
from mgnni.kernels.launches import CLOSE, eigenpairs, has_eigenpairs, padded, widest
from mgnni.solve.products import product

WIDE = 512  # channels past which an eigendecomposition of W costs more than it saves
HUGE = 1e150  # entries past which a weight is treated as infinite
FEW = 4  # stack size up to which a CUDA device decomposes the weights itself
BLOCK = 32  # start vectors of the search for outliers; twice as many span the search space
KEPT = 24  # outliers kept; the other Ritz values tell how large the remaining eigenvalues are
MARGIN = 1.4  # factor by which the remaining eigenvalues may exceed their Ritz values
NOISE = 1e-12  # squared singular values below which a direction is rounding noise


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    r"""Eigenpairs :math:`W = Q \Lambda Q^{\top}` of every weight of a stack.

    They split an equation with :math:`h` channels into :math:`h` independent ones,
    :math:`y_j = \gamma \lambda_j P^m y_j + c_j` with :math:`Y = Z Q` and :math:`C = B Q`.
    """

    values: Tensor  # shape: (equations, channels), float64, on the CPU
    vectors: Tensor  # shape: (equations, channels, channels)
    error: float = 0.0  # bound on the error of an eigenvalue


@dataclass(frozen=True, eq=False)
class Outliers:
    r"""Ritz pairs :math:`X W \approx \operatorname{diag}(\theta) X` of every weight of a stack.

    They are optimal in their space, :math:`X W X^{\top} = \operatorname{diag}(\theta)`, so
    :math:`E = X W - \operatorname{diag}(\theta) X` is orthogonal to :math:`X`. Rows of zeros
    stand for directions that were not found.
    """

    values: Tensor  # shape: (equations, kept), theta, float64
    vectors: Tensor  # shape: (equations, kept, channels), X, orthonormal rows
    rest: Tensor  # shape: (equations, kept, channels), E
    interval: list[list[float]]  # per equation: interval that holds all other eigenvalues

    def leak(self, index: int, step: float) -> float:
        r"""Returns :math:`\|E^{\top} (1 - c\,|\theta|)^{-1} E\|_2` for one weight.

        The states couple all other directions to the outliers by :math:`E`, and the equations of
        the outliers amplify by up to :math:`(1 - c\,|\theta|)^{-1}`. So even a small error of the
        vectors matters if :math:`c\,|\theta|` is close to one.

        Args:
            index (int): The equation.
            step (float): The constant :math:`c = \gamma \|P\|^m`.
        """
        below = (1 - step * self.values[index].abs()).clamp(min=NOISE)
        error = self.rest[index].double() / below.sqrt().unsqueeze(-1)
        squares = torch.linalg.eigvalsh((error @ error.mT).cpu())
        return max(float(squares[-1]), 0.0)


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights :math:`W_i` of a stack of equations.

    Args:
        tensor (Tensor): The weights.
        psd_norm (float, optional): Bound on the Frobenius norm of weights that are known to be
            symmetric, positive semidefinite and of spectral norm at most one, as :math:`g(F)` is.
            :obj:`None` if this is not known. (default: :obj:`None`)
        exact (bool, optional): Whether eigenpairs always come from LAPACK, never from the faster
            CUDA kernel. (default: :obj:`False`)
        transpose_of (Weights, optional): The weights whose transposes these are.
        agreed (Callable, optional): Returns a tensor of the first of several processes. All of
            them must use the same eigenpairs, to the last digit.

    Shapes:
        - **tensor:** ``(equations, channels, channels)``
    """

    tensor: Tensor
    psd_norm: float | None = None
    exact: bool = False
    transpose_of: Weights | None = None
    agreed: Callable[[Tensor], Tensor] | None = None

    @property
    def channels(self) -> int:
        """Number of channels of the states."""
        return self.tensor.size(-1)

    def transposed(self) -> Weights:
        """Returns the transposed weights; these weights themselves if they are symmetric."""
        if self.symmetric:
            return self
        if self.transpose_of is not None:
            return self.transpose_of
        return replace(self, tensor=self.tensor.mT.contiguous(), transpose_of=self)

    @cached_property
    def symmetric(self) -> bool:
        """Whether every weight equals its transpose up to rounding."""
        if self.psd_norm is not None or self.channels == 0:
            return True
        gap = (self.tensor - self.tensor.mT).abs().amax(dim=(-2, -1))
        size = self.tensor.abs().amax(dim=(-2, -1))
        return bool((gap <= 16 * torch.finfo(self.tensor.dtype).eps * size).all())

    @cached_property
    def eigenpairs(self) -> Eigenpairs:
        """Eigenpairs of symmetric weights, computed in float64 so that they add no error."""
        exact = self.exact or self.agreed is not None
        usable = self.psd_norm is not None and self.channels and not exact and self.tensor.is_cuda
        if usable and has_eigenpairs(self.tensor):
            values, vectors = self.device_eigenpairs()
            kept = self.channels
            error = CLOSE * values.size(1)
            return Eigenpairs(values[:, :kept].cpu(), vectors[..., :kept].contiguous(), error)
        values, vectors = _decomposed(self.tensor)
        if self.agreed is not None:
            both = self.agreed(torch.cat([values.unsqueeze(1), vectors], 1))
            values, vectors = both[:, 0], both[:, 1:]
        return Eigenpairs(values.cpu(), vectors.to(self.tensor))

    def device_eigenpairs(self, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns eigenpairs as the CUDA kernels read them: falling, padded, on the device.

        Args:
            basis (Tensor, optional): Eigenvectors of similar weights to start from; see
                :func:`mgnni.kernels.launches.basis_for`.
        """
        if self.channels <= widest(self.tensor.device):
            return eigenpairs(self.tensor, basis)
        values, vectors = _decomposed(self.tensor)
        wide = (0, padded(self.channels) - self.channels)
        values = pad(values.flip(-1), wide).to(self.tensor.device)
        return values, pad(vectors.flip(-1).to(self.tensor), wide)

    @cached_property
    def outliers(self) -> Outliers:
        """The few large eigenvalues of symmetric weights; cheaper than all eigenpairs."""
        return find_outliers(self.tensor)

    @cached_property
    def frobenius(self) -> list[float]:
        """Frobenius norms or bounds on them; they bound the spectral norms."""
        if self.psd_norm is not None:
            return [self.psd_norm] * len(self.tensor)
        norms: list[float] = torch.linalg.matrix_norm(self.tensor.double()).tolist()
        return norms

    @cached_property
    def spectral(self) -> list[float]:
        """Spectral norms."""
        if self.transpose_of is not None:
            return self.transpose_of.spectral
        if self.channels == 0:
            return [0.0] * len(self.tensor)
        if self.symmetric and self.channels <= WIDE:
            largest = self.eigenpairs.values.abs().amax(-1) + self.eigenpairs.error
            found: list[float] = largest.tolist()
        else:
            found = torch.linalg.matrix_norm(self.tensor.double(), 2).tolist()
        return found


def check_finite_weight(weight: Tensor) -> None:
    """Raises an error if a weight has non-finite entries.

    Args:
        weight (Tensor): A tensor of any shape.
    """
    if not bool(torch.isfinite(weight).all()):
        raise ArgumentError(
            "'weight' must be finite (got nan or inf in it); the usual cause is an optimizer that "
            "diverged, so lower its learning rate"
        )


def _decomposed(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues and eigenvectors in float64; nan for a weight that is huge or nan."""
    weight = tensor.double()
    if weight.device.type == "cuda" and len(weight) > FEW:
        weight = weight.cpu()  # CUDA decomposes the small matrices of a stack one by one
    # LAPACK raises on nan and on numbers whose squares overflow.
    usable = (weight.abs() < HUGE).flatten(1).all(1).view(-1, 1, 1)
    values, vectors = torch.linalg.eigh(torch.where(usable, (weight + weight.mT) / 2, 0.0))
    return torch.where(usable.squeeze(-1), values, torch.nan), vectors


def find_outliers(weight: Tensor) -> Outliers:
    r"""Finds the few large eigenvalues of wide symmetric weights, and an interval for the rest.

    The weights of MGNNI have :math:`\sum_j \lambda_j^2 \le 1`, so most eigenvalues of a wide one
    are tiny. A random block of vectors, multiplied three times by the weight, finds the others.
    The start vectors are always the same, so the result depends on the weight alone.

    Args:
        weight (Tensor): The weights; symmetric.

    Shapes:
        - **weight:** ``(equations, channels, channels)``
    """
    count, channels = weight.shape[:2]
    if 2 * BLOCK >= channels:  # the search space would be the whole space
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
    theta, rotation = torch.linalg.eigh((inner + inner.mT) / 2)
    order = theta.abs().argsort(dim=-1, descending=True)
    theta = theta.gather(-1, order)
    rotation = rotation.gather(-1, order.unsqueeze(-2).expand_as(rotation)).mT
    others = pad(theta[:, kept:], (0, 1))  # zero always belongs to the interval
    ends = MARGIN * torch.stack([others.amin(-1), others.amax(-1)], -1)
    theta, rotation = theta[:, :kept], rotation[:, :kept]
    vectors = rotation @ basis
    rest = rotation @ image.double() - theta.unsqueeze(-1) * vectors
    return Outliers(theta, vectors.to(weight), rest.to(weight), ends.tolist())


def _times(rows: Tensor, weight: Tensor) -> Tensor:
    if weight.device.type != "cpu":
        return torch.bmm(rows, weight)
    # On a CPU, a batched product of few rows is half as fast as single products.
    return torch.stack([product(a, b) for a, b in zip(rows, weight, strict=True)])


def _orthonormal(rows: Tensor) -> Tensor:
    """Returns an orthonormal basis of the rows in float64, padded with rows of zeros."""
    rows = rows.double()
    values, vectors = torch.linalg.eigh(rows @ rows.mT)
    kept = values > NOISE * values[..., -1:]
    scale = torch.where(kept, values.clamp(min=0).rsqrt(), torch.zeros_like(values))
    basis: Tensor = scale.unsqueeze(-1) * (vectors.mT @ rows)
    # One Newton step removes the error that squaring the rows has caused.
    return 1.5 * basis - 0.5 * (basis @ basis.mT) @ basis
