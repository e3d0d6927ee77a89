"""A model that has been trained: it predicts, and can be kept."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import Schema
from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.files import atomic_write
from mgnni.models.base import GraphModel
from mgnni.models.mgnni import MGNNI
from mgnni.train.build import build_model
from mgnni.train.config import Config, from_dict
from mgnni.train.folder import load_checkpoint
from mgnni.train.learner import check_graphs, prepared
from mgnni.train.streams import Run
from mgnni.train.versions import versions

KIND, FORMAT = "mgnni-model", 1


class Explained(NamedTuple):
    """A prediction and what stands behind it, one row a node or a graph.

    Attributes:
        chosen: which classes are predicted, boolean, shape ``(rows, classes)``.
        probability: of each class, shape ``(rows, classes)``.
        attention: weight of each scale, shape ``(rows, scales)``, if the model has scales; those
            of a graph are the means over its nodes.
    """

    chosen: Tensor
    probability: Tensor
    attention: Tensor | None


@dataclass(frozen=True, eq=False)
class Fitted:
    """Trained weights, one set a run, and all that is needed to use them.

    Attributes:
        config: model and training.
        level: ``"node"`` or ``"graph"``.
        multilabel: whether a row has several labels.
        classes: their names, in the order of the columns of :meth:`predict_proba`.
        num_features: width of the features.
        runs: which splits and seeds the weights are from.
        val: metrics of each run on its validation part.
        weights: ``state_dict`` of each run.
        schema: how files are read; none for a benchmark.
        report: of the training; none if loaded from a file.
    """

    config: Config
    level: str
    multilabel: bool
    classes: tuple[str, ...]
    num_features: int
    metric: str
    runs: tuple[Run, ...]
    val: tuple[dict[str, float], ...]
    weights: tuple[dict[str, Tensor], ...]
    schema: Schema | None = None
    report: dict[str, Any] | None = None
    data: tuple[Data, ...] | None = None

    @property
    def best(self) -> int:
        """Place of the run that is best on its validation part; the first of equals."""
        values = [one.get(self.metric, float("-inf")) for one in self.val]
        return values.index(max(values))

    def model(self, run: int | None = None) -> GraphModel:
        """Return a module with the weights of a run, by default of the best one."""
        place = self.best if run is None else run
        if not 0 <= place < len(self.weights):
            raise ArgumentError(
                f"'run' must lie between 0 and {len(self.weights) - 1} (got {place})"
            )
        with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten below
            model = build_model(self.config, self.num_features, len(self.classes), self.level)
        if self.config.precision == "64":
            model = model.double()
        model.load_state_dict(self.weights[place])
        return model.eval()

    def predict(self, data: Any = None, *, run: int | None = None) -> Tensor:
        """Return the class of each row, as its place in ``classes``; 0/1 for several labels."""
        chosen = self.explain(self.read(data), run).chosen.long()
        return chosen if self.multilabel else chosen.argmax(1)

    def predict_proba(self, data: Any = None, *, run: int | None = None) -> Tensor:
        """Return the probability of each class, one row a node or a graph.

        Args:
            data: a path, a PyG ``Data``, ``Dataset`` or list; by default what it was fitted to.
            run: which of the runs predicts; by default the one best on validation.
        """
        return self.explain(self.read(data), run).probability

    def read(self, data: Any) -> tuple[Data, ...]:
        """Return the graphs of some data, with features made as in training."""
        if data is None:
            if self.data is None:
                raise ArgumentError("'data' must be given to a model that was loaded from a file")
            return self.data
        if self.schema is None and isinstance(data, (Data, Dataset, list, tuple)):
            # A benchmark's features are as they are: nothing is to be made of columns.
            return tuple(_inputs(graph) for graph in ([data] if isinstance(data, Data) else data))
        return self.open(data).graphs

    def open(self, data: Any) -> GraphFile:
        """Read a path or a PyG object with the schema of the training."""
        if isinstance(data, (str, Path)):
            return read_graphs(Path(data), schema=self.schema)
        if isinstance(data, (Data, Dataset, Sequence)):
            return from_pyg(data, schema=self.schema)
        raise ArgumentError(
            "'data' must be a path, a PyG Data or Dataset, or a list of Data (got "
            f"{type(data).__name__})"
        )

    @torch.no_grad()
    def explain(self, graphs: Sequence[Data], run: int | None = None) -> Explained:
        """Return what is predicted, how sure, and by which scales."""
        if not graphs:
            raise ArgumentError("'data' must hold at least one graph (got none)")
        check_graphs(graphs, self.num_features)
        model = self.model(run)
        dtype = next(model.parameters()).dtype
        scores, attentions = [], []
        size = len(graphs) if len(graphs) == 1 else self.config.batch_size
        for start in range(0, len(graphs), size):
            some = [prepared(graph, self.config) for graph in graphs[start : start + size]]
            batch = Batch.from_data_list([_inputs(graph) for graph in some])
            several = batch.batch if len(graphs) > 1 or self.level == "graph" else None
            inputs = (batch.x.to(dtype), batch.edge_index, batch.edge_weight, several)
            if isinstance(model, MGNNI):
                logits, weight = model(*inputs, return_attention=True)
            else:
                logits, weight = model(*inputs), None
            if self.level == "graph" and weight is not None:
                total = weight.new_zeros(batch.num_graphs, weight.size(1))
                count = torch.bincount(batch.batch, minlength=batch.num_graphs).clamp(min=1)
                weight = total.index_add_(0, batch.batch, weight) / count.unsqueeze(1)
            scores.append(logits)
            attentions += [] if weight is None else [weight]
        logits, attention = torch.cat(scores), torch.cat(attentions) if attentions else None
        if self.multilabel:
            return Explained(logits >= 0, logits.sigmoid(), attention)
        best = torch.zeros_like(logits, dtype=torch.bool)
        # Probabilities may be equal where scores are not.
        best = best.scatter_(1, logits.argmax(1, keepdim=True), True)
        return Explained(best, logits.softmax(1), attention)

    def to_dict(self) -> dict[str, Any]:
        """Return tensors and plain data."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "versions": versions(),
            "config": self.config.to_dict(),
            "level": self.level,
            "multilabel": self.multilabel,
            "classes": list(self.classes),
            "num_features": self.num_features,
            "metric": self.metric,
            "runs": [asdict(run) for run in self.runs],
            "val": list(self.val),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "weights": list(self.weights),
        }

    def save(self, path: str | Path) -> None:
        """Write the model to a file that is read without running any code."""
        buffer = io.BytesIO()
        torch.save(self.to_dict(), buffer)
        with atomic_write(Path(path)) as file:
            file.write(buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Fitted:
        """Read a model: a file that :meth:`save` wrote, or the folder of a training."""
        path = Path(path)
        if path.is_dir():
            path = path / "model.pt"
        if not path.exists():
            raise DataError(
                f"{path}: no such file; a training that is complete has a model.pt in its folder"
            )
        content = load_checkpoint(path)
        if content.get("kind") != KIND:
            raise DataError(f"{path}: is no model of mgnni; give the model.pt of a training")
        if content.get("format") != FORMAT:
            made = content.get("versions", {}).get("mgnni", "unknown")
            raise DataError(
                f"{path}: was written by mgnni {made} in format {content.get('format')!r} (this "
                f"one reads {FORMAT}); use that version, or train anew"
            )
        try:
            fitted = cls(
                config=from_dict(Config, content["config"]),
                runs=tuple(Run(**run) for run in content["runs"]),
                val=tuple(content["val"]),
                weights=tuple(content["weights"]),
                classes=tuple(content["classes"]),
                schema=None if content["schema"] is None else Schema.from_dict(content["schema"]),
                **{key: content[key] for key in ("level", "multilabel", "num_features", "metric")},
            )
            for place, _ in zip(range(len(fitted.runs)), fitted.val, strict=True):
                fitted.model(place)
        except (MgnniError, KeyError, TypeError, RuntimeError, ValueError, AttributeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise DataError(
                f"{path}: its weights and its configuration do not fit together ({reason}); "
                "train anew"
            ) from error
        return fitted


def _inputs(graph: Data) -> Data:
    if not isinstance(graph, Data) or graph.x is None or graph.edge_index is None:
        raise DataError(
            f"a graph must be a PyG Data with x and edge_index (got {graph}); add what is missing"
        )
    kept = {"x": graph.x, "edge_index": graph.edge_index}
    if graph.edge_weight is not None:
        kept["edge_weight"] = graph.edge_weight
    return Data(**kept, num_nodes=graph.num_nodes)
