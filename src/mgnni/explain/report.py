"""An explanation as plain data, with the names of the user's files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from mgnni.explain.explanation import Explanation


class Names(NamedTuple):
    """What the rows, classes and features of a model are called.

    Args:
        classes (Sequence[str]): Names of the classes.
        features (Sequence[str], optional): Names of the features; numbers if :obj:`None`.
        ids (Sequence[object], optional): Ids of the nodes of the graph; numbers if :obj:`None`.
        labels (Mapping[int, str], optional): Known labels of nodes of the graph.
        target (object, optional): Id of what is explained; its index if :obj:`None`.
    """

    classes: Sequence[str]
    features: Sequence[str] | None = None
    ids: Sequence[object] | None = None
    labels: Mapping[int, str] = {}
    target: object = None


def summarize(
    explanation: Explanation, names: Names, top: int = 10, features_of_nodes: int = 3
) -> dict[str, Any]:
    """Return the explanation as plain data.

    Args:
        explanation (Explanation): The explanation.
        names (Names): Names of classes, features and nodes.
        top (int, optional): Number of nodes and of features. (default: :obj:`10`)
        features_of_nodes (int, optional): Number of features of each node. (default: :obj:`3`)
    """
    one, classes = explanation, names.classes
    nodes = one.nodes
    size = float(nodes.abs().sum())
    of_features = one.features.sum(0)

    def feature(index: int) -> str:
        return str(index) if names.features is None else names.features[index]

    def node(index: int) -> dict[str, Any]:
        return {
            "id": index if names.ids is None else names.ids[index],
            "hops": None if one.hops is None else int(one.hops[index]),
            "label": names.labels.get(index),
            "contribution": float(nodes[index]),
            "paths": dict(
                zip(map(str, one.paths), one.contributions[:, index].tolist(), strict=True)
            ),
            "features": {
                feature(place): float(one.features[index, place])
                for place in one.top_features(features_of_nodes, index).tolist()
            },
        }

    shown = one.top_nodes(top)
    counts, sizes = _counts(one.hops), one.size_by_hop()
    return {
        "level": one.level,
        "target": one.index if names.target is None else names.target,
        "label": None if one.node is None else names.labels.get(one.node),
        "class": classes[one.class_index],
        "against": classes[one.against] if isinstance(one.against, int) else one.against,
        "predicted": None if one.predicted is None else classes[one.predicted],
        "probability": one.probability,
        "output": one.output,
        "baseline_output": one.baseline_output,
        "gap": one.gap,
        "feature_gap": one.feature_gap,
        "exact_propagation": one.exact,
        "steps": one.steps,
        "contributing_nodes": int((nodes != 0).sum()),
        "shown_share": float(nodes[shown].abs().sum()) / size if size else 1.0,
        "nodes": [node(index) for index in shown.tolist()],
        "features": [
            {"feature": feature(index), "contribution": float(of_features[index])}
            for index in one.top_features(top).tolist()
        ],
        "paths": {str(name): value for name, value in one.by_path().items()},
        "hops": [
            {
                "hops": hop,
                "nodes": counts[hop],
                "contribution": value,
                "size_share": sizes.get(hop, 0.0) / size if size else 0.0,
            }
            for hop, value in one.by_hop().items()
        ],
    }


def _counts(hops: Tensor | None) -> dict[int, int]:
    if hops is None:
        return {}
    return dict(Counter(hops.tolist()))
