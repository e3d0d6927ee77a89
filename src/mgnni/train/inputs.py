"""What a trained model reads of a graph, and whether it is the graph it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from torch_geometric.data import Data

from mgnni.data.task import bare_graph
from mgnni.errors import ArgumentError, DataError
from mgnni.train.config import Config
from mgnni.train.learner import prepared


def input_graphs(
    graphs: Sequence[Data], config: Config, num_features: int, bound: str | None
) -> list[Data]:
    """Check graphs, and return what a trained model reads of each, undirected if it asks for it.

    Args:
        graphs (Sequence[Data]): Graphs with the features of the training.
        config (Config): Model and training hyperparameters.
        num_features (int): Number of features in training.
        bound (str, optional): :func:`bound_graph` of the training.
    """
    if not graphs:
        raise ArgumentError("'data' must hold at least one graph (got none)")
    check_graphs(graphs, num_features)
    check_bound_graph(config, graphs, bound)
    return [model_inputs(prepared(graph, config)) for graph in graphs]


def model_inputs(graph: Data) -> Data:
    """Return a graph with features, edges and their weights only.

    Args:
        graph (Data): The graph.
    """
    if not isinstance(graph, Data) or graph.x is None or graph.edge_index is None:
        raise DataError(
            f"a graph must be a PyG Data with x and edge_index (got {graph}); add what is missing"
        )
    return bare_graph(graph)


def bound_graph(config: Config, graphs: Sequence[Data]) -> str | None:
    """Return a hash of the edges if a model embeds the nodes of its graph; otherwise ``None``.

    Args:
        config (Config): The model.
        graphs (Sequence[Data]): Graphs of the training or of a prediction.
    """
    if getattr(config.model, "input_map", None) != "graph":
        return None
    found = hashlib.sha256()
    for graph in graphs:
        size = int(graph.num_nodes)
        pairs = (graph.edge_index[0].long() * size + graph.edge_index[1].long()).sort().values
        found.update(f"{size}:".encode() + pairs.cpu().numpy().tobytes())
    return found.hexdigest()[:16]


def check_bound_graph(config: Config, graphs: Sequence[Data], expected: str | None) -> None:
    """Raise an error if a model embeds the nodes of another graph.

    Args:
        config (Config): The model.
        graphs (Sequence[Data]): What to predict.
        expected (str, optional): :func:`bound_graph` of the training; ``None`` if the model file
            does not have it.
    """
    found = bound_graph(config, graphs)
    if found is not None and expected is not None and found != expected:
        nodes = ", ".join(str(graph.num_nodes) for graph in graphs[:3])
        raise ArgumentError(
            f"'data' must be the graph of the training, of {config.model.num_nodes} nodes, whose "
            f"nodes input_map='graph' embeds (got other edges, between {nodes} nodes); for other "
            f"graphs, train with --model {config.architecture} --input-map mlp (in Python "
            f"model={config.architecture!r}, input_map='mlp')"
        )


def check_graphs(graphs: Sequence[Data], num_features: int) -> None:
    """Check that graphs can be batched for a model with this number of features."""
    weighted = graphs[0].edge_weight is not None
    for index, graph in enumerate(graphs):
        if graph.num_features != num_features:
            problem = (
                f"must have {num_features} features, as in training (got {graph.num_features})"
            )
        elif graph.num_nodes == 0:
            problem = "must have nodes (got none); leave it out"
        elif (graph.edge_weight is not None) != weighted:
            problem = "must have an edge_weight if and only if graph 0 has one; complete them"
        else:
            continue
        raise DataError(f"graph {index} (from 0): {problem}")
