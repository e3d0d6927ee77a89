"""PyG's convolutions over a :class:`~mgnni.Propagation`.

The parameters and the arithmetic of a layer are PyG's. Only the sparse product is the operator's:
normalised once for a graph, with its transpose at hand for gradients, and for many runs at once
under ``vmap``. A layer must not normalise by itself: what it sums over is what the operator holds.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import nn as pyg

from mgnni.graph.propagation import Propagation


def _gather(self: Any, edge_index: Propagation, size: Any = None, **inputs: Any) -> Tensor:
    """Apply the operator, in place of PyG's walk over edges."""
    x = inputs["x"]
    return edge_index.apply(x if isinstance(x, Tensor) else x[0])


# PyG writes a `propagate` for every class that has none in its own body.


class GCNConv(pyg.GCNConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.GCNConv`; build it with ``normalize=False``."""

    propagate = _gather
