"""PyG's convolutions over a :class:`~mgnni.Propagation`.

The parameters and the arithmetic of a layer are PyG's. Only the sparse product is the operator's:
normalised once for a graph, with its transpose at hand for gradients, and for many runs at once
under ``vmap``. A layer does not normalise by itself: what it sums over is what the operator holds.
What PyG would take and compute nonsense from is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.bounds import row_sums
from mgnni.graph.propagation import Propagation

AGGREGATIONS = ("mean", "sum", "max")


def propagated(propagation: Propagation, x: Tensor, power: int = 1) -> Tensor:
    """Return :math:`P^{power} X` in the type of ``x``, computed in that of the operator."""
    with torch.autocast(x.device.type, enabled=False):
        return propagation.apply(x.to(propagation.dtype), power).to(x.dtype)


def _gather(self: Any, edge_index: Propagation, size: Any = None, **inputs: Any) -> Tensor:
    """Apply the operator, in place of PyG's walk over edges."""
    x = inputs["x"]
    return propagated(edge_index, x if isinstance(x, Tensor) else x[0])


# PyG writes a `propagate` for every class that has none in its own body.


class GCNConv(pyg.GCNConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.GCNConv` of a power of the operator, :math:`P^k X W + b`.

    Args:
        in_channels: features of a node.
        out_channels: width of the output.
        power: hops :math:`k` of the layer.
        options: of PyG's layer.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, power: int = 1, **options: Any
    ) -> None:
        super().__init__(in_channels, out_channels, **{"normalize": False, **options})
        self.power = _whole("power", power)

    def propagate(self, edge_index: Propagation, x: Tensor, **_: Any) -> Tensor:
        """Apply the power of the operator."""
        return propagated(edge_index, x, self.power)


class APPNP(pyg.APPNP):  # type: ignore[misc]
    """:class:`torch_geometric.nn.APPNP`, without dropout of edges.

    Args:
        K: steps.
        alpha: what a step keeps of the beginning, from 0 to 1.
    """

    propagate = _gather

    def __init__(self, K: int, alpha: float) -> None:
        super().__init__(_whole("K", K), _share("alpha", alpha), normalize=False)


class GCN2Conv(pyg.GCN2Conv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.GCN2Conv`.

    Args:
        channels: width.
        alpha: what a layer keeps of the beginning, from 0 to 1.
        theta: how far a layer is from the identity.
        layer: its number, from 1.
        options: of PyG's layer.
    """

    propagate = _gather

    def __init__(
        self, channels: int, alpha: float, theta: float, layer: int, **options: Any
    ) -> None:
        if not isinstance(theta, (int, float)) or not 0 <= theta < float("inf"):
            raise ArgumentError(f"'theta' must be finite and at least 0 (got {theta!r})")
        options = {"normalize": False, **options}
        super().__init__(channels, _share("alpha", alpha), theta, layer, **options)


class GINConv(pyg.GINConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.GINConv`; the operator must be neither normalised nor looped."""

    propagate = _gather


class MixHopConv(pyg.MixHopConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.MixHopConv`.

    Args:
        in_channels: features of a node.
        out_channels: width of the output of each power.
        powers: of the operator, each once.
    """

    propagate = _gather

    def __init__(self, in_channels: int, out_channels: int, powers: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels, list(check_powers(powers)))


class SAGEConv(pyg.SAGEConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.SAGEConv`, for an operator of edge weights as they are.

    Args:
        in_channels: features of a node.
        out_channels: width of the output.
        aggr: ``"mean"`` of the in-neighbours, by edge weights; their weighted ``"sum"``; or their
            ``"max"`` in every channel, without weights. A node without any receives zeros.
        options: of PyG's layer.
    """

    def __init__(
        self, in_channels: int, out_channels: int, aggr: str = "mean", **options: Any
    ) -> None:
        aggr = check_choice("aggr", aggr, AGGREGATIONS)
        super().__init__(in_channels, out_channels, aggr, **options)

    def propagate(self, edge_index: Propagation, x: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        """Aggregate the rows of the in-neighbours."""
        if self.aggr == "max":
            return _largest(edge_index, x[0])
        summed = propagated(edge_index, x[0])
        if self.aggr == "sum":
            return summed
        total = row_sums(edge_index)
        return summed / torch.where(total == 0, 1.0, total).to(summed.dtype)


def check_powers(powers: Sequence[int]) -> tuple[int, ...]:
    """Return powers of an operator as a tuple, if they are different and there is one."""
    if isinstance(powers, (int, str)) or not isinstance(powers, Sequence) or not powers:
        raise ArgumentError(f"'powers' must be a sequence of ints (got {powers!r}); write (0, 1)")
    if len({_whole("powers", power) for power in powers}) < len(powers):
        raise ArgumentError(f"'powers' must be different (got {tuple(powers)}); name each once")
    return tuple(powers)


def _whole(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ArgumentError(f"'{name}' must be an int of at least 0 (got {value!r})")
    return value


def _share(name: str, value: float) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(f"'{name}' must lie in [0, 1] (got {value!r})")
    return float(value)


def _largest(propagation: Propagation, x: Tensor) -> Tensor:
    """Return the largest entry among the in-neighbours, channel by channel."""
    source = x[propagation.pattern.col.long()]
    target = propagation.pattern.row.unsqueeze(1).expand(-1, x.size(1))
    largest = torch.zeros_like(x)
    return largest.scatter_reduce(0, target, source, "amax", include_self=False)
