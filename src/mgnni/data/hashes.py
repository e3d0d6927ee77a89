"""Hashes of nodes: by their features, and by what surrounds them. Integers wrap around, exactly."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 2**22  # features that are hashed at a time


def feature_hashes(x: Tensor) -> Tensor:
    """Returns a hash of the features of every node; equal features have equal hashes.

    Args:
        x (Tensor): Node features.

    Shapes:
        - **x:** ``(num_nodes, channels)``
        - **output:** ``(num_nodes,)``, 64-bit integers
    """
    columns = hashed(torch.arange(1, x.size(1) + 1))
    rows = max(CHUNK // max(x.size(1), 1), 1)
    chunks = torch.split(x.detach().cpu(), rows)
    return torch.cat([hashed(_bits(chunk) * columns).sum(1) for chunk in chunks])


def edge_hashes(num_edges: int, edge_weight: Tensor | None) -> Tensor:
    """Returns a hash of the weight of every edge.

    Args:
        num_edges (int): Number of edges.
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.

    Shapes:
        - **edge_weight:** ``(num_edges,)``
        - **output:** ``(num_edges,)``, 64-bit integers
    """
    weight = torch.ones(num_edges) if edge_weight is None else edge_weight.detach().cpu()
    return hashed(_bits(weight))


def neighborhood_hashes(
    x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, rounds: int
) -> Tensor:
    """Returns a hash of the features, edges and neighbours of every node, in any order of nodes.

    Args:
        x (Tensor): Node features.
        edge_index (Tensor): Edge indices.
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.
        rounds (int): Distance up to which nodes are told apart by their surroundings.

    Shapes:
        - **x:** ``(num_nodes, channels)``
        - **edge_index:** ``(2, num_edges)``
        - **edge_weight:** ``(num_edges,)``
        - **output:** ``(num_nodes,)``, 64-bit integers
    """
    key = feature_hashes(x)
    source, target = edge_index.cpu()
    link = edge_hashes(source.numel(), edge_weight)
    for _ in range(rounds):
        incoming = torch.zeros_like(key).index_add_(0, target, hashed(key[source] + link))
        outgoing = torch.zeros_like(key).index_add_(0, source, hashed(key[target] - link))
        key = hashed(key + 3 * hashed(incoming) + 5 * hashed(outgoing))
    return key


def hashed(numbers: Tensor) -> Tensor:
    """Hashes integers to 64 bits, one to one.

    Args:
        numbers (Tensor): 64-bit integers.

    Shapes:
        - **numbers**, **output:** any, the same
    """
    numbers = (numbers ^ (numbers >> 31)) * -7046029254386353131
    return (numbers ^ (numbers >> 29)) * -4658895280553007687


def _bits(numbers: Tensor) -> Tensor:
    """Returns the bits of numbers in single precision; both zeros are the same."""
    return (numbers.float() + 0.0).contiguous().view(torch.int32).long()
