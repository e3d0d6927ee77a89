r"""The product :math:`P X` as a differentiable function of the entries of ``P`` and of ``X``.

Eager mode uses :class:`Product`. ``torch.compile`` and ``torch.export`` record custom ops instead,
those of :mod:`mgnni.graph.custom_ops` and :mod:`mgnni.implicit.custom_ops`, and do not look into
them. Ops take tensors and plain numbers only, so an operator is taken apart before a call, into
:class:`OpArguments`, and put together in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from mgnni.errors import ArgumentError

if TYPE_CHECKING:
    from mgnni.graph.propagation import Propagation

# The first arguments of every op, in the language of torch.library.
SCHEMA = (
    "Tensor crow, Tensor col, Tensor values, Tensor? batch, Tensor? norm_weight, bool symmetric, "
    "float norm_bound, str norm, float unit, SymInt num_graphs, bool prefers_spectrum, bool adjoint"
)


class OpArguments(NamedTuple):
    """What determines a :class:`~mgnni.Propagation`, in the order of :data:`SCHEMA`.

    Args:
        crow (Tensor): Row pointers of its pattern.
        col (Tensor): Columns of its pattern.
        values (Tensor): Its entries.
        batch (Tensor, optional): Graph of each node.
        norm_weight (Tensor, optional): Weights of the norm in which it contracts.
        symmetric (bool): Whether it equals its transpose.
        norm_bound (float): The bound on its norm.
        norm (str): Kind of that norm.
        unit (float): Bound on the rounding error of its entries.
        num_graphs (int): Number of graphs.
        prefers_spectrum (bool): Whether the closed form is preferred.
        adjoint (bool, optional): Whether the op uses the transpose. (default: :obj:`False`)

    Shapes:
        - **crow:** ``(num_nodes + 1,)``
        - **col, values:** ``(nnz,)``
        - **batch, norm_weight:** ``(num_nodes,)``
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    batch: Tensor | None
    norm_weight: Tensor | None
    symmetric: bool
    norm_bound: float
    norm: str
    unit: float
    num_graphs: int
    prefers_spectrum: bool
    adjoint: bool = False

    @classmethod
    def of(cls, propagation: Propagation, adjoint: bool = False) -> OpArguments:
        """Take an operator apart, or its transpose."""
        pattern, bound = propagation.pattern, propagation.bound
        return cls(
            pattern.crow,
            pattern.col,
            propagation.values,
            propagation.batch,
            bound.norm.weight,
            propagation.symmetric,
            bound.value,
            bound.norm.kind,
            propagation.unit,
            propagation.num_graphs,
            propagation.prefers_spectrum,
            adjoint,
        )

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same operator or its transpose, as long as its tensors live."""
        tensors = [
            None if one is None else (one.data_ptr(), one._version, one.numel(), one.dtype)
            for one in self[:5]
        ]
        return (*tensors, *self[5:-1])


def check_one_operator(values_dim: int | None) -> None:
    """Raise if :func:`torch.vmap` maps over the entries of an operator."""
    if values_dim is not None:
        raise ArgumentError(
            "'edge_weight' must not be batched by vmap (got a batch), because all samples share "
            "one operator; loop over the graphs instead"
        )


class Product(torch.autograd.Function):
    r"""The product :math:`P X` or :math:`P^{\top} X`, differentiable in ``P`` and in ``X``.

    The entries of ``P`` are an argument of their own, so that a map that multiplies by ``P`` can be
    differentiated any number of times, in them too.
    """

    @staticmethod
    def forward(values: Tensor, x: Tensor, propagation: Propagation, adjoint: bool) -> Tensor:
        """Multiply outside of autograd."""
        return (propagation.adjoint() if adjoint else propagation).multiply(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save entries and features for their gradients."""
        values, x, ctx.propagation, ctx.adjoint = inputs
        ctx.save_for_backward(values, x)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        values: Tensor,
        x: Tensor,
        propagation: Propagation,
        adjoint: bool,
    ) -> tuple[Tensor, int]:
        """Multiply a batch of features as additional columns."""
        check_one_operator(in_dims[0])
        wide = x.movedim(in_dims[1], 1)  # shape: (num_nodes, batch, channels)
        product = multiplied(values, wide.flatten(1), propagation, adjoint)
        return product.view(wide.shape), 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply by the transpose."""
        values, x = ctx.saved_tensors
        (grad,) = grads
        wants_values, wants_x, *_ = ctx.needs_input_grad
        grad_values = grad_x = None
        with torch.autocast(grad.device.type, enabled=False):  # there is no sparse bf16 product
            if wants_values:
                left, right = (x, grad) if ctx.adjoint else (grad, x)
                grad_values = ctx.propagation.pattern.sampled_product(left, right)
            if wants_x:
                grad_x = multiplied(values, grad, ctx.propagation, not ctx.adjoint)
        return grad_values, grad_x, None, None


def multiplied(
    values: Tensor, x: Tensor, propagation: Propagation, adjoint: bool = False
) -> Tensor:
    r"""Return :math:`P X` or :math:`P^{\top} X`, with the entries of ``P`` as an argument.

    Args:
        values (Tensor): The entries of ``propagation``, to which gradients go.
        x (Tensor): Node features.
        propagation (Propagation): The operator.
        adjoint (bool, optional): Whether to multiply by the transpose. (default: :obj:`False`)

    Shapes:
        - **values:** ``(nnz,)``
        - **x, output:** ``(num_nodes, channels)``
    """
    product: Tensor = Product.apply(  # type: ignore[no-untyped-call]
        values, x, propagation, adjoint
    )
    return product


def propagated(propagation: Propagation, x: Tensor, values: Tensor | None = None) -> Tensor:
    """Return the product of an operator and node features, differentiable in both.

    While torch traces, the product is one op of the recorded graph.

    Args:
        propagation (Propagation): The operator.
        x (Tensor): Node features.
        values (Tensor, optional): The entries of the operator as an argument.
            (default: :obj:`None`)

    Shapes:
        - **x, output:** ``(num_nodes, channels)``
        - **values:** ``(nnz,)``
    """
    if x.size(0) != propagation.num_nodes or x.dtype is not propagation.dtype:
        raise ArgumentError(
            f"'x' must have {propagation.num_nodes} rows of {propagation.dtype}, one per node (got "
            f"{x.size(0)} of {x.dtype}); convert one of them with .to(dtype)"
        )
    if values is None and torch.compiler.is_compiling():
        product: Tensor = torch.ops.mgnni.propagate(*OpArguments.of(propagation), x)
        return product
    return multiplied(propagation.values if values is None else values, x, propagation)
