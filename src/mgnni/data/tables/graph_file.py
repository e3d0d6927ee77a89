"""The graphs of a file as PyG objects: their edges, labels and splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.split import Split
from mgnni.data.tables.messages import counted, show
from mgnni.data.tables.schema import Schema
from mgnni.data.task import Task
from mgnni.errors import DataError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
UNDIRECTED = (
    ", or train with --undirected true instead of --directed false: it makes one edge of all "
    "between two nodes, with the largest weight"
)


@dataclass(frozen=True, eq=False)
class GraphFile:
    """One graph with labelled nodes, or several graphs.

    Args:
        name (str): Name of the file or folder.
        graphs (tuple of Data): Graphs with ``x``, ``edge_index`` and, if edges have weights,
            ``edge_weight``; nodes are in the order of the file.
        labels (Tensor, optional): One row per node or per graph, see
            :class:`~mgnni.data.task.Task`; None if the file has no labels.
        ids (pyarrow.ChunkedArray or range): The id of each row of ``labels``.
        level (str): ``"node"`` or ``"graph"``.
        splits (tuple of Split): Splits in the file.
        classes (tuple of str): Names of the classes, or of the labels if there are several per row.
        directed (bool): Whether some edge has no reverse edge.
        schema (Schema): Reads further files in the same way.
        notes (tuple of str): What was chosen, counted or filled in, one line each.
        warnings (tuple of str, optional): How the graph differs from that of the training in a way
            that is probably not meant.
        node_ids (pyarrow.ChunkedArray, optional): The ids of the nodes of all graphs, one graph
            after another; None if nodes have no ids.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, labels)`` for several labels per row
    """

    name: str
    graphs: tuple[Data, ...]
    labels: Tensor | None
    ids: Any
    level: str
    splits: tuple[Split, ...]
    classes: tuple[str, ...]
    directed: bool
    schema: Schema
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    node_ids: Any = None

    def task(
        self,
        name: str | None = None,
        splits: Sequence[Split] | None = None,
        metric: str | None = None,
    ) -> Task:
        """Returns the task of this file.

        Args:
            name (str, optional): Name of the task. (default: the name of the file)
            splits (list of Split, optional): Replaces the splits of the file.
            metric (str, optional): Metric of the task, see :class:`~mgnni.data.task.Task`.
        """
        if self.labels is None:
            raise DataError(
                f"{self.name}: labels are needed to train or to evaluate (got none); add a label "
                "column, or only predict"
            )
        return Task(
            name or self.name,
            self.graphs,
            self.labels,
            self.splits if splits is None else splits,
            self.classes,
            level=self.level,
            metric=metric,
            notes=self.notes,
            regression=self.schema.regression,
        )


def directed_edges(
    edges: Integers,
    weight: Floats | None,
    num_nodes: int,
    directed: bool | None,
    where: str,
    node_id: Callable[[int], object],
    *,
    trained: bool = False,
) -> tuple[Integers, Floats | None, bool, list[str]]:
    """Determines whether the graph is directed, and adds reverse edges if requested.

    Args:
        edges (numpy.ndarray): Edge indices of shape ``(2, num_edges)``.
        weight (numpy.ndarray, optional): Edge weights of shape ``(num_edges,)``.
        num_nodes (int): Number of nodes.
        directed (bool, optional): See :class:`~mgnni.data.tables.schema.TableOptions`.
        where (str): The file, for messages.
        node_id (callable): Returns the id of a node, for messages.
        trained (bool, optional): Whether a trained model reads the edges, so that no option is
            advised. (default: :obj:`False`)

    Returns:
        Edges, weights, whether the graph is directed, and notes.
    """
    notes = []
    forward, backward = _pair_numbers(edges, num_nodes)
    distinct = _distinct(forward)
    if len(distinct) < len(forward):
        repeated = counted(len(forward) - len(distinct), "edge")
        notes.append(f"{repeated} listed more than once: kept, weights add up")
    loops = int((edges[0] == edges[1]).sum())
    if loops:
        notes.append(f"{counted(loops, 'self-loop')} kept")
    zeros = 0 if weight is None else int((weight == 0).sum())
    if zeros:
        notes.append(f"{counted(zeros, 'edge')} with weight 0: without effect")
    if not forward.size:
        return edges, weight, bool(directed), [f"{where}: no edges"]
    if directed is True:
        return edges, weight, True, notes
    both_ways = np.array_equal(distinct, _distinct(backward))
    if directed is False and not both_ways:
        one_way = ~np.isin(backward, distinct)
        edges = np.concatenate([edges, edges[::-1, one_way]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[one_way]])
        notes.append(f"{counted(int(one_way.sum()), 'edge')} listed one way: reverse added")
        forward, backward = _pair_numbers(edges, num_nodes)
        both_ways = True
    uneven = _uneven_pair(forward, backward, weight) if both_ways else None
    if uneven is not None and directed is False:
        source, target = (node_id(int(node)) for node in divmod(uneven, num_nodes))
        raise DataError(
            f"{where}: an undirected edge must have the same weight in both directions (got a "
            f"different weight or number of edges from {show(source)} to {show(target)} than "
            f"back); list it once{'' if trained else UNDIRECTED}"
        )
    if both_ways and uneven is None:
        return edges, weight, False, [*notes, "undirected: every edge has its reverse"]
    advice = (
        ""
        if both_ways or trained
        else "; if each edge stands for both directions, pass directed=False (--directed false)"
    )
    return edges, weight, True, [*notes, f"directed: edges lead from source to target{advice}"]


def _pair_numbers(edges: Integers, num_nodes: int) -> tuple[Integers, Integers]:
    """Returns one number per edge, equal for equal edges, for both directions."""
    return edges[0] * num_nodes + edges[1], edges[1] * num_nodes + edges[0]


def _uneven_pair(forward: Integers, backward: Integers, weight: Floats | None) -> int | None:
    """Returns a pair of nodes whose total weights differ between the two directions."""
    pair, there = _total_weights(forward, weight)
    _, back = _total_weights(backward, weight)
    wrong = np.flatnonzero(~np.isclose(there, back, rtol=1e-5, atol=0))
    return int(pair[wrong[0]]) if wrong.size else None


def _total_weights(
    pairs: Integers, weight: Floats | None
) -> tuple[Integers, npt.NDArray[np.float64]]:
    """Returns each pair once, sorted, and the sum of its weights."""
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    start = np.flatnonzero(np.diff(pairs, prepend=-1))
    weights = np.ones(len(pairs)) if weight is None else weight[order].astype(np.float64)
    return pairs[start], np.add.reduceat(weights, start)


def _distinct(pairs: Integers) -> Integers:
    """Returns the sorted unique pairs, ten times faster than ``np.unique``, which hashes."""
    ordered = np.sort(pairs)
    kept: Integers = ordered[np.diff(ordered, prepend=-1) != 0]
    return kept


def make_graphs(
    x: Floats,
    edges: Integers,
    weight: Floats | None,
    graph: Integers | None,
    num_graphs: int = 1,
) -> tuple[Data, ...]:
    """Splits one list of nodes and edges into graphs, keeping the order of both.

    Args:
        x (numpy.ndarray): Node features of shape ``(num_nodes, num_features)``.
        edges (numpy.ndarray): Edge indices of shape ``(2, num_edges)``.
        weight (numpy.ndarray, optional): Edge weights of shape ``(num_edges,)``.
        graph (numpy.ndarray, optional): The graph of each node, in any order; None for one graph.
        num_graphs (int, optional): Number of graphs. (default: :obj:`1`)
    """
    if graph is None:
        return (_make_graph(x, edges, weight),)
    order = np.argsort(graph, kind="stable")
    start = np.searchsorted(graph[order], np.arange(num_graphs + 1))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    edge_graph = graph[edges[0]]
    edge_order = np.argsort(edge_graph, kind="stable")
    edge_start = np.searchsorted(edge_graph[edge_order], np.arange(num_graphs + 1))
    graphs = []
    for index in range(num_graphs):
        own = edge_order[edge_start[index] : edge_start[index + 1]]
        graphs.append(
            _make_graph(
                x[order[start[index] : start[index + 1]]],
                place[edges[:, own]] - start[index],
                None if weight is None else weight[own],
            )
        )
    return tuple(graphs)


def _make_graph(x: Floats, edges: Integers, weight: Floats | None) -> Data:
    data = Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges))
    if weight is not None:
        data.edge_weight = torch.from_numpy(weight)
    return data
