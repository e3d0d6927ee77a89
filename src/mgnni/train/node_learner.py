"""Full-batch training on the nodes of one graph, all runs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.data.hashes import neighborhood_hashes
from mgnni.data.task import Task
from mgnni.graph.memo import Memo
from mgnni.layers.graph_module import check_finite
from mgnni.layers.sparse_features import sparse_features
from mgnni.train.captured import CapturedEpoch, NotCapturable
from mgnni.train.config import Config
from mgnni.train.learner import Batch, Learner, prepared
from mgnni.train.loss import row_weights
from mgnni.train.runs import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_Prepared = tuple[Tensor, tuple[Any, ...]]
_prepared: Memo[_Prepared] = Memo()
DENSE = 0.1  # fraction of non-zero features from which a dense product is faster on a CPU
ROUNDS = 3  # of hashing neighbours, to distinguish nodes with equal features


class NodeLearner(Learner):
    """Every run sees the whole graph, and the labels of its own training nodes.

    Nodes are brought into :func:`node_order` first, so the order of the data does not matter.
    See :class:`Learner` for the arguments.
    """

    def __init__(self, task: Task, config: Config, runs: Sequence[Run], fabric: Fabric) -> None:
        super().__init__(task, config, runs, fabric)
        self.dtype = torch.float64 if config.precision == "64" else torch.float32
        self.place, self.inputs = self._place_and_inputs()
        self.parts = {part: self._part(part) for part in ("train", "val")}
        self._logits: Tensor | None = None  # of the current weights
        self._validated: Tensor | None = None  # by the captured epoch
        self._captured: CapturedEpoch | None = None
        self.capturable = fabric.device.type == "cuda" and config.precision in ("32", "tf32")

    def _place_and_inputs(self) -> _Prepared:
        """Return the graph as the model sees it, the same tensors for all groups of runs.

        Models keep what they compute from a graph as long as it is the same object.
        """
        graph, model = self.task.graphs[0], self.ensemble.model
        sparse = getattr(model, "takes_sparse_features", False)
        about = self.config.undirected, self.config.precision, sparse, str(self.fabric.device)
        return _prepared.get(
            graph, self._prepare, (graph.x, graph.edge_index, graph.edge_weight), about
        )

    def _prepare(self) -> _Prepared:
        """Return the row of each node in the inputs, and the inputs."""
        graph = prepared(self.task.graphs[0], self.config)
        check_finite(graph.x)  # before reordering, as errors name the row of the data
        order = node_order(graph.x, graph.edge_index, graph.edge_weight)
        place = torch.argsort(order)
        x = graph.x[order].to(self.dtype)
        return place, self._inputs(x, place[graph.edge_index], graph.edge_weight)

    def _inputs(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[Any, ...]:
        """Return the inputs of the model on the device of the training."""
        x = sparse_features(x) if self._sparse(x) else x
        return tuple(
            None if part is None else part.to(self.fabric.device)
            for part in (x, edge_index, edge_weight)
        )

    def _sparse(self, x: Tensor) -> bool:
        """Whether a sparse product with the features is faster."""
        here = self.fabric.device.type in ("cpu", "cuda") and self.config.precision != "bf16"
        if not (here and getattr(self.ensemble.model, "takes_sparse_features", False)):
            return False
        return int(torch.count_nonzero(x)) < DENSE * x.numel()

    def _part(self, part: str) -> tuple[Tensor, Tensor]:
        """Return labels and weights of all nodes for each run, zero outside of its part.

        No run gets a label of a node that is not in its own part.
        """
        task, n = self.task, self.task.num_rows
        wide = (len(task.classes),) if task.multilabel or task.regression else ()
        dtype = torch.float32 if task.multilabel else torch.long
        dtype = torch.float64 if task.regression else dtype
        labels = torch.zeros(len(self.runs), n, *wide, dtype=dtype)
        weight = torch.zeros(len(self.runs), n, dtype=self.dtype)
        for place, run in enumerate(self.runs):
            rows = self.place[task.rows(run.split, part)]
            targets = task.targets(run.split, part)
            labels[place, rows] = targets.to(dtype)
            # Only the training loss is weighted by classes.
            each = row_weights(targets, self.config.class_weight if part == "train" else "none")
            weight[place, rows] = (each / max(rows.numel(), 1)).to(weight.dtype)
        return labels.to(self.fabric.device), weight.to(self.fabric.device)

    def train_epoch(self, epoch: int) -> list[float]:
        """Train for one epoch, by replaying a captured one where possible."""
        if self.capturable and self._captured is None:
            try:
                self._captured = CapturedEpoch(self)
            except NotCapturable:
                self.capturable = False
        if self._captured is None:
            return super().train_epoch(epoch)
        self.set_lr(epoch)
        found = self._captured.run()
        if found is None:  # a solve missed its tolerance: repeat with correction
            return super().train_epoch(epoch)
        self.ensemble.count_steps()
        loss, self._validated = found
        self._logits = self._captured.logits
        return loss

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the whole graph, once."""
        self._logits = self._validated = None
        yield (self.inputs, *self.parts["train"])

    def _current_logits(self) -> Tensor:
        """Return the logits of the current weights, computed once."""
        if self._logits is None:
            self._logits = self.forward(self.inputs)
        return self._logits

    def scores(self, part: str) -> list[Tensor]:
        """Return the logits of a part for every run."""
        logits = self._current_logits()
        parts = [self.task.rows(run.split, part) for run in self.runs]
        rows = [self.place[nodes].to(logits.device) for nodes in parts]
        return [one[index] for one, index in zip(logits, rows, strict=True)]

    def validate(self) -> list[tuple[float, float]]:
        """Return loss and metric of each run, for all runs at once if it is accuracy."""
        if self.task.metric != "accuracy" or self.task.multilabel:
            return super().validate()
        found = self._validated
        if found is None:
            found = self.loss_and_accuracy(self._current_logits())
        return [(a, b) for a, b in found.tolist()]

    def loss_and_accuracy(self, logits: Tensor) -> Tensor:
        """Return loss and accuracy of each run on its validation set, shape ``(runs, 2)``."""
        labels, weight = self.parts["val"]
        loss = (self.losses(logits, labels) * weight).sum(-1).double()
        known = weight > 0
        right = logits.argmax(-1) == labels if labels.dim() < logits.dim() else known
        count = known.sum(-1).clamp(min=1)
        return torch.stack([loss, (right & known).sum(-1) / count.double()], 1)

    def keep(self, places: Sequence[int]) -> None:
        """Drop all runs but these."""
        super().keep(places)
        index = torch.tensor(places, device=self.fabric.device)
        self.parts = {part: (a[index], b[index]) for part, (a, b) in self.parts.items()}
        self._logits = self._validated = self._captured = None

    def use_best(self) -> None:
        """Load the best weights of every run, for evaluation."""
        super().use_best()
        self._logits = self._validated = None


def node_order(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Return an order of the nodes that does not depend on the order of rows and edges.

    Nodes are sorted by a hash of their features, their edges and their neighbours. Dropout masks
    go by rows, so without this a permuted graph would be trained differently. Nodes with equal
    hashes keep their order. Integer arithmetic wraps around, so it is exact in any order.

    Args:
        x (Tensor): Node features.
        edge_index (Tensor): Edge indices.
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.

    Shapes:
        - **x:** ``(num_nodes, channels)``
        - **edge_index:** ``(2, num_edges)``
        - **edge_weight:** ``(num_edges,)``
        - **output:** ``(num_nodes,)``, the node in each row
    """
    return torch.argsort(neighborhood_hashes(x, edge_index, edge_weight, ROUNDS), stable=True)
