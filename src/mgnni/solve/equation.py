"""A stack of equilibrium equations over one operator, and the constants by which they contract."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mgnni.errors import NotContractiveError
from mgnni.solve.operator import Operator
from mgnni.solve.scratch import scratch
from mgnni.solve.weights import WIDE, Weights

PANEL = 32  # columns at a time: the width at which a CPU's sparse product takes least time a column
AT_ONCE = 2**20  # numbers in a state up to which it stays in a CPU's caches as it is


@dataclass(frozen=True, eq=False)
class Equations:
    r"""The equations :math:`Z_i = \gamma P^{m_i} Z_i W_i + B_i` over one operator :math:`P`.

    Every right-hand side has Lipschitz constant at most
    :math:`L_i = \gamma \|W_i\|_2 \|P\|^{m_i}` in the norm of the operator.
    """

    operator: Operator
    scales: tuple[int, ...]
    gamma: float
    weights: Weights
    bias: Tensor  # shape: (equations, num_nodes, channels); may be one bias, expanded

    @property
    def channels(self) -> int:
        """Width of the states."""
        return self.weights.channels

    @property
    def shared_bias(self) -> bool:
        """Whether all equations have one and the same bias."""
        return self.bias.size(0) == 1 or self.bias.stride(0) == 0

    def __len__(self) -> int:
        return len(self.scales)

    def __getitem__(self, index: int) -> Equations:
        part = slice(index, index + 1)
        weights = Weights(self.weights.tensor[part])
        return Equations(self.operator, self.scales[part], self.gamma, weights, self.bias[part])

    def with_bias(self, bias: Tensor) -> Equations:
        """The same equations with another right-hand side."""
        return replace(self, bias=bias)

    def double(self) -> Equations:
        """The same equations in float64."""
        if self.bias.dtype is torch.float64:
            return self
        weights = Weights(self.weights.tensor.double())
        return Equations(
            self.operator.double(), self.scales, self.gamma, weights, self.bias.double()
        )

    def adjoint(self, bias: Tensor) -> Equations:
        r"""The equations :math:`U_i = \gamma (P^{\top})^{m_i} U_i W_i^{\top} + G_i`."""
        turned = self.weights.transposed()
        return Equations(self.operator.adjoint(), self.scales, self.gamma, turned, bias)

    @property
    def step_bounds(self) -> list[float]:
        """Norms of :math:`P^m`, the rounding of the entries included."""
        bound = self.operator.norm_bound * (1 + self.operator.unit)
        return [bound**scale for scale in self.scales]

    @cached_property
    def contractions(self) -> list[float]:
        """The Lipschitz constants ``L``, one an equation, the rounding of the entries included."""
        factor = [self.gamma * bound for bound in self.step_bounds]
        if self.weights.channels > WIDE:  # the cheap bound suffices for g(F)
            cheap = [f * norm for f, norm in zip(factor, self.weights.frobenius, strict=True)]
            if max(cheap) < 1:
                return cheap
        return [f * norm for f, norm in zip(factor, self.weights.spectral, strict=True)]

    def require_contraction(self) -> None:
        """Raise unless every equation provably contracts."""
        if all(constant < 1 for constant in self.contractions):
            return
        for norm, scale, constant in zip(
            self.weights.spectral, self.scales, self.contractions, strict=True
        ):
            if not constant < 1:
                raise NotContractiveError(
                    f"gamma * ||W||_2 * ||P||^scale must be below 1 (got {constant:.4g} = "
                    f"{self.gamma} * {norm:.4g} * {self.operator.norm_bound:.4g}^{scale}; "
                    f"{self.operator.reason}); lower gamma, scale the weight down, or choose a "
                    "normalization with norm_bound 1 such as 'sym' or 'dir'"
                )

    def hop(self, z: Tensor) -> Tensor:
        r"""Return :math:`P^{m_i} Z_i` for every equation, in the shape of ``z``."""
        hopped = torch.empty(z.shape, dtype=z.dtype, device=z.device)
        if z.device.type == "cuda":  # few wide products instead of many narrow ones
            for scale in sorted(set(self.scales)):
                chosen = [i for i, other in enumerate(self.scales) if other == scale]
                if len(chosen) == 1:  # in place, as there is nothing to bring together
                    x, out = z[chosen[0]], hopped[chosen[0]]
                else:
                    some = z[chosen].permute(1, 0, 2)
                    x = some.reshape(z.size(1), -1)
                    out = torch.empty_like(x)
                for _ in range(scale - 1):
                    x = self.operator.multiply_into(torch.empty_like(x), x)
                self.operator.multiply_into(out, x)
                if len(chosen) > 1:
                    hopped[chosen] = out.view(some.shape).permute(1, 0, 2)
            return hopped
        with scratch(z) as take:
            whole = z[0].numel() <= AT_ONCE
            width = max(z.size(2), 1) if whole else PANEL
            memory = [take(z.size(1) * width) for _ in range(2)]
            for index, scale in enumerate(self.scales):
                parts = torch.split(z[index], width, 1), torch.split(hopped[index], width, 1)
                for part, out in zip(*parts, strict=True):
                    one, other = (some[: part.numel()].view(part.shape) for some in memory)
                    x = part if whole and part.is_contiguous() else one.copy_(part)
                    for step in range(1, scale + 1):
                        last = whole and step == scale
                        x = self.operator.multiply_into(out if last else other, x)
                        one, other = other, one
                    if not whole:
                        out.copy_(x)
        return hopped
