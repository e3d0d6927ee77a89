"""``mgnni predict``: a trained model and a graph in, a table of predictions out."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mgnni.cli.errors import UsageError
from mgnni.data.catalog import ENTRIES

if TYPE_CHECKING:
    PathName = Path
    DataName = str
else:
    try:
        from tyro.conf import Positional, arg

        PathName = Annotated[Positional[Path], arg(metavar="MODEL")]
        DataName = Annotated[Positional[str], arg(metavar="GRAPH")]
    except ImportError:  # `main` says so, when a command is called
        PathName, DataName = Path, str


@dataclass(frozen=True)
class Predict:
    """Predict with a trained model.

    MODEL is the folder of a training, or its model.pt. GRAPH is what mgnni train takes: files
    are read as those of the training were, labels are not needed. Writes one row for each node,
    or graph, in the order of the file: id, prediction, probability of each class, and how much
    each scale counted.

    Example: mgnni predict runs/topics new-graph/ --output topics.csv
    """

    model: PathName
    """Folder of a training, or a model file."""
    graph: DataName
    """Benchmark, folder or file."""
    output: Path = Path("predictions.csv")
    """Table to write: .csv or .parquet."""
    run_number: int | None = None
    """Which of the runs predicts, from 0; none: the one best on validation."""
    overwrite: bool = False
    """Replace a table of that name."""
    json: bool = False
    """Print a summary as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Read, predict, write."""
        from mgnni.data.tables.predictions import check_target, write_predictions
        from mgnni.train.fitted import Fitted

        check_target(self.output, self.overwrite)
        if not self.output.parent.is_dir():
            raise UsageError(
                f"--output must be in a folder that exists (got {str(self.output)!r}); make "
                f"{str(self.output.parent)!r}, or choose another"
            )
        fitted = Fitted.load(self.model)
        graphs, ids, notes = self._graphs(fitted)
        probability, attention = fitted.explain(graphs, self.run_number)
        write_predictions(
            self.output,
            ids,
            fitted.classes,
            probability,
            attention,
            fitted.config.model.scales,
            multilabel=fitted.multilabel,
            overwrite=self.overwrite,
        )
        self._show(fitted, probability, notes)

    def _graphs(self, fitted: Any) -> tuple[Any, Any, tuple[str, ...]]:
        plain = self.graph.lower().replace("_", "-")
        if plain in ENTRIES and fitted.schema is None:
            from mgnni.data.registry import load_task

            task = load_task(plain)
            return task.graphs, range(task.num_rows), ()
        file = fitted.open(self.graph)
        if file.level != fitted.level:
            raise UsageError(
                f"the model predicts one class a {fitted.level} (got data for one a {file.level}); "
                "give data like those it was trained on"
            )
        return file.graphs, file.ids, file.notes

    def _show(self, fitted: Any, probability: Any, notes: tuple[str, ...]) -> None:
        from rich.console import Console

        from mgnni.train.report import to_json

        run = fitted.runs[fitted.best if self.run_number is None else self.run_number]
        if fitted.multilabel:
            counts = (probability >= 0.5).sum(0).tolist()
        else:
            found = Counter(probability.argmax(1).tolist())
            counts = [found.get(index, 0) for index in range(len(fitted.classes))]
        summary = {
            "command": "predict",
            "model": str(self.model),
            "graph": self.graph,
            "output": str(self.output),
            "rows": probability.size(0),
            "split": run.split,
            "seed": run.seed,
            "predicted": dict(zip(fitted.classes, counts, strict=True)),
            "notes": list(notes),
        }
        if self.json:
            sys.stdout.write(to_json(summary))
            return
        console = Console(highlight=False)
        console.print(
            f"  {probability.size(0)} rows in {self.output}, by the model of split {run.split}, "
            f"seed {run.seed}",
            soft_wrap=True,
        )
        for name, count in summary["predicted"].items():
            console.print(f"    {count:8d}  {name}", markup=False, soft_wrap=True)
        for note in notes:
            console.print(f"  note: {note}", markup=False, style="dim", soft_wrap=True)
