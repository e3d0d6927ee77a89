"""Chains and random graphs, and their exact influence by dense linear algebra."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni import Propagation


def chain_edges(length: int, directed: bool) -> Tensor:
    place = torch.arange(length - 1)
    edges = torch.stack([place, place + 1])
    return edges if directed else torch.cat([edges, edges.flip(0)], dim=1)


def chain(
    length: int, directed: bool, loop: float = 1.0, normalization: str = "auto"
) -> Propagation:
    edges = chain_edges(length, directed)
    weight = torch.ones(edges.size(1), dtype=torch.float64)
    if loop:
        node = torch.arange(length)
        edges = torch.cat([edges, torch.stack([node, node])], dim=1)
        weight = torch.cat([weight, torch.full((length,), loop, dtype=torch.float64)])
    return Propagation.from_edge_index(
        edges, length, weight, normalization=normalization, self_loops=False
    )


def random_graph(seed: int) -> Propagation:
    """A small graph, directed or not, weighted or not, with any normalisation."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    nodes = draw(2, 14)
    edges = torch.randint(nodes, (2, draw(1, 3 * nodes)), generator=generator)
    weight = torch.rand(edges.size(1), dtype=torch.float64, generator=generator) + 0.01
    undirected = bool(draw(0, 2))
    if undirected:
        edges, weight = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([weight, weight])
    return Propagation.from_edge_index(
        edges,
        nodes,
        weight,
        normalization=("auto", "dir", "out", "row")[draw(0, 4)],
        self_loops=bool(draw(0, 2)),
        flow=("source_to_target", "target_to_source")[draw(0, 2)],
    )


def dense_resolvent(propagation: Propagation, contraction: float, scale: int = 1) -> Tensor:
    r"""Returns :math:`(I - a P^m)^{-1}`."""
    matrix = torch.matrix_power(propagation.to_dense().double(), scale)
    return torch.linalg.inv(torch.eye(len(matrix), dtype=torch.float64) - contraction * matrix)
