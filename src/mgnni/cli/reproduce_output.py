"""Progress and tables of ``mgnni reproduce``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from mgnni.cli.progress import follow_training
from mgnni.cli.terminal import console_for, paragraph, span
from mgnni.errors import MgnniError
from mgnni.reproduce.more_runs import to_train
from mgnni.reproduce.overview import by_study, draw, status, tables
from mgnni.reproduce.run import Outcome, Pace
from mgnni.reproduce.sheet import Sheet, ours
from mgnni.reproduce.store import DONE, Stored
from mgnni.reproduce.study import Cell, Study
from mgnni.train.training import OnEpoch

WIDEST_NAME = 20  # characters of a column of names, which are wrapped


class Progress:
    """Prints a line per finished cell on standard error, with the time that is left.

    Args:
        found (Mapping[Cell, Stored]): All cells, and what is stored of them.
        missing (Sequence[Cell]): The cells to train.
        jobs (int, optional): Number of trainings at the same time, in other processes; with
            :obj:`None`, this process follows one after another.
    """

    def __init__(
        self, found: Mapping[Cell, Stored], missing: Sequence[Cell], jobs: int | None
    ) -> None:
        self.total, self.jobs = len(missing), jobs
        self.left = {cell: to_train(cell, found[cell]) for cell in missing}
        self.pace = Pace(jobs or 1)
        for cell, one in found.items():
            if one.report is not None:
                self.pace.add(cell, one.report)
        self.console = Console(stderr=True, highlight=False, markup=False)
        kept = len(found) - len(missing)
        if kept:
            self.console.print(f"{kept} of {len(found)} trainings are stored already")
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if self.jobs is not None and self.total and self.console.is_terminal:
            self._bar = Bar(
                TextColumn("  trainings"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[state]}"),
                console=self.console,
                transient=True,
            )
            self._bar.add_task("", total=self.total, state=self._state())
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def follow(self, cell: Cell) -> Iterator[OnEpoch]:
        """Show the epochs of a cell that this process trains."""
        cell = self.left[cell]
        try:
            config = cell.config()
        except MgnniError:  # which is the outcome of the cell
            yield lambda epoch: None
            return
        with follow_training(
            cell.number_of_runs, config.epochs, config.patience, str(cell)
        ) as clock:
            yield clock

    def show(self, outcome: Outcome) -> None:
        """Print a finished cell."""
        cell = outcome.cell
        del self.left[cell]
        if outcome.report is not None:
            self.pace.add(cell, outcome.report)
        result = f"failed: {outcome.error}"
        if outcome.report is not None:
            result = ours(Stored(DONE, outcome.report), cell.rule)
        done = f"{self.total - len(self.left)}/{self.total}"
        parts = [f"{done}  {cell}  {result}  {span(outcome.seconds)}", self._state()]
        self.console.print(", ".join(part for part in parts if part), soft_wrap=True)
        if self._bar is not None:
            bar = self._bar.task_ids[0]
            self._bar.update(bar, completed=self.total - len(self.left), state=self._state())

    def _state(self) -> str:
        seconds = self.pace.left(list(self.left.values()))
        return "" if not self.left or seconds is None else f"about {span(seconds)} left"


def show_studies(found: Mapping[Cell, Stored], output: Path, *, quick: bool) -> None:
    """Print the tables of all experiments.

    Args:
        found (Mapping[Cell, Stored]): Cells, and what is stored of them.
        output (Path): Folder of all experiments.
        quick (bool): Whether it is the quick version.
    """
    console, studies = console_for(120), by_study(list(found))
    for cells in studies.values():
        study = cells[0].study.only(
            [cell.row.name for cell in cells], [cell.column.name for cell in cells]
        )
        label = "; quick: the numbers mean nothing" if quick else ""
        console.print(f"\n{study.title} ({study.paper}){label}", style="bold", soft_wrap=True)
        sheets = tables(study, {cell: found[cell] for cell in cells}, output)
        for sheet in sheets[:1] if quick else sheets:
            show_sheet(console, sheet)
        figure = _figure(cells[0].study, output, quick)
        if figure:
            console.print(f"  {figure}", soft_wrap=True)
    if len(studies) > 1 and not quick:
        console.print("\nAll experiments", style="bold")
        show_sheet(console, status(found))


def _figure(study: Study, output: Path, quick: bool) -> str:
    try:
        path = draw(study, output, quick=quick)
    except ImportError:
        return "The figure needs matplotlib; run: pip install 'mgnni[cli]'"
    except OSError as error:
        return f"Figure: not written ({(error.strerror or str(error)).lower()})"
    return "" if path is None else f"Figure: {path}"


def show_sheet(console: Console, sheet: Sheet) -> None:
    """Print a table, in several parts if it is too wide; bold cells are those of Markdown."""
    if sheet.title:
        console.print(f"\n{sheet.title}", soft_wrap=True)
    for columns in _parts(sheet, console.width):
        console.print(_table(sheet, columns))
    for note in sheet.notes:
        paragraph(console, note.replace("`", ""), style="dim")


def _parts(sheet: Sheet, width: int) -> list[range]:
    """Return the columns of each part, such that numbers fit into one line."""
    lines = [sheet.header, *sheet.rows]
    widths = [max(len(_plain(line[place])) for line in lines) + 2 for place in range(len(lines[0]))]
    room = width - sum(min(one, WIDEST_NAME) for one in widths[: sheet.left])
    columns = range(sheet.left, len(widths))
    parts = [columns]
    for count in range(1, len(columns) + 1):
        size = -(-len(columns) // count)
        parts = [columns[start : start + size] for start in range(0, len(columns), size)]
        if all(sum(widths[place] for place in part) <= room for part in parts):
            break
    return parts


def _table(sheet: Sheet, columns: Sequence[int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for place in (*range(sheet.left), *columns):
        justify: JustifyMethod = "left" if place < sheet.left else "right"
        # A column that is too wide even on its own is wrapped.
        table.add_column(
            sheet.header[place], justify=justify, no_wrap=place >= sheet.left and len(columns) > 1
        )
    blocks = not all(row[0] for row in sheet.rows)  # some titles are for several lines
    for place, row in enumerate(sheet.rows):
        if place and row[0] and blocks:
            table.add_section()
        style = "dim" if row[1] == "paper" else ""
        shown = (*row[: sheet.left], *(row[one] for one in columns))
        table.add_row(*(_text(cell, style) for cell in shown))
    return table


def _plain(cell: str) -> str:
    return cell.replace("**", "")


def _text(cell: str, style: str) -> Text:
    return Text(_plain(cell), "bold" if "**" in cell else style)
