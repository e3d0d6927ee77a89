"""A trained model: it predicts, and can be saved and loaded."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import read_like
from mgnni.data.tables.schema import Schema
from mgnni.errors import ArgumentError, DataError, DataWarning, check_choice
from mgnni.layers.blocks import state_names
from mgnni.models.base import GraphModel
from mgnni.plain_data import from_dict
from mgnni.train.config import Config
from mgnni.train.ensemble import build_model, meta_model
from mgnni.train.folder import load_checkpoint, save_checkpoint
from mgnni.train.inputs import input_graphs, model_inputs
from mgnni.train.prediction import Prediction, decide, model_outputs
from mgnni.train.report import versions
from mgnni.train.runs import Run, best_run
from mgnni.train.weight_check import check_weights

KIND, FORMAT = "mgnni-model", 1
ROW_KIND = "mgnni-row-model"  # of mgnni.train.minibatch
NOT_A_MODEL = "is not a model of mgnni; pass the model.pt of a training"
ROW_MODEL = (
    "is a model of mgnni minibatch, for stored terms; predict with: mgnni predict MODEL TERMS, or "
    "pass the model.pt of mgnni train"
)


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained model with one set of weights per run.

    Attributes:
        config: Model and training hyperparameters.
        level: ``"node"`` or ``"graph"``.
        multilabel: Whether a row has several labels.
        classes: Names of the classes, in the order of the columns of :meth:`predict_proba`, or of
            the numbers that are predicted.
        num_features: Number of input features.
        metric: Name of the metric that selects the best run.
        runs: Splits and seeds of the weights.
        val: Metrics of each run on its validation set.
        weights: ``state_dict`` of each run; shapes are those of :meth:`model`.
        schema: How files are read; ``None`` for a benchmark.
        report: Report of the training; ``None`` if loaded from a file.
        data: Graphs of the training; ``None`` if loaded from a file.
        graph: Hash of the only graph that the model can predict; ``None`` if it can predict others.
        thresholds: For two classes, the probability of the second one above which each run predicts
            it, chosen on its validation set; ``None`` for the more probable class.
        regression: Whether numbers are predicted.
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
    graph: str | None = None
    thresholds: tuple[float | None, ...] = ()
    regression: bool = False

    def __repr__(self) -> str:
        val = self.val[self.best].get(self.metric)
        score = "" if val is None else f", best validation {self.metric}={val:.4f}"
        splits = 0 if self.report is None else self.report["data"]["splits"]
        trained = len({run.split for run in self.runs})  # by default `fit` trains one only
        runs = f"{len(self.runs)}{f' ({trained} of {splits} splits)' * (splits > trained)}"
        name, level = self.config.architecture, self.level
        what = f"features={self.num_features}, classes={len(self.classes)}, runs={runs}"
        return f"{type(self).__name__}({name}, level={level!r}, {what}{score})"

    @property
    def best(self) -> int:
        """Index of the run with the best validation metric; the first one if several are equal."""
        return best_run(self.metric, self.val)

    @property
    def states(self) -> tuple[int | str, ...]:
        """Names of the states that the model weighs: its scales, and what else it combines."""
        return state_names(self.config.model)

    def model(self, run: int | None = None) -> GraphModel:
        """Return a module with the weights of a run, in evaluation mode.

        Args:
            run (int, optional): Index of the run; ``None`` uses the best one.
                (default: :obj:`None`)
        """
        place = self.best if run is None else run
        if not 0 <= place < len(self.weights):
            raise ArgumentError(
                f"'run' must lie between 0 and {len(self.weights) - 1} (got {place})"
            )
        with torch.random.fork_rng(devices=[]):  # the initial weights are overwritten below
            model = build_model(self.config, *self._sizes)
        if self.config.precision == "64":
            model = model.double()
        model.load_state_dict(self.weights[place])
        return model.eval()

    @property
    def _sizes(self) -> tuple[int, int, str, bool]:
        return self.num_features, len(self.classes), self.level, self.regression

    def predict(
        self, data: Any = None, *, run: int | None = None, threshold: float | None = None
    ) -> Tensor:
        """Return the class index or number of each row; with the arguments of :meth:`predictions`.

        Shapes:
            - **output:** ``(rows,)``, or ``(rows, labels)`` for several labels (0/1) or numbers
        """
        if self.regression:
            if threshold is not None:
                raise ArgumentError(
                    "'threshold' is for two classes (got a model of numbers); leave it out"
                )
            numbers = self.outputs(self.read(data), run)[0]
            return numbers.squeeze(1) if len(self.classes) == 1 else numbers
        chosen = self.predictions(self.read(data), run, threshold).chosen.long()
        return chosen if self.multilabel else chosen.argmax(1)

    def predict_proba(self, data: Any = None, *, run: int | None = None) -> Tensor:
        """Return the probability of each class, one row per node or per graph.

        Args:
            data (str or Path or Data or Dataset or list[Data], optional): Graphs to predict;
                ``None`` uses those of the training. (default: :obj:`None`)
            run (int, optional): Index of the run that predicts; ``None`` uses the best one.
                (default: :obj:`None`)

        Shapes:
            - **output:** ``(rows, classes)``
        """
        return self.predictions(self.read(data), run).probability

    def read(self, data: Any) -> tuple[Data, ...]:
        """Return the graphs of some data, with features built as in training."""
        if data is None:
            if self.data is None:
                raise ArgumentError("'data' must be given to a model that was loaded from a file")
            return self.data
        if self.schema is None and isinstance(data, (Data, Dataset, list, tuple)):
            # The features of a benchmark are used as they are.
            return tuple(map(model_inputs, [data] if isinstance(data, Data) else data))
        file = self.open(data)
        for text in file.warnings:
            warnings.warn(f"{file.name}: {text}", DataWarning, stacklevel=3)
        return file.graphs

    def open(self, data: Any, delimiter: str | None = None) -> GraphFile:
        """Read a path or a PyG object with the schema of the training.

        Text tables have the delimiter of the training, unless another one is given.
        """
        file = read_like(data, self.schema, delimiter)
        # The option makes every graph undirected.
        return replace(file, warnings=()) if self.config.undirected else file

    def inputs(self, graphs: Sequence[Data]) -> list[Data]:
        """Check graphs with the features of the training; return what the model reads of each."""
        return input_graphs(graphs, self.config, self.num_features, self.graph)

    def threshold(self, run: int | None = None) -> float | None:
        """Return the threshold of a run; ``None`` if it predicts the most probable class."""
        return self.thresholds[self.best if run is None else run] if self.thresholds else None

    def predictions(
        self, graphs: Sequence[Data], run: int | None = None, threshold: float | None = None
    ) -> Prediction:
        """Return predicted classes, probabilities and scale weights.

        Args:
            graphs (Sequence[Data]): Graphs with the features of the training.
            run (int, optional): Index of the run that predicts; ``None`` uses the best one.
                (default: :obj:`None`)
            threshold (float, optional): Probability of the second of two classes above which it is
                predicted; ``None`` uses that of the run. (default: :obj:`None`)
        """
        if self.regression:
            raise ArgumentError(
                "'predictions' returns classes and probabilities (got a model of numbers); use "
                "predict, or outputs"
            )
        logits, attention = self.outputs(graphs, run)
        threshold = self.threshold(run) if threshold is None else threshold
        return decide(logits, attention, self.multilabel, threshold)

    def outputs(
        self, graphs: Sequence[Data], run: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return logits, or predicted numbers, and scale weights.

        Args:
            graphs (Sequence[Data]): Graphs with the features of the training.
            run (int, optional): Index of the run that predicts; ``None`` uses the best one.
                (default: :obj:`None`)

        Shapes:
            - **output:** ``(rows, classes)``, and ``(rows, states)`` if the model weighs scales
        """
        inputs = self.inputs(graphs)
        return model_outputs(self.model(run), inputs, self.config.batch_size, self.level)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a model file: tensors and plain data."""
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
            "graph": self.graph,
            "thresholds": list(self.thresholds),
            "regression": self.regression,
        }

    def save(self, path: str | Path) -> None:
        """Write the model to a file, which :meth:`load` reads without running any code."""
        save_checkpoint(Path(path), self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Fitted:
        """Load a model.

        Args:
            path (str or Path): A file written by :meth:`save`, or the folder of a training.
        """
        path = Path(path)
        if path.is_dir():
            path = path / "model.pt"
        if not path.exists():
            raise DataError(
                f"{path}: no such file; the folder of a complete training has a model.pt"
            )
        content = load_checkpoint(path)
        kind = content.pop("kind", None)
        if kind != KIND:
            raise DataError(f"{path}: {ROW_MODEL if kind == ROW_KIND else NOT_A_MODEL}")
        found, writer = content.pop("format", None), content.pop("versions", None)
        if not (isinstance(found, int) and found == FORMAT):
            version = writer.get("mgnni", "unknown") if isinstance(writer, dict) else "unknown"
            raise DataError(
                f"{path}: was written by mgnni {reprlib.repr(version)} in format "
                f"{reprlib.repr(found)} (this version reads {FORMAT}); use that version, or train "
                "again"
            )
        try:
            content["config"] = Config.from_dict(content["config"])
            if content["schema"] is not None:
                content["schema"] = Schema.from_dict(content["schema"])
            fitted = from_dict(cls, content, "model")
            fitted._check()
        # A file may be wrong in any way, so any error is possible.
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise DataError(
                f"{path}: its fields do not fit together ({reason}); train again"
            ) from error
        return fitted

    def _check(self) -> None:
        """Check that fields, weights and configuration fit together, without building the model."""
        check_choice("level", self.level, ("node", "graph"))
        if not len(self.runs) == len(self.val) == len(self.weights) > 0:
            raise ValueError("runs, val and weights must have the same length, at least 1")
        if len(self.thresholds) not in (0, len(self.runs)):
            raise ValueError("thresholds must be one per run, or none")
        if self.schema is not None and len(self.schema.feature_names) != self.num_features:
            raise ValueError(f"the schema does not have {self.num_features} features")
        check_weights(self.weights, meta_model(self.config, *self._sizes))
