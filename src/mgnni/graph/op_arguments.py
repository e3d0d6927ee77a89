"""An operator as the arguments of a custom op, and back.

``torch.compile`` and ``torch.export`` do not look into the ops of :mod:`mgnni.graph.custom_ops` and
:mod:`mgnni.implicit.custom_ops`. These take tensors and plain numbers only, so an operator is taken
apart before a call and put together in it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from mgnni.graph.propagation import Propagation

# The first arguments of every op, in the language of torch.library.
SCHEMA = (
    "Tensor crow, Tensor col, Tensor values, Tensor? batch, Tensor? norm_weight, bool symmetric, "
    "float norm_bound, str norm, float unit, SymInt num_graphs, bool prefers_spectrum, bool adjoint"
)
KEPT = 4  # operators with the same pattern that are kept


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


class _Operators:
    """The operators of the last calls, with their transposes, spectra and cores.

    An operator is found by the tensor object of its row pointers and freed with it.
    """

    def __init__(self) -> None:
        self._known: MutableMapping[object, list[tuple[object, Propagation]]]
        self._known = WeakIdKeyDictionary()

    def find(self, arguments: OpArguments) -> Propagation | None:
        """Return the operator that was added for the same arguments."""
        key = arguments.key
        known = self._known.get(arguments.crow, ())
        return next((operator for other, operator in known if other == key), None)

    def add(self, arguments: OpArguments, operator: Propagation) -> None:
        """Keep an operator, which must not reference the tensor object of its row pointers."""
        known = self._known.setdefault(arguments.crow, [])
        known[:] = [*known, (arguments.key, operator)][-KEPT:]


OPERATORS = _Operators()
