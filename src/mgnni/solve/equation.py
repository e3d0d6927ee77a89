"""A stack of equilibrium equations over one operator, and the constants by which they contract."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from mgnni.errors import NotContractiveError
from mgnni.solve.scratch import scratch

WIDE = 512  # channels past which an eigendecomposition of W costs more than it saves
KNOWN = ("symmetric_weight", "decoupling", "weight_norms", "polynomials")  # of the weights alone


class Norm(Protocol):
    """In which norm of node states an operator contracts; see ``solve/certify.py``."""

    @property
    def kind(self) -> str: ...
    @property
    def weight(self) -> Tensor | None: ...


class Operator(Protocol):
    """What a solver needs to know of the linear map :math:`P`."""

    @property
    def num_nodes(self) -> int: ...
    @property
    def num_graphs(self) -> int: ...
    @property
    def largest_graph(self) -> int: ...
    @property
    def batch(self) -> Tensor | None: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def norm_bound(self) -> float: ...
    @property
    def norm(self) -> Norm: ...
    @property
    def reason(self) -> str: ...
    @property
    def longest_row(self) -> int: ...
    @property
    def spectrum(self) -> Any: ...
    def multiply(self, x: Tensor) -> Tensor: ...
    def multiply_into(
        self, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
    ) -> Tensor: ...
    def adjoint(self) -> Any: ...
    def double(self) -> Any: ...
    def restrict(self, graphs: Tensor) -> tuple[Any, Tensor]: ...


@dataclass(frozen=True, eq=False)
class Decoupling:
    r"""Eigenpairs :math:`W = Q \Lambda Q^{\top}` of every weight of a stack.

    They split an equation of width :math:`h` into :math:`h` independent ones,
    :math:`y_j = \gamma \lambda_j P^m y_j + c_j` with :math:`Y = Z Q` and :math:`C = B Q`.
    """

    eigenvalues: Tensor  # shape: (equations, channels), float64, on the CPU
    eigenvectors: Tensor  # shape: (equations, channels, channels)


@dataclass(frozen=True, eq=False)
class Equations:
    r"""The equations :math:`Z_i = \gamma P^{m_i} Z_i W_i + B_i` over one operator :math:`P`.

    Every right-hand side has Lipschitz constant at most
    :math:`L_i = \gamma \|W_i\|_2 \|P\|^{m_i}` in the norm of the operator.
    """

    operator: Operator
    scales: tuple[int, ...]
    gamma: float
    weight: Tensor  # shape: (equations, channels, channels)
    bias: Tensor  # shape: (equations, num_nodes, channels); may be one bias, expanded

    @property
    def channels(self) -> int:
        """Width of the states."""
        return self.weight.size(-1)

    @property
    def shared_bias(self) -> bool:
        """Whether all equations have one and the same bias."""
        return self.bias.size(0) == 1 or self.bias.stride(0) == 0

    def __len__(self) -> int:
        return len(self.scales)

    def __getitem__(self, index: int) -> Equations:
        part = slice(index, index + 1)
        return replace(
            self, scales=self.scales[part], weight=self.weight[part], bias=self.bias[part]
        )

    def with_bias(self, bias: Tensor) -> Equations:
        """The same left-hand sides with another right-hand side; what is known is kept."""
        other = replace(self, bias=bias)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k in KNOWN})
        return other

    def double(self) -> Equations:
        """The same equations in float64."""
        if self.bias.dtype is torch.float64:
            return self
        other = replace(self, operator=self.operator.double(), weight=self.weight.double())
        other.__dict__["weight_norms"] = self.weight_norms
        return other.with_bias(self.bias.double())

    def adjoint(self, bias: Tensor) -> Equations:
        r"""The equations :math:`U_i = \gamma (P^{\top})^{m_i} U_i W_i^{\top} + G_i`."""
        if self.symmetric_weight:  # all that is known of the weight holds for its transpose
            known = {k: v for k, v in self.__dict__.items() if k in KNOWN}
        else:
            known = {"weight_norms": self.weight_norms}
        turned = replace(
            self, operator=self.operator.adjoint(), weight=self.weight.mT.contiguous(), bias=bias
        )
        turned.__dict__.update(known)
        return turned

    @cached_property
    def polynomials(self) -> dict[Any, Any]:
        """Polynomials of the sweep solvers, kept for the adjoint equations."""
        return {}

    @cached_property
    def symmetric_weight(self) -> bool:
        """Whether every weight equals its transpose up to rounding."""
        gap = (self.weight - self.weight.mT).abs().amax(dim=(-2, -1)) if self.channels else None
        if gap is None:
            return True
        size = self.weight.abs().amax(dim=(-2, -1))
        return bool((gap <= 16 * torch.finfo(self.weight.dtype).eps * size).all())

    @cached_property
    def decoupling(self) -> Decoupling:
        """Eigenpairs of the weights, in float64 so that splitting adds no error of its own."""
        weight = self.weight.double()
        eigenvalues, eigenvectors = torch.linalg.eigh((weight + weight.mT) / 2)
        return Decoupling(eigenvalues.cpu(), eigenvectors.to(self.weight.dtype))

    @cached_property
    def weight_norms(self) -> list[float]:
        """Bounds on the spectral norms of the weights; exact unless they are very wide."""
        if self.channels == 0:
            return [0.0] * len(self)
        if self.channels > WIDE:
            norms = torch.linalg.matrix_norm(self.weight.double())
        elif self.symmetric_weight:
            norms = self.decoupling.eigenvalues.abs().amax(-1)
        else:
            norms = torch.linalg.matrix_norm(self.weight.double(), 2)
        return [float(norm) for norm in norms.tolist()]

    @property
    def contractions(self) -> list[float]:
        """The Lipschitz constants ``L``, one an equation."""
        bound = self.operator.norm_bound
        norms = zip(self.weight_norms, self.scales, strict=True)
        return [self.gamma * norm * bound**scale for norm, scale in norms]

    def require_contraction(self) -> None:
        """Raise unless every equation provably contracts."""
        for norm, scale, constant in zip(
            self.weight_norms, self.scales, self.contractions, strict=True
        ):
            if not constant < 1:
                raise NotContractiveError(
                    f"gamma * ||W||_2 * ||P||^scale must be below 1 (got {constant:.4g} = "
                    f"{self.gamma} * {norm:.4g} * {self.operator.norm_bound:.4g}^{scale}; "
                    f"{self.operator.reason}); lower gamma, scale the weight down, or choose a "
                    "normalization with norm_bound 1 such as 'sym' or 'dir'"
                )

    def hop(self, z: Tensor) -> Tensor:
        r"""Return :math:`P^{m_i} Z_i` for every equation, shape ``(equations, nodes, channels)``."""
        hopped = torch.empty(z.shape, dtype=z.dtype, device=z.device)
        with scratch(z) as take:
            spare = [take(*z.shape[1:]), take(*z.shape[1:])]
            for index, scale in enumerate(self.scales):
                x = z[index].contiguous()
                for step in range(scale):
                    out = hopped[index] if step == scale - 1 else spare[step % 2]
                    x = self.operator.multiply_into(out, x)
        return hopped
