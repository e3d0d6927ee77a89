"""``mgnni predict``: predictions of a trained model as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.data import benchmark_options, check_data
from mgnni.data.catalog import benchmark_named
from mgnni.files import to_json

if TYPE_CHECKING:
    from torch import Tensor

    from mgnni.train.fitted import Fitted


@dataclass(frozen=True, kw_only=True)
class Predict(Command):
    """Predict with a trained model.

    MODEL is the output folder of mgnni train, or the model.pt in it. GRAPH is anything that mgnni
    train accepts; files are read as in training, and labels are not needed. The result is a table
    with one row per node or graph, in the order of the file: id, prediction, label if it is known,
    split if GRAPH is what the model was trained on, the probability of each class, and the weight
    of each scale. A model of numbers predicts them in the units of its training data.

    MODEL can also be the output folder of mgnni minibatch. GRAPH is then the output folder of mgnni
    precompute that it was trained on.

    Example: mgnni predict runs/topics new-graph/ --output topics.csv
    Example: mgnni predict runs/texas texas --run-number 3
    Example: mgnni predict runs/large /data/terms --output large.parquet
    """

    renamed: ClassVar[Mapping[str, str]] = {"run": "--run-number"}

    model: Path = field(metadata={"metavar": "MODEL", "positional": True})
    """Output folder of mgnni train, or a model.pt."""
    graph: str = field(metadata={"metavar": "GRAPH", "positional": True})
    """Benchmark, folder or file."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FILE", "unset": "predictions.csv beside the model"}
    )
    """Table to write, .csv or .parquet; the default one is replaced."""
    overwrite: bool = False
    """Replace an existing table."""
    run_number: int | None = field(
        default=None, metadata={"unset": "the best on the validation set"}
    )
    """Run of the training that predicts, counted from 0."""
    threshold: float | None = field(default=None, metadata={"unset": "that of the model"})
    """For two classes: probability of the second one, in sorted order, above which it is predicted;
    0.5 predicts the more probable one. A model has one, chosen on the validation set, if its metric
    is not accuracy."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, as in training."""
    delimiter: str | None = field(
        default=None, metadata={"metavar": "CHARACTER", "unset": "that of the training"}
    )
    """Delimiter of text tables."""

    def run(self) -> None:
        """Read the graph, predict, write and print."""
        if not (Path(self.graph) / "sweep.json").exists():
            check_data(self.graph)
        options = benchmark_options(self.option)
        self._check_model()
        # Imported late because they are slow to import.
        from mgnni.cli.predict_output import show_predictions
        from mgnni.data.tables.predictions import check_target
        from mgnni.train.row_predictions import is_row_model

        folder = self.model if self.model.is_dir() else self.model.parent
        output = self.output or folder / "predictions.csv"
        overwrite = self.overwrite or self.output is None
        check_target(output, overwrite)
        path = self.model / "model.pt" if self.model.is_dir() else self.model
        if is_row_model(path):
            summary = self._predict_rows(path, output, overwrite)
        else:
            summary = self._predict(folder, output, overwrite, options)
        if self.json:
            sys.stdout.write(to_json(summary))
        else:
            show_predictions(summary)

    def _predict_rows(self, path: Path, output: Path, overwrite: bool) -> dict[str, Any]:
        """Predict with a model of mgnni minibatch, from stored terms; return the summary."""
        from mgnni.data.tables.predictions import write_predictions
        from mgnni.train.row_predictions import predict_rows

        unused = {
            "--run-number": self.run_number is not None,
            "--option": bool(self.option),
            "--delimiter": self.delimiter is not None,
        }
        for name, given in unused.items():
            if given:
                raise UsageError(
                    f"{name} is for models of mgnni train (got a model of mgnni minibatch); leave "
                    "it out"
                )
        if benchmark_named(self.graph) is not None:
            raise UsageError(
                "GRAPH must be the output folder of mgnni precompute for a model of mgnni "
                f"minibatch (got the benchmark {self.graph}); give the folder of its terms"
            )
        found = predict_rows(path, Path(self.graph), self.threshold)
        write_predictions(
            output,
            found.ids,
            found.classes,
            *found.prediction,
            found.scales,
            labels=found.labels,
            split=found.split,
            overwrite=overwrite,
        )
        counts = found.prediction.chosen.sum(0).tolist()
        return self._summary(
            output,
            rows=len(found.ids),
            split=None,
            seed=found.seed,
            best_of=1,
            threshold=self.threshold,
            predicted=dict(zip(found.classes, counts, strict=True)),
        )

    def _summary(self, output: Path, **about: Any) -> dict[str, Any]:
        """Return what is printed as JSON."""
        names = {"command": "predict", "model": str(self.model), "graph": self.graph}
        return {**names, "output": str(output), **{"warnings": [], "notes": [], **about}}

    def _predict(
        self, folder: Path, output: Path, overwrite: bool, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Predict with a model of mgnni train; return the summary."""
        from mgnni.data.tables.predictions import write_numbers, write_predictions
        from mgnni.train.fitted import Fitted
        from mgnni.train.trained_rows import trained_rows

        check_data(self.graph)  # also refuses stored terms
        fitted = Fitted.load(self.model)
        graphs, ids, labels, notes, warnings = self._graphs(fitted, options)
        number = fitted.best if self.run_number is None else self.run_number
        given: dict[str, Any] = {"labels": labels, "overwrite": overwrite}
        about: dict[str, Any]
        write: Callable[..., None]
        if fitted.regression:
            if self.threshold is not None:
                raise UsageError(
                    "--threshold is for two classes (got a model of numbers); leave it out"
                )
            predicted, attention = fitted.outputs(graphs, self.run_number)
            write = partial(write_numbers, output, ids, fitted.classes, predicted, attention)
            about = {"predicted": {}, "numbers": _spreads(fitted.classes, predicted)}
        else:
            found = fitted.predictions(graphs, self.run_number, self.threshold)
            parts = (found.chosen, found.probability, found.attention)
            write = partial(write_predictions, output, ids, fitted.classes, *parts)
            given["multilabel"] = fitted.multilabel
            counts = zip(fitted.classes, found.chosen.sum(0).tolist(), strict=True)
            about = {"predicted": dict(counts)}
        split = trained_rows(folder, fitted, number, self.graph, options)
        write(fitted.states, split=split, **given)
        run = fitted.runs[number]
        usual = fitted.threshold(self.run_number) if self.threshold is None else self.threshold
        return self._summary(
            output,
            rows=len(ids),
            split=run.split,
            seed=run.seed,
            best_of=sum(map(bool, fitted.val)) if self.run_number is None else 1,
            threshold=usual,
            **about,
            warnings=list(warnings),
            notes=list(notes),
        )

    def _check_model(self) -> None:
        """Refuse a model that is not there, and say if the arguments seem to be swapped."""
        if (self.model / "model.pt" if self.model.is_dir() else self.model).exists():
            return
        problem = "has no model.pt" if self.model.is_dir() else "does not exist"
        remedy = "train one with mgnni train"
        if (Path(self.graph) / "model.pt").is_file() or Path(self.graph).name == "model.pt":
            remedy = f"swap the arguments: mgnni predict {self.graph} {self.model}"
        raise UsageError(
            f"MODEL must be the output folder of a complete training, or a model.pt (got "
            f"{str(self.model)!r}, which {problem}); {remedy}"
        )

    def _graphs(
        self, fitted: Fitted, options: dict[str, Any]
    ) -> tuple[Any, Any, Any, tuple[str, ...], tuple[str, ...]]:
        """Return the graphs, ids and labels of their rows, notes and warnings of the reader."""
        name = benchmark_named(self.graph)
        if name is None or (fitted.schema is not None and Path(self.graph).exists()):
            if options:
                raise UsageError(f"--option is for a benchmark (got {self.graph!r}); leave it out")
            file = fitted.open(self.graph, self.delimiter)
            self._check_level(fitted, file.level)
            return file.graphs, file.ids, file.labels, file.notes, file.warnings
        if self.delimiter is not None:
            raise UsageError(f"--delimiter is for files (got the benchmark {name}); leave it out")
        if fitted.schema is not None:
            raise UsageError(
                f"{self.model} was trained on files and reads files of the same kind (got the "
                f"benchmark {name}); give a folder or a file, ./{name} if it has that name"
            )
        from mgnni.data.registry import load_task
        from mgnni.data.task import all_labels

        task = load_task(name, **options)
        self._check_level(fitted, task.level)
        return task.graphs, range(task.num_rows), all_labels(task), (), ()

    def _check_level(self, fitted: Fitted, level: str) -> None:
        if level != fitted.level:
            raise UsageError(
                f"{self.model} predicts one row per {fitted.level} (got {self.graph}, with one "
                f"per {level}); give data like its training data"
            )


def _spreads(names: Sequence[str], predicted: Tensor) -> dict[str, dict[str, float]]:
    """Return mean, smallest and largest predicted number of each target."""
    columns = zip(names, predicted.T, strict=True)
    return {
        name: {"mean": float(one.mean()), "min": float(one.min()), "max": float(one.max())}
        for name, one in columns
    }
