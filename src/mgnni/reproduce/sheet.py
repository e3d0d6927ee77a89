"""Tables as plain text cells, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgnni.data.rules import get_rule
from mgnni.data.statistics import scores, summarize
from mgnni.reproduce.store import OTHER, Stored
from mgnni.reproduce.study import Cell, Study

NAMED = 10  # cells in a note
CHANGED = "*"  # after a number that was made with other settings
Found = Mapping[Cell, Stored]


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        title: Its title; may be empty.
        header: Titles of the columns.
        rows: Cells; all rows have the same length.
        left: Number of columns that hold text, from the left; the others hold numbers.
        notes: Sentences below the table.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """Return the table in Markdown, with its title in bold and its notes below."""
        align = ["---" if place < self.left else "---:" for place in range(len(self.header))]
        lines = [f"**{self.title}**", ""] if self.title else []
        for cells in (self.header, align, *self.rows):
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines += (
            ["", *(f"- {note.replace('*', '&#42;')}" for note in self.notes)] if self.notes else []
        )
        return "\n".join(lines) + "\n"


def percent(mean: float, std: float | None) -> str:
    """Return a score with its standard deviation."""
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def published(cell: Cell) -> str:
    """Return the number of the paper; empty if it has none."""
    found = cell.row.paper.get(cell.column.name)
    return percent(*found) if found else ""


def ours(stored: Stored, rule: str) -> str:
    """Return our score by a rule, with the mark of the rule; empty if there is none.

    Args:
        stored (Stored): The report of the cell.
        rule (str): Name of the rule.
    """
    if stored.report is None:
        return ""
    found = scores(stored.report, rule)
    if found:
        one = summarize(found)
        number = percent(one.mean, one.std)
    else:
        # Without curves, only the mean and the deviation of a rule over all runs are stored.
        known = stored.report.get("scores", {}).get(rule)
        if known is None:
            return ""
        number = percent(100 * known["mean"], known["std"] and 100 * known["std"])
    return f"{number}{get_rule(rule).mark}{changed_mark(stored)}"


def changed_mark(stored: Stored) -> str:
    """Return what follows a number that was made with other settings; otherwise nothing."""
    return CHANGED if stored.state == OTHER else ""


def titled(title: str, block: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the lines of a row of the table, the first of them with its title."""
    return [[title if not place else "", *line] for place, line in enumerate(block)]


def parts(study: Study) -> dict[str, list[str]]:
    """Return the names of the columns by the part of the table they are in."""
    found: dict[str, list[str]] = {}
    for column in study.columns:
        found.setdefault(column.group, []).append(column.name)
    return found


def state_notes(study: Study, found: Found, command: str) -> list[str]:
    """Return how to fill empty cells, and what differs in those that are out of date.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        command (str): The command that trains the experiment.
    """
    shown = {cell.row.name for cell in found}
    notes = [f"{row.title}: {row.note}" for row in study.rows if row.note and row.name in shown]
    notes += study.notes
    if any(one.report is None for one in found.values()):
        notes.append(f"Missing cells are trained by `{command}`; finished ones are kept.")
    changed = sorted(str(cell) for cell, one in found.items() if one.state == OTHER)
    if changed:
        some = ", ".join(changed[:NAMED]) + (" ..." if len(changed) > NAMED else "")
        notes.append(
            f"{CHANGED} made with other settings or fewer runs than the definition has now "
            f"({len(changed)}: {some}); `{command} --replace` trains them again, or adds the runs."
        )
    return notes


def value_of(report: Mapping[str, Any] | None, *path: str) -> Any:
    """Return an entry of a report; None if there is none."""
    found: Any = report
    for name in path:
        found = None if found is None else found.get(name)
    return found


def values_shown(found: Found, entry: str) -> list[tuple[Cell, Any]]:
    """Return the cells whose report has an entry, with its content.

    Args:
        found (Mapping[Cell, Stored]): Cells, and what is stored of them.
        entry (str): Name of the entry.
    """
    values = ((cell, value_of(one.report, entry)) for cell, one in found.items())
    return [(cell, value) for cell, value in values if value is not None]
