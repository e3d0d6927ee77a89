"""An operator as the arguments of a custom op, and back.

``torch.compile`` and ``torch.export`` do not look into the ops of :mod:`mgnni.graph.custom_ops` and
:mod:`mgnni.implicit.custom_ops`. These take tensors and plain numbers only, so an operator is taken
apart before a call and put together in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

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
