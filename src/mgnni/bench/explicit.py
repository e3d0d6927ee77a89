"""Networks that are not implicit, between the same input map and the same head."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GCNConv
from torch_geometric.nn.models import GIN
from torch_geometric.utils import to_torch_csr_tensor

from mgnni.models.mgnni import MGNNI


class Explicit(nn.Module):
    """A model whose equilibria and attention are replaced by something explicit.

    Args:
        model: whose input map and head are copied.
        middle: takes the states and the graph.
        fixed: whether the graph is always the same, so that its matrix is worth keeping.
    """

    def __init__(self, model: MGNNI, middle: nn.Module, fixed: bool) -> None:
        super().__init__()
        self.input_map, self.head = copy.deepcopy(model.input_map), copy.deepcopy(model.head)
        self.middle, self.fixed = middle, fixed
        self.by_graph = model.level == "graph"
        self._matrix: Tensor | None = None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the logits."""
        on_cpu = edge_index.device.type == "cpu"
        graph = self._graph(x.size(0), edge_index) if self.fixed and on_cpu else edge_index
        z = self.middle(self.input_map(x), graph)
        pooled = batch if self.by_graph else None
        graphs = 1 if pooled is None else int(pooled[-1]) + 1
        logits: Tensor = self.head(z, x, pooled, graphs)
        return logits

    def _graph(self, num_nodes: int, edge_index: Tensor) -> Tensor:
        """The transposed adjacency in CSR: on a CPU many times faster than an edge list."""
        if self._matrix is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse ")  # beta, and unchecked: we know
                size = (num_nodes, num_nodes)
                self._matrix = to_torch_csr_tensor(edge_index.flip(0), size=size)
        return self._matrix


class _GCN(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(channels, channels, cached=True) for _ in range(2)])

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        for conv in self.convs:
            x = torch.relu(conv(x, graph))
        return x


def gcn(model: MGNNI) -> Explicit:
    """Two graph convolutions, as wide as the equilibria."""
    return Explicit(model, _GCN(model.equilibrium.factor.size(-1)), fixed=True)


def appnp(model: MGNNI) -> Explicit:
    """Ten steps of personalised PageRank."""
    return Explicit(model, APPNP(K=10, alpha=0.1, cached=True), fixed=True)


def gin(model: MGNNI) -> Explicit:
    """Five graph isomorphism layers, as wide as the equilibria."""
    width = model.equilibrium.factor.size(-1)
    return Explicit(model, GIN(width, width, num_layers=5), fixed=False)
