"""``mgnni compare``: trainings on the same data, with paired differences."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgnni.cli.arguments import Command, UsageError
from mgnni.data.rules import DEFAULT_RULE, RULES

if TYPE_CHECKING:
    from mgnni.data.statistics import Summary
    from mgnni.train.comparison import ComparedRuns, Pair


@dataclass(frozen=True, kw_only=True)
class Compare(Command):
    """Compare trainings on the same data.

    RUNS are output folders of mgnni train, folders that hold such folders, or report.json files,
    all on the same data and splits. The result is the mean ± standard deviation of each with the
    95 % interval of its mean, and the difference of every two of them over common splits and seeds,
    with an interval that is corrected for the training data that splits share.

    Example: mgnni compare runs/texas runs/texas-gcn
    Example: mgnni compare runs/first runs/second --json
    """

    runs: tuple[Path, ...] = field(
        default=(), metadata={"metavar": "RUNS", "positional": True, "unset": ""}
    )
    """Folders of trainings."""
    rule: str = field(default=DEFAULT_RULE, metadata={"choices": tuple(RULES)})
    """How epochs were chosen. Trainings have scores by their own rule and by validation."""

    def run(self) -> None:
        """Read the reports, compare and print."""
        if not self.runs:
            raise UsageError(
                "RUNS must be at least two folders (got none), for example: mgnni compare "
                "runs/texas runs/texas-gcn"
            )
        # Imported late because they are slow to import.
        from mgnni.html_report.results import read_results
        from mgnni.train.comparison import compare_runs
        from mgnni.train.report import to_json

        reports = {}
        for path in self.runs:
            for one in read_results([path]):
                reports[str(path if path.is_file() else one.folder)] = one.report
        found = compare_runs(reports, self.rule)
        if self.json:
            sys.stdout.write(to_json({"command": "compare", **vars(found)}))
        else:
            show(found)


def show(found: ComparedRuns) -> None:
    """Print the trainings, then their differences."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from mgnni.cli.terminal import TEST_LABELS_USED, console_for, paragraph

    console = console_for(100)

    def table(*columns: str, left: int = 1) -> Any:
        made = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for place, name in enumerate(columns):
            made.add_column(name, justify="left" if place < left else "right", overflow="fold")
        return made

    console.print(f"{found.dataset}: test {found.metric} in %, by rule {found.rule}", style="bold")
    means = table("training", "model", "runs", "mean ± deviation", "95 % interval", left=2)
    for name, one in found.summaries.items():
        means.add_row(name, found.models[name], *_cells(one, found.mark))
    console.print(means)
    pairs = table("difference", "points", "95 % interval", "p", "wins / ties / losses")
    for pair in found.pairs:
        pairs.add_row(f"{pair.a} − {pair.b}", *_difference(pair))
    console.print(pairs)
    paragraph(
        console,
        "Intervals of differences are those of a paired t-test, corrected for training data that "
        "splits share.",
        style="dim",
    )
    for note in [*([f"{found.mark} {TEST_LABELS_USED}"] if found.mark else []), *found.notes]:
        paragraph(console, note if note.startswith("warning") else f"note: {note}", style="dim")


def _cells(one: Summary, mark: str) -> tuple[str, str, str]:
    deviation = "" if one.std is None else f" ± {one.std:.2f}"
    interval = "–" if one.low is None else f"{one.low:.2f} to {one.high:.2f}"
    runs = f"{one.splits} × {len(one.seeds)}" if len(one.seeds) > 1 else f"{one.splits}"
    return runs, f"{one.mean:.2f}{deviation}{mark}", interval


def _difference(pair: Pair) -> tuple[str, str, str, str]:
    one = pair.difference
    if one is None:
        return "–", "one common run", "", ""
    counts = f"{one.wins} / {one.ties} / {one.losses}"
    interval = f"{one.low:+.2f} to {one.high:+.2f}"
    return f"{one.difference:+.2f}", interval, f"{one.p_value:.2g}", counts
