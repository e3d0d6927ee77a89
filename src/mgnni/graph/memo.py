"""A cache of values that were computed from graphs.

Values are stored per *anchor*, one of the objects they were computed from, and freed with it. A
value is reused only while all tensors it was computed from are the same objects with the same
version counters, and, on the CPU, with the same contents, because NumPy can write to their memory
without changing the version. Neither the anchor nor the tensors are kept alive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypedDict, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakIdKeyDictionary

from mgnni.graph.edges import Adjacency, components, is_sparse
from mgnni.graph.propagation import Propagation

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
P = ParamSpec("P")


class _Snapshot:
    """The state of a tensor when a value was computed from it."""

    def __init__(self, tensor: Tensor) -> None:
        self.storage_owner = TensorWeakRef(_base(tensor))
        parts = components(tensor)
        self.states = tuple(map(_state, parts))
        # The values of a sparse tensor may share memory with a tensor whose version counter they
        # do not share, so their contents are compared on all devices.
        copied = tensor.device.type == "cpu" or is_sparse(tensor)
        self.copies = tuple(part.detach().clone() for part in parts) if copied else ()

    @property
    def expired(self) -> bool:
        """Whether the tensor was freed."""
        return self.storage_owner() is None

    def matches(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` is the same object, or the same view of one, and unchanged."""
        parts = components(tensor)
        return (
            self.storage_owner() is _base(tensor)
            and self.states == tuple(map(_state, parts))
            and all(map(torch.equal, self.copies, parts))
        )


def _base(tensor: Tensor) -> Tensor:
    """Return the tensor of which a tensor is a view, or the tensor itself."""
    return tensor if tensor._base is None else tensor._base


def _state(tensor: Tensor) -> tuple[object, ...]:
    """Return what changes when PyTorch writes to a tensor or replaces its data."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # has no memory of its own
    address = None if wrapped else tensor.data_ptr()
    layout = tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride()
    return tensor._version, address, tensor.device, *layout


@dataclass(frozen=True, eq=False)
class _Entry(Generic[T]):
    snapshots: tuple[_Snapshot | None, ...]
    options: Hashable
    value: T

    @property
    def expired(self) -> bool:
        return any(snapshot is not None and snapshot.expired for snapshot in self.snapshots)

    def matches(self, tensors: Sequence[Tensor | None], options: Hashable) -> bool:
        if self.options != options or len(self.snapshots) != len(tensors):
            return False
        return all(
            tensor is None if snapshot is None else tensor is not None and snapshot.matches(tensor)
            for snapshot, tensor in zip(self.snapshots, tensors, strict=True)
        )


class Memo(Generic[T]):
    """A cache of values computed from graphs, stored weakly per anchor object.

    Args:
        size (int, optional): Number of values kept per anchor; the oldest is dropped first.
            (default: :obj:`4`)
    """

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self._entries: MutableMapping[object, list[_Entry[T]]] = WeakIdKeyDictionary()

    def get(
        self,
        anchor: object,
        compute: Callable[[], T],
        tensors: Sequence[Tensor | None] = (),
        options: Hashable = (),
    ) -> T:
        """Return ``compute()``, or the value it returned before for the same arguments.

        Args:
            anchor (object): The value is freed with this object. The value itself must not
                reference it.
            compute (Callable): Computes the value, outside of autograd, from nothing but the
                other arguments.
            tensors (Sequence[Tensor], optional): The tensors it reads, which may include the
                anchor. (default: :obj:`()`)
            options (Hashable, optional): All else it reads, compared by ``==``.
                (default: :obj:`()`)
        """
        # Inference tensors have no version counter.
        cacheable = not any(tensor is not None and tensor.is_inference() for tensor in tensors)
        entries = self._entries.setdefault(anchor, []) if cacheable else []
        for entry in entries:
            if entry.matches(tensors, options):
                return entry.value
        # Cached values are also used in training, so they may not be inference tensors. Leaving
        # inference mode enables gradients, so no_grad comes second.
        with torch.inference_mode(False), torch.no_grad():
            if not cacheable:
                return compute()
            snapshots = tuple(None if t is None else _Snapshot(t) for t in tensors)
            value = compute()
            if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                return value  # its memory belongs to the CUDA graph, and is not filled yet
            entries[:] = [entry for entry in entries if not entry.expired]
            entries[:] = [*entries, _Entry(snapshots, options, value)][-self.size :]
            return value


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that ``torch.compile`` runs but does not record.

    The graph breaks at a call. Functions whose steps depend on the edges need it.
    """
    disabled: Callable[P, T] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # Eager mode does without the frames of torch's own wrapper.
        return (disabled if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return call


def memoize(
    compute: Callable[Concatenate[Propagation, P], T],
) -> Callable[Concatenate[Propagation, P], T]:
    """Decorate a function of an operator to run once per operator, without gradients.

    Further arguments must be hashable; a result is cached for each of them. The result must not
    reference the operator, or neither is ever freed.
    """
    memo: Memo[T] = Memo(size=32)

    @uncompiled
    @functools.wraps(compute)
    def cached(propagation: Propagation, /, *args: P.args, **kwargs: P.kwargs) -> T:
        options = (args, tuple(sorted(kwargs.items())))
        return memo.get(propagation, lambda: compute(propagation, *args, **kwargs), options=options)

    return cached


def memoize_differentiable(
    compute: Callable[Concatenate[Propagation, P], T],
) -> Callable[Concatenate[Propagation, P], T]:
    """Like :func:`memoize`, for functions that are differentiated in the edge weights.

    If these require gradients, results belong to one autograd graph and are not cached.
    """
    cached = memoize(compute)

    @functools.wraps(compute)
    def differentiable(propagation: Propagation, /, *args: P.args, **kwargs: P.kwargs) -> T:
        function = compute if propagation.values.requires_grad else cached
        return function(propagation, *args, **kwargs)

    return differentiable


@uncompiled
def adjoint_of(propagation: Propagation) -> Propagation:
    """Return ``propagation.adjoint()``, outside of the graph if a model is compiled.

    Args:
        propagation (Propagation): The operator.
    """
    return propagation.adjoint()


class _Options(TypedDict, total=False):
    """Options of :meth:`Propagation.from_edge_index` besides the tensors."""

    normalization: str
    self_loops: bool | None
    add_self_loops: bool | None
    flow: str
    batch_size: int | None
    dtype: torch.dtype | None
    norm_bound: float | None


_propagations: Memo[Propagation] = Memo()


@uncompiled  # a compiled graph has a break here: building an operator depends on the edges
def cached_propagation(
    edge_index: Adjacency,
    num_nodes: int | None = None,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    **options: Unpack[_Options],
) -> Propagation:
    """Like :meth:`Propagation.from_edge_index`, but built once for the same tensors.

    Operators are cached per ``edge_index`` object and freed with it. Learnable edge weights are
    not cached, because their operator belongs to one autograd graph.

    Args:
        edge_index (Tensor, EdgeIndex or SparseTensor): The edges.
        num_nodes (int, optional): Number of nodes; only optional if ``edge_index`` knows it.
            (default: :obj:`None`)
        edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
        batch (Tensor, optional): Graph of each node. (default: :obj:`None`)
        **options: Further options of :meth:`Propagation.from_edge_index`.

    Shapes:
        - **edge_index:** ``(2, num_edges)``, or sparse ``(num_nodes, num_nodes)``
        - **edge_weight:** ``(num_edges,)``
        - **batch:** ``(num_nodes,)``
    """

    def compute() -> Propagation:
        return Propagation.from_edge_index(
            edge_index, num_nodes, edge_weight, batch=batch, **options
        )

    if not isinstance(edge_index, Tensor) and not is_sparse(edge_index):
        return compute()  # raises
    stored = (edge_index,) if isinstance(edge_index, Tensor) else components(edge_index)
    tensors = (*stored, edge_weight, batch)
    present = [tensor for tensor in tensors if tensor is not None]
    if not all(isinstance(tensor, Tensor) for tensor in present) or any(
        tensor.requires_grad or tensor.is_inference() for tensor in present
    ):
        return compute()
    return _propagations.get(edge_index, compute, tensors, (num_nodes, *sorted(options.items())))
