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
    r"""The product :math:`P X`, twice differentiable in the entries of ``P`` and in ``X``."""

    @staticmethod
    def forward(values: Tensor, x: Tensor, propagation: Propagation) -> Tensor:
        """Multiply outside of autograd."""
        return propagation.multiply(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the features for the gradient of the entries."""
        _, x, ctx.propagation = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor, x: Tensor, propagation: Propagation
    ) -> tuple[Tensor, int]:
        """Multiply a batch of features as additional columns."""
        check_one_operator(in_dims[0])
        wide = x.movedim(in_dims[1], 1)  # shape: (num_nodes, batch, channels)
        product: Tensor = Product.apply(  # type: ignore[no-untyped-call]
            values, wide.flatten(1), propagation
        )
        return product.view(wide.shape), 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Multiply by the transpose."""
        (x,) = ctx.saved_tensors
        (grad,) = grads
        wants_values, wants_x, _ = ctx.needs_input_grad
        with torch.autocast(grad.device.type, enabled=False):  # there is no sparse bf16 product
            grad_values = ctx.propagation.pattern.sampled_product(grad, x) if wants_values else None
            grad_x = ctx.propagation.adjoint().apply(grad) if wants_x else None
        return grad_values, grad_x, None


def propagated(propagation: Propagation, x: Tensor) -> Tensor:
    """Return the product of an operator and node features, differentiable in both.

    While torch traces, the product is one op of the recorded graph.

    Args:
        propagation (Propagation): The operator.
        x (Tensor): Node features.

    Shapes:
        - **x, output:** ``(num_nodes, channels)``
    """
    product: Tensor
    if torch.compiler.is_compiling():
        product = torch.ops.mgnni.propagate(*OpArguments.of(propagation), x)
    else:
        product = Product.apply(propagation.values, x, propagation)  # type: ignore[no-untyped-call]
    return product
