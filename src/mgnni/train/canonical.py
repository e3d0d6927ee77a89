"""An order of the nodes that does not depend on the order they came in."""

from __future__ import annotations

import torch
from torch import Tensor

AT_ONCE = 2**22  # numbers that are looked at at one time
ROUNDS = 3  # of looking at the neighbours, to tell nodes of like features apart


def canonical_order(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Return the nodes sorted by what they are: features, links, and those of their neighbours.

    Dropout goes by places, so the same graph with its rows in another order would be trained
    otherwise. In this order it is not. Nodes that cannot be told apart stay as they came. All
    arithmetic is on whole numbers that wrap around, which is exact in any order.

    Shapes:
        - **x:** ``(num_nodes, channels)``
        - **output:** ``(num_nodes,)``: the node at each place
    """
    columns = _mixed(torch.arange(1, x.size(1) + 1))
    rows = max(AT_ONCE // max(x.size(1), 1), 1)
    chunks = torch.split(x.detach().cpu(), rows)
    key = torch.cat([_mixed(_bits(some) * columns).sum(1) for some in chunks])
    source, target = edge_index.cpu()
    weight = torch.ones(source.numel()) if edge_weight is None else edge_weight.detach().cpu()
    link = _mixed(_bits(weight))
    for _ in range(ROUNDS):
        came = torch.zeros_like(key).index_add_(0, target, _mixed(key[source] + link))
        went = torch.zeros_like(key).index_add_(0, source, _mixed(key[target] - link))
        key = _mixed(key + 3 * _mixed(came) + 5 * _mixed(went))
    return torch.argsort(key, stable=True)


def _bits(numbers: Tensor) -> Tensor:
    """The bits of numbers in single precision; the two zeros are one."""
    return (numbers.float() + 0.0).contiguous().view(torch.int32).long()


def _mixed(numbers: Tensor) -> Tensor:
    """Scatter whole numbers over all 64 bits, each to its own."""
    numbers = (numbers ^ (numbers >> 31)) * -7046029254386353131
    return (numbers ^ (numbers >> 29)) * -4658895280553007687
