r"""The product :math:`P X` as a custom op of ``torch.library``.

``torch.compile`` and ``torch.export`` record a call of this op where eager mode uses
:class:`mgnni.graph.product.Product`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.graph.csr import Pattern
from mgnni.graph.memo import Memo
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.product import SCHEMA, OpArguments
from mgnni.graph.propagation import Propagation

COUNT = len(OpArguments._fields)
TAGS = (torch.Tag.pt2_compliant_tag,)


_operators: Memo[Propagation] = Memo()


def operator_of(arguments: OpArguments) -> Propagation:
    """Return the operator of some arguments, the same one as long as their tensors live.

    Its entries never require gradients: ops differentiate by themselves.
    """

    def compute() -> Propagation:
        # Aliases, because what is kept must not keep the tensor alive by which it is found.
        crow, col, values = (one.detach() for one in arguments[:3])
        norm = NodeNorm(arguments.norm, arguments.norm_weight)
        operator = Propagation(
            Pattern(crow, col),
            values,
            symmetric=arguments.symmetric,
            bound=Bound(arguments.norm_bound, norm, "the bound of the operator that was compiled"),
            normalization="none",
            batch=arguments.batch,
            num_graphs=arguments.num_graphs,
            unit=arguments.unit,
        )
        operator.prefers_spectrum = arguments.prefers_spectrum
        return operator

    # The key stands for the tensors: a comparison of all numbers would cost as much as a product.
    operator = _operators.get(arguments.crow, compute, options=arguments.key)
    return operator.adjoint() if arguments.adjoint else operator


torch.library.define("mgnni::propagate", f"({SCHEMA}, Tensor x) -> Tensor", tags=TAGS)
torch.library.define(
    "mgnni::sampled_product", f"({SCHEMA}, Tensor left, Tensor right) -> Tensor", tags=TAGS
)


@torch.library.impl("mgnni::propagate", "default")
@torch.no_grad()
def _propagate(*args: Any) -> Tensor:
    return operator_of(OpArguments(*args[:COUNT])).multiply(args[-1].detach().contiguous())


@torch.library.register_fake("mgnni::propagate")  # type: ignore[untyped-decorator]
def _(*args: Any) -> Tensor:
    return torch.empty_like(args[-1], memory_format=torch.contiguous_format)


@torch.library.impl("mgnni::sampled_product", "default")
@torch.no_grad()
def _sampled_product(*args: Any) -> Tensor:
    arguments = OpArguments(*args[:COUNT])
    pattern = operator_of(arguments._replace(adjoint=False)).pattern
    left, right = args[COUNT:]
    return pattern.sampled_product(*((right, left) if arguments.adjoint else (left, right)))


@torch.library.register_fake("mgnni::sampled_product")  # type: ignore[untyped-decorator]
def _(*args: Any) -> Tensor:
    return torch.empty_like(args[2])


def save_operator(ctx: Any, args: tuple[Any, ...], *tensors: Tensor) -> None:
    """Save the arguments of an operator, and further tensors, for the backward pass."""
    ctx.save_for_backward(*args[:5], *tensors)
    ctx.facts = args[5:COUNT]


def saved_operator(ctx: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what :func:`save_operator` saved."""
    saved = ctx.saved_tensors
    return (*saved[:5], *ctx.facts), saved[5:]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    save_operator(ctx, inputs, inputs[-1])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    graph, (x,) = saved_operator(ctx)
    grads: list[Tensor | None] = [None] * (COUNT + 1)
    if ctx.needs_input_grad[2]:
        grads[2] = torch.ops.mgnni.sampled_product(*graph, grad, x)
    if ctx.needs_input_grad[-1]:
        grads[-1] = torch.ops.mgnni.propagate(*graph[:-1], not graph[-1], grad)
    return tuple(grads)


torch.library.register_autograd("mgnni::propagate", _backward, setup_context=_save)
