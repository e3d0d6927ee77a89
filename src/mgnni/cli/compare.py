"""``mgnni compare``: trainings on the same data, with paired differences."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgnni.cli.arguments import Command, UsageError
from mgnni.data.metric_names import LOWER_IS_BETTER, unit
from mgnni.data.rules import DEFAULT_RULE, RULES
from mgnni.files import to_json

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

    percent = bool(unit(found.metric))
    what = f"test {found.metric}{' in %' * percent}{'' if percent else _better(found.metric)}"
    console.print(f"{found.dataset}: {what}, by rule {found.rule}", style="bold")
    means = table("training", "model", "runs", "mean ± deviation", "95 % interval", left=2)
    for name, one in found.summaries.items():
        means.add_row(name, found.models[name], *_cells(one, found.mark, percent))
    console.print(means)
    pairs = table(
        "difference",
        "points" if percent else found.metric,
        "95 % interval",
        "p",
        "wins / ties / losses",
    )
    for pair in found.pairs:
        pairs.add_row(f"{pair.a} − {pair.b}", *_difference(pair, percent))
    console.print(pairs)
    over_splits = any(pair.over == "splits" for pair in found.pairs)
    paragraph(
        console,
        "Intervals of differences are those of a paired t-test"
        + (", corrected for training data that splits share." if over_splits else "."),
        style="dim",
    )
    for note in [*([f"{found.mark} {TEST_LABELS_USED}"] if found.mark else []), *found.notes]:
        paragraph(console, note if note.startswith("warning") else f"note: {note}", style="dim")


def _better(metric: str) -> str:
    return f" ({'lower' if metric in LOWER_IS_BETTER else 'higher'} is better)"


def _cells(one: Summary, mark: str, percent: bool) -> tuple[str, str, str]:
    form = ".2f" if percent else ".4g"
    deviation = "" if one.std is None else f" ± {one.std:{form if percent else '.2g'}}"
    interval = "–" if one.low is None else f"{one.low:{form}} to {one.high:{form}}"
    runs = f"{one.splits} × {len(one.seeds)}" if len(one.seeds) > 1 else f"{one.splits}"
    return runs, f"{one.mean:{form}}{deviation}{mark}", interval


def _difference(pair: Pair, percent: bool) -> tuple[str, str, str, str]:
    one = pair.difference
    if one is None:
        return "–", "one common run", "", ""
    counts, form = f"{one.wins} / {one.ties} / {one.losses}", "+.2f" if percent else "+.3g"
    interval = f"{one.low:{form}} to {one.high:{form}}"
    return f"{one.difference:{form}}", interval, f"{one.p_value:.2g}", counts
