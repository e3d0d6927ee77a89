"""One long list of nodes and edges becomes PyG graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from mgnni.data.tables.direction import Floats, Integers


def graphs_of(
    x: Floats,
    edges: Integers,
    weight: Floats | None,
    graph: Integers | None,
    num_graphs: int = 1,
) -> tuple[Data, ...]:
    """Return the graphs in order, the nodes and edges of each in the order they are given.

    Args:
        x: shape ``(num_nodes, num_features)``.
        edges: shape ``(2, num_edges)``.
        weight: shape ``(num_edges,)``.
        graph: of each node; those of a graph need not stand together. None if there is one graph.
        num_graphs: how many there are.
    """
    if graph is None:
        return (_data(x, edges, weight),)
    order = np.argsort(graph, kind="stable")
    start = np.searchsorted(graph[order], np.arange(num_graphs + 1))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    edge_graph = graph[edges[0]]
    edge_order = np.argsort(edge_graph, kind="stable")
    edge_start = np.searchsorted(edge_graph[edge_order], np.arange(num_graphs + 1))
    made = []
    for index in range(num_graphs):
        own = edge_order[edge_start[index] : edge_start[index + 1]]
        made.append(
            _data(
                x[order[start[index] : start[index + 1]]],
                place[edges[:, own]] - start[index],
                None if weight is None else weight[own],
            )
        )
    return tuple(made)


def _data(x: Floats, edges: Integers, weight: Floats | None) -> Data:
    kept: dict[str, Any] = {"x": torch.from_numpy(x), "edge_index": torch.from_numpy(edges)}
    if weight is not None:
        kept["edge_weight"] = torch.from_numpy(weight)
    return Data(**kept)
