"""``mgnni predict``: a trained model and a graph in, a table of predictions out."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mgnni.cli.benchmarks import benchmark_options, check_exists
from mgnni.cli.errors import UsageError
from mgnni.data.catalog import benchmark_named

if TYPE_CHECKING:
    Flag = bool
    Model = Path
    Graph = str
    Output = Path
    Number = int | None
    Pairs = tuple[str, ...]
else:
    with contextlib.suppress(ImportError):  # `main` says so, when a command is called
        from tyro.conf import Positional, arg

        from mgnni.cli.options import Flag, option

        Model = Annotated[Positional[Path], arg(metavar="MODEL")]
        Graph = Annotated[Positional[str], arg(metavar="GRAPH")]
        Output = option(Path, shown="FILE")
        Number = option(int | None, unset="the one best on validation")
        Pairs = option(tuple[str, ...], shown="NAME=VALUE ...", unset="those of the benchmark")


@dataclass(frozen=True)
class Predict:
    """Predict with a trained model.

    MODEL is the folder of a training, or its model.pt. GRAPH is what mgnni train takes: files
    are read as those of the training were, and labels are not needed. You get a table with one
    row for each node, or graph, in the order of the file: id, prediction, the probability of each
    class, and how much each scale counted.

    Example: mgnni predict runs/topics new-graph/ --output topics.csv
    Example: mgnni predict runs/texas texas --run-number 3
    """

    model: Model
    """Folder of a training, or a model file."""
    graph: Graph
    """Benchmark, folder or file."""
    output: Output = Path("predictions.csv")
    """Table to write, .csv or .parquet."""
    overwrite: Flag = False
    """Replace a table of that name."""
    run_number: Number = None
    """Which run of the training predicts, from 0."""
    option: Pairs = ()
    """How a benchmark is made or read, as in its training."""
    json: Flag = False
    """Print a summary as JSON, and nothing else, to standard output."""
    debug: Flag = False
    """Show the traceback of an error."""

    @staticmethod
    def spoken(args: Sequence[str]) -> Mapping[str, str]:
        """Which option stands for an argument of the library."""
        return {"run": "--run-number"}

    def run(self) -> None:
        """Read, predict, write."""
        check_exists(self.graph)
        options = benchmark_options(self.option)
        # Slow to import; and all of them, so that what is missing is missed before the work.
        from mgnni.cli.predict_screen import show_predictions
        from mgnni.data.tables.predictions import check_target, write_predictions
        from mgnni.train.fitted import Fitted

        check_target(self.output, self.overwrite)
        fitted = Fitted.load(self.model)
        graphs, ids, notes = self._graphs(fitted, options)
        found = fitted.explain(graphs, self.run_number)
        write_predictions(
            self.output,
            ids,
            fitted.classes,
            found.chosen,
            found.probability,
            found.attention,
            getattr(fitted.config.model, "scales", ()),
            multilabel=fitted.multilabel,
            overwrite=self.overwrite,
        )
        show_predictions(self._summary(fitted, found.chosen, notes), as_json=self.json)

    def _graphs(self, fitted: Any, options: dict[str, Any]) -> tuple[Any, Any, tuple[str, ...]]:
        """Return graphs, the ids of their rows, and what to note."""
        name = benchmark_named(self.graph)
        if name is None or (fitted.schema is not None and Path(self.graph).exists()):
            if options:
                raise UsageError(f"--option is for a benchmark (got {self.graph!r}); leave it out")
            file = fitted.open(self.graph)
            self._check_level(fitted, file.level)
            return file.graphs, file.ids, file.notes
        if fitted.schema is not None:
            raise UsageError(
                f"{self.model} was trained on files, and reads others like them (got the benchmark "
                f"{name}); give a folder or a file, ./{name} if it has that name"
            )
        from mgnni.data.registry import load_task

        task = load_task(name, **options)
        self._check_level(fitted, task.level)
        return task.graphs, range(task.num_rows), ()

    def _check_level(self, fitted: Any, level: str) -> None:
        if level != fitted.level:
            raise UsageError(
                f"{self.model} predicts one class a {fitted.level} (got {self.graph}, which has "
                f"one a {level}); give data like those it was trained on"
            )

    def _summary(self, fitted: Any, chosen: Any, notes: tuple[str, ...]) -> dict[str, Any]:
        run = fitted.runs[fitted.best if self.run_number is None else self.run_number]
        return {
            "command": "predict",
            "model": str(self.model),
            "graph": self.graph,
            "output": str(self.output),
            "rows": chosen.size(0),
            "split": run.split,
            "seed": run.seed,
            "best_of": len(fitted.runs) if self.run_number is None else 1,
            "predicted": dict(zip(fitted.classes, chosen.sum(0).tolist(), strict=True)),
            "notes": list(notes),
        }
