"""The explanation of one output of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of nodes, paths and features to one output.

    They add up to ``output - baseline_output``, up to :attr:`gap` and :attr:`feature_gap`.

    Attributes:
        level: ``"node"`` or ``"graph"``.
        index: Index of the node or graph.
        node: Index of the node in its graph; ``None`` for a graph.
        class_index: The class whose logit is explained.
        against: The class whose logit is subtracted, or ``"others"`` for the mean of all others;
            ``None`` for the logit itself.
        predicted: The predicted class. If a row may have several labels, ``class_index`` if this
            label is predicted, and ``None`` if it is not.
        probability: Predicted probability of ``class_index``; ``None`` for a number.
        output: What is explained: a logit, the difference of two, or a number.
        baseline_output: The same with the features of the baseline.
        paths: Names of the paths from nodes to the output: the scales, ``"1-out"`` for a scale
            against the edges, ``"bias"`` and ``"features"`` for what the head reads directly, and
            ``"model"`` for models that are not divided.
        contributions: Contribution of each node through each path, float64, shape
            ``(paths, num_nodes)``.
        features: Contribution of each feature of each node, float64, shape
            ``(num_nodes, in_channels)``.
        hops: Distance of each node to the target in hops, shape ``(num_nodes,)``; -1 if there is
            no path; ``None`` for a graph.
        edge_index: Edges of the graph, shape ``(2, num_edges)``.
        exact: Whether the propagation is attributed exactly, by the resolvent.
        steps: Number of points of integrated gradients.
    """

    level: str
    index: int
    node: int | None
    class_index: int
    against: int | str | None
    predicted: int | None
    probability: float | None
    output: float
    baseline_output: float
    paths: tuple[int | str, ...]
    contributions: Tensor
    features: Tensor
    hops: Tensor | None
    edge_index: Tensor
    exact: bool
    steps: int

    @property
    def nodes(self) -> Tensor:
        """Contribution of each node through all paths, shape ``(num_nodes,)``."""
        return self.contributions.sum(0)

    @property
    def gap(self) -> float:
        """What the contributions of nodes miss of ``output - baseline_output``."""
        return self.output - self.baseline_output - float(self.contributions.sum())

    @property
    def feature_gap(self) -> float:
        """What the contributions of features miss of ``output - baseline_output``."""
        return self.output - self.baseline_output - float(self.features.sum())

    def top_nodes(self, count: int = 10) -> Tensor:
        """Return the nodes with the largest contributions in size, largest first.

        Args:
            count (int, optional): Number of nodes. (default: :obj:`10`)
        """
        return _largest(self.nodes, count)

    def top_features(self, count: int = 10, node: int | None = None) -> Tensor:
        """Return the features with the largest contributions in size, largest first.

        Args:
            count (int, optional): Number of features. (default: :obj:`10`)
            node (int, optional): Only those of this node; of all nodes together if :obj:`None`.
                (default: :obj:`None`)
        """
        return _largest(self.features.sum(0) if node is None else self.features[node], count)

    def by_path(self) -> dict[int | str, float]:
        """Return the contribution through each path."""
        return dict(zip(self.paths, self.contributions.sum(1).tolist(), strict=True))

    def by_hop(self) -> dict[int, float]:
        """Return the contribution of all nodes at each distance; -1 for nodes without a path."""
        return _sums(self.nodes, self.hops)

    def size_by_hop(self) -> dict[int, float]:
        """Return the sum of the sizes of the contributions at each distance."""
        return _sums(self.nodes.abs(), self.hops)


def _largest(values: Tensor, count: int) -> Tensor:
    order = torch.argsort(values.abs(), descending=True, stable=True)[:count]
    return order[values[order] != 0]


def _sums(values: Tensor, hops: Tensor | None) -> dict[int, float]:
    if hops is None:
        return {}
    distances, place = torch.unique(hops, return_inverse=True)
    totals = values.new_zeros(len(distances)).index_add_(0, place, values)
    pairs = zip(distances.tolist(), totals.tolist(), strict=True)
    return {hop: total for hop, total in pairs if hop >= 0 or total}
