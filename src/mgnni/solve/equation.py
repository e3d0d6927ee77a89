"""The equilibrium equations without their bias, and the constants by which they contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mgnni.distributed.propagation import ShardedPropagation
from mgnni.errors import NotContractiveError
from mgnni.graph.propagation import Propagation
from mgnni.solve.scratch import scratch
from mgnni.solve.weights import WIDE, Weights

PANEL = 32  # columns per CPU sparse product: the width with the least time per column
AT_ONCE = 2**20  # numbers in a state up to which it fits into the CPU caches as a whole


def one_if_shared(bias: Tensor) -> Tensor:
    """Returns ``bias[:1]`` if one bias was expanded over all equations, else ``bias``.

    Args:
        bias (Tensor): The bias of each equation.

    Shapes:
        - **bias:** ``(equations, num_nodes, channels)``
        - **output:** ``(1, num_nodes, channels)`` if shared, else that of ``bias``
    """
    return bias[:1] if bias.stride(0) == 0 else bias


@dataclass(frozen=True, eq=False)
class Equations:
    r"""The equations :math:`Z_i = \gamma P^{m_i} Z_i W_i + B_i`, without their bias :math:`B`.

    The map :math:`Z_i \mapsto \gamma P^{m_i} Z_i W_i + B_i` has Lipschitz constant at most
    :math:`L_i = \gamma \|W_i\|_2 \|P\|^{m_i}` in the norm of the operator.

    Args:
        operator (Propagation): The operator :math:`P`.
        scales (tuple[int, ...]): The scale :math:`m_i` of each equation.
        gamma (float): The factor :math:`\gamma`.
        weights (Weights): The weights :math:`W_i`.
    """

    operator: Propagation
    scales: tuple[int, ...]
    gamma: float
    weights: Weights

    @property
    def channels(self) -> int:
        """Number of channels of the states."""
        return self.weights.channels

    def __len__(self) -> int:
        return len(self.scales)

    def __getitem__(self, index: int) -> Equations:
        if len(self) == 1:
            return self  # with its norms, which take long for wide weights
        part = slice(index, index + 1)
        weights = replace(self.weights, tensor=self.weights.tensor[part], transpose_of=None)
        return Equations(self.operator, self.scales[part], self.gamma, weights)

    def double(self) -> Equations:
        """Returns the same equations in float64."""
        # In float64, the rounding of g(F) in float32 is visible: it is not exactly symmetric.
        tensor = self.weights.tensor.double()
        weights = replace(self.weights, tensor=tensor, psd_norm=None, transpose_of=None)
        return Equations(self.operator.double(), self.scales, self.gamma, weights)

    def adjoint(self) -> Equations:
        r"""Returns the equations :math:`U_i = \gamma (P^{\top})^{m_i} U_i W_i^{\top} + G_i`.

        If operator and weights are symmetric, these are the same object.
        """
        operator, weights = self.operator.adjoint(), self.weights.transposed()
        if operator is self.operator and weights is self.weights:
            return self
        return Equations(operator, self.scales, self.gamma, weights)

    @cached_property
    def step_bounds(self) -> list[float]:
        """Bounds on the norms of :math:`P^m`, including the rounding of the entries."""
        return step_bounds(self.operator, self.scales)

    @cached_property
    def contractions(self) -> list[float]:
        """The Lipschitz constants :math:`L_i`, including the rounding of the entries."""
        factor = [self.gamma * bound for bound in self.step_bounds]
        if self.weights.channels > WIDE:  # the cheap bound suffices for g(F)
            known = self.weights.psd_norm is not None
            norms = [1.0] * len(factor) if known else self.weights.frobenius
            cheap = [f * norm for f, norm in zip(factor, norms, strict=True)]
            if max(cheap) < 1:
                return cheap
        return [f * norm for f, norm in zip(factor, self.weights.spectral, strict=True)]

    def require_contraction(self) -> None:
        """Raises an error unless every equation provably contracts."""
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
        r"""Returns :math:`P^{m_i} Z_i` for every equation, in the shape of ``z``."""
        if isinstance(self.operator, ShardedPropagation):
            return self.operator.hops(z, self.scales)
        if z.device.type == "cuda":
            return products_by_scale(self.scales, z, z.size(1), self._multiply)
        hopped = torch.empty(z.shape, dtype=z.dtype)
        self._hop_cpu(z, hopped)
        return hopped

    def _multiply(self, x: Tensor, scale: int, out: Tensor) -> Tensor:
        for _ in range(scale - 1):
            x = self.operator.multiply_into(torch.empty_like(x), x)
        return self.operator.multiply_into(out, x)

    def _hop_cpu(self, z: Tensor, hopped: Tensor) -> None:
        """Products in panels of columns, unless the whole state fits into the caches."""
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


def products_by_scale(
    scales: tuple[int, ...],
    x: Tensor,
    rows: int,
    multiply: Callable[[Tensor, int, Tensor], Tensor],
) -> Tensor:
    """Returns a sparse product for every equation.

    On CUDA, equations of equal scale share their products: few wide products are faster.

    Args:
        scales (tuple[int, ...]): The scale of each equation.
        x (Tensor): The states.
        rows (int): Number of rows of a product.
        multiply (Callable): Multiplies its first argument by a matrix that depends on the second,
            the scale, writes the product into the third, and returns it.

    Shapes:
        - **x:** ``(equations, num_nodes, channels)``
        - **output:** ``(equations, rows, channels)``
    """
    out = x.new_empty(len(scales), rows, x.size(2))
    for part in _equal_scales(scales) if x.is_cuda else _one_by_one(len(scales)):
        scale = scales[part.start]
        if part.stop == part.start + 1:
            multiply(x[part.start], scale, out[part.start])
            continue
        side_by_side = x[part].permute(1, 0, 2)
        wide = side_by_side.reshape(x.size(1), -1)
        product = multiply(wide, scale, wide.new_empty(rows, wide.size(1)))
        out[part] = product.view(rows, *side_by_side.shape[1:]).permute(1, 0, 2)
    return out


def _one_by_one(count: int) -> list[slice]:
    return [slice(index, index + 1) for index in range(count)]


def _equal_scales(scales: tuple[int, ...]) -> list[slice]:
    """Returns slices of equations of equal scale.

    Indices would have to be sent to the device, which a CUDA graph cannot record. In a stack of
    layers, equal scales have equal distances, so slices suffice.
    """
    parts = []
    for scale in sorted(set(scales)):
        chosen = [index for index, other in enumerate(scales) if other == scale]
        first, last = chosen[0], chosen[-1]
        step = chosen[1] - first if len(chosen) > 1 else 1
        if chosen != list(range(first, last + 1, step)):
            return _one_by_one(len(scales))
        parts.append(slice(first, last + 1, step))
    return parts


def step_bounds(operator: Propagation, scales: tuple[int, ...]) -> list[float]:
    """Returns bounds on the norms of :math:`P^m`, including the rounding of the entries."""
    bound = operator.norm_bound * (1 + operator.unit)
    return [power(bound, scale) for scale in scales]


def power(bound: float, scale: int) -> float:
    """Returns ``bound ** scale``, infinite where that overflows."""
    try:
        return bound**scale
    except OverflowError:
        return math.inf
