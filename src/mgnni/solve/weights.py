"""The weights of a stack of equations, and what is found out about them, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from mgnni.kernels.launches import CLOSE, eigenpairs, has_eigenpairs, padded, widest
from mgnni.solve.outliers import Outliers, outliers

WIDE = 512  # channels past which an eigendecomposition of W costs more than it saves
FEW = 4  # weights up to which their eigenpairs are found where they are


@dataclass(frozen=True, eq=False)
class Decoupling:
    r"""Eigenpairs :math:`W = Q \Lambda Q^{\top}` of every weight of a stack.

    They split an equation of width :math:`h` into :math:`h` independent ones,
    :math:`y_j = \gamma \lambda_j P^m y_j + c_j` with :math:`Y = Z Q` and :math:`C = B Q`.
    """

    eigenvalues: Tensor  # shape: (equations, channels), float64, on the CPU
    eigenvectors: Tensor  # shape: (equations, channels, channels)
    left: float = 0.0  # what an eigenvalue may be larger by than it was found


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights :math:`W_i`; all that is derived from them is computed once and kept."""

    tensor: Tensor  # shape: (equations, channels, channels)
    normed: bool = False  # symmetric, positive semidefinite, of Frobenius norm one at most
    basis: Tensor | None = None  # eigenvectors of weights that were much the same

    @property
    def channels(self) -> int:
        """Width of the states."""
        return self.tensor.size(-1)

    def transposed(self) -> Weights:
        """The transposed weights: these themselves, if symmetric."""
        if self.symmetric:
            return self
        turned = Weights(self.tensor.mT.contiguous())
        turned.__dict__["spectral"] = self.spectral  # the same, to the last digit
        return turned

    @cached_property
    def symmetric(self) -> bool:
        """Whether every weight equals its transpose up to rounding."""
        if self.normed or self.channels == 0:
            return True
        gap = (self.tensor - self.tensor.mT).abs().amax(dim=(-2, -1))
        size = self.tensor.abs().amax(dim=(-2, -1))
        return bool((gap <= 16 * torch.finfo(self.tensor.dtype).eps * size).all())

    @cached_property
    def decoupling(self) -> Decoupling:
        """Eigenpairs of symmetric weights, from float64 so that splitting adds no error."""
        planned = "planned_pairs" in self.__dict__
        if planned or (self.normed and self.channels and has_eigenpairs(self.tensor)):
            values, vectors = self.planned_pairs
            kept = self.channels
            left = CLOSE * values.size(1)
            return Decoupling(values[:, :kept].cpu(), vectors[..., :kept].contiguous(), left)
        return self._exact

    @cached_property
    def _exact(self) -> Decoupling:
        values, vectors = _decomposed(self.tensor)
        return Decoupling(values.cpu(), vectors.to(self.tensor))

    def decompose_anew(self) -> None:
        """Find the eigenpairs better, once: with those at hand a solve has missed its mark."""
        if self.__dict__.get("decoupling") is not self._exact:
            self.__dict__["decoupling"] = self._exact
            self.polynomials.clear()  # which are in the order of the others

    @cached_property
    def outliers(self) -> Outliers:
        """The few large eigenvalues of symmetric weights; less work than all of them."""
        return outliers(self.tensor)

    @cached_property
    def frobenius(self) -> list[float]:
        """Frobenius norms, or what bounds them; they bound the spectral ones."""
        if self.normed:
            return [1.0] * len(self.tensor)
        norms: list[float] = torch.linalg.matrix_norm(self.tensor.double()).tolist()
        return norms

    @cached_property
    def spectral(self) -> list[float]:
        """Spectral norms."""
        if self.channels == 0:
            return [0.0] * len(self.tensor)
        if self.symmetric and self.channels <= WIDE:
            largest = self.decoupling.eigenvalues.abs().amax(-1) + self.decoupling.left
            found: list[float] = largest.tolist()
        else:
            found = torch.linalg.matrix_norm(self.tensor.double(), 2).tolist()
        return found

    @cached_property
    def planned_pairs(self) -> tuple[Tensor, Tensor]:
        """Eigenpairs of normed weights, by falling eigenvalue, padded, left on the accelerator."""
        if self.channels <= widest(self.tensor.device):
            return eigenpairs(self.tensor, self.basis)
        values, vectors = _decomposed(self.tensor)
        wide = (0, padded(self.channels) - self.channels)
        values = pad(values.flip(-1), wide).to(self.tensor.device)
        return values, pad(vectors.flip(-1).to(self.tensor), wide)

    @cached_property
    def polynomials(self) -> dict[Any, Any]:
        """Polynomials of the sweep solvers; the adjoint equations have the same."""
        return {}


def _decomposed(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, rising, and eigenvectors in float64; nan for a weight that is not finite."""
    weight = tensor.double()
    if weight.device.type == "cuda" and len(weight) > FEW:
        weight = weight.cpu()  # an accelerator takes small matrices one by one, and slowly
    finite = weight.isfinite().flatten(1).all(1).view(-1, 1, 1)  # LAPACK says so loudly
    values, vectors = torch.linalg.eigh(torch.where(finite, (weight + weight.mT) / 2, 0.0))
    return torch.where(finite.squeeze(-1), values, torch.nan), vectors


class KnownWeights:
    """The last weights met, with all that was found out about them.

    A validation pass and the training pass after it have the same weights. They are compared
    number by number, so a change made in any way is noticed. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._last: Weights | None = None

    def of(self, tensor: Tensor, normed: bool = False) -> Weights:
        """Return these weights, with what is known of them if they are the last ones."""
        last = self._last
        if last is None or not (
            last.normed == normed
            and last.tensor.shape == tensor.shape
            and last.tensor.dtype == tensor.dtype
            and last.tensor.device == tensor.device
            and torch.equal(last.tensor, tensor)
        ):
            self._last = None  # two at a time would be one too many
            last = Weights(tensor.detach().clone(), normed)
            # Memory of an inference pass cannot serve training.
            self._last = None if last.tensor.is_inference() else last
        return last

    def holds(self, weights: Weights) -> bool:
        """Whether these are the last weights met."""
        return weights is self._last

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownWeights, ()
