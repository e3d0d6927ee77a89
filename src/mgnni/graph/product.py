# ruff: noqa: D102 (the methods are those of every autograd function)
"""The sparse product as a differentiable function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.errors import ArgumentError

if TYPE_CHECKING:
    from mgnni.graph.propagation import Propagation


def check_one_operator(values_dim: int | None) -> None:
    """Refuse a batch of operators under vmap."""
    if values_dim is not None:
        raise ArgumentError(
            "'edge_weight' must not be batched by vmap (got a batch of them), as all share one "
            "operator; loop over the graphs instead"
        )


class Product(torch.autograd.Function):
    r"""The product :math:`P X`, differentiable in the values of ``P`` and in ``X``, twice."""

    @staticmethod
    def forward(values: Tensor, x: Tensor, propagation: Propagation) -> Tensor:
        return propagation.multiply(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, x, ctx.propagation = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor, x: Tensor, propagation: Propagation
    ) -> tuple[Tensor, int]:
        """A batch of features is more columns."""
        check_one_operator(in_dims[0])
        wide = x.movedim(in_dims[1], 1)  # shape: (num_nodes, batch, channels)
        product: Tensor = Product.apply(  # type: ignore[no-untyped-call]
            values, wide.flatten(1), propagation
        )
        return product.view(wide.shape), 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x,) = ctx.saved_tensors
        (grad,) = grads
        wants_values, wants_x, _ = ctx.needs_input_grad
        with torch.autocast(grad.device.type, enabled=False):  # there is no sparse bf16 product
            grad_values = ctx.propagation.pattern.sampled_product(grad, x) if wants_values else None
            grad_x = ctx.propagation.adjoint().apply(grad) if wants_x else None
        return grad_values, grad_x, None
