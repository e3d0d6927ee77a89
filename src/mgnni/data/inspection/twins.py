"""Exact twins: test rows that a model cannot tell from a training row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.hashes import edge_hashes, feature_hashes, hashed, neighborhood_hashes
from mgnni.data.task import Task

ROUNDS = 3  # of hashing neighbours, to tell graphs apart


def find_twins(task: Task, split: int) -> dict[str, Any]:
    """Returns how many test units have an exact twin among the training units.

    A twin of a node has the same features and edges to and from the same nodes, with the same
    weights. ``same_targets`` counts nodes with edges to the same nodes only, whatever the features
    and incoming edges, as for the Wikipedia networks. A twin of a graph has the same features and
    edges in another order of nodes, as far as three rounds of Weisfeiler-Leman refinement tell.

    Args:
        task (Task): The task.
        split (int): Index of the split.

    Returns:
        dict: ``test`` (number of test units), ``count`` and ``share`` of those with a twin, and
        ``same_targets``, the share with edges to the same nodes; ``None`` for graphs.
    """
    train, test = task.splits[split].train, task.splits[split].test
    if task.unit == "node":
        incoming, outgoing = _link_hashes(task.graphs[0])
        key = hashed(feature_hashes(task.graphs[0].x)) + 3 * hashed(incoming) + 5 * hashed(outgoing)
        known = (outgoing[test] != 0) & torch.isin(outgoing[test], outgoing[train])
        same_targets = float(known.double().mean()) if test.numel() else 0.0
    else:
        key, same_targets = torch.stack([_graph_hash(graph) for graph in task.graphs]), None
    count = int(torch.isin(key[test], key[train]).sum())
    return {
        "test": test.numel(),
        "count": count,
        "share": count / max(test.numel(), 1),
        "same_targets": same_targets,
    }


def _link_hashes(graph: Data) -> tuple[Tensor, Tensor]:
    """Returns hashes of the edges to and from every node, 0 without any.

    A self-loop is the same for all nodes.
    """
    source, target = graph.edge_index.cpu()
    loop = source == target
    link = edge_hashes(source.numel(), graph.edge_weight)
    zeros = torch.zeros(int(graph.num_nodes), dtype=torch.long)
    sender = hashed(torch.where(loop, 0, source + 1))
    receiver = hashed(torch.where(loop, 0, target + 1))
    incoming = zeros.index_add(0, target, hashed(sender + link))
    outgoing = zeros.index_add(0, source, hashed(receiver - link))
    return incoming, outgoing


def _graph_hash(graph: Data) -> Tensor:
    key = neighborhood_hashes(graph.x, graph.edge_index, graph.edge_weight, ROUNDS)
    return hashed(hashed(key).sum() + int(graph.num_nodes))
