"""The tables of an experiment, beside the published numbers, from its stored reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mgnni.data.rules import DEFAULT_RULE, get_rule
from mgnni.data.statistics import CONFIDENCE, difference, ratio_of_rows, scores, summarize
from mgnni.models.catalog import MGNNI
from mgnni.reproduce.sheet import (
    CHANGED,
    Found,
    Sheet,
    changed_mark,
    ours,
    parts,
    percent,
    published,
    state_notes,
    titled,
    value_of,
)
from mgnni.reproduce.store import MISSING, Stored
from mgnni.reproduce.study import Cell, Row, Study

FEW = 20  # epochs below which "once" is within the fluctuation of their times
MEASURES = {"epoch": "s per epoch", "total": "s in total", "once": "s once, before"}


def accuracy_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return the scores, where the published numbers lie, and paired differences.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        command (str): The command that trains the experiment.
    """
    sheets = [_scores(study, found, group, names) for group, names in parts(study).items()]
    # Without numbers, a part of the table is left out; the first has those of the paper.
    sheets = [*sheets[:1], *(sheet for sheet in sheets[1:] if _has_numbers(sheet))]
    sheets += [*_places(found), *_differences(study, found)]
    rules = sorted({cell.rule for cell in found} | {*study.beside, DEFAULT_RULE})
    told = [f"{name}{get_rule(name).mark}: {get_rule(name).description}." for name in rules]
    runs = "ours: mean ± standard deviation over all splits and seeds, in percent."
    about = [runs, *told, *sheets[0].notes, *state_notes(study, found, command)]
    sheets[0] = replace(sheets[0], notes=about)
    return sheets


def _has_numbers(sheet: Sheet) -> bool:
    return any(cell for row in sheet.rows for cell in row[sheet.left :])


def _scores(study: Study, found: Found, group: str, names: Sequence[str]) -> Sheet:
    """Return one line per row for the paper, one by the rule of the row, and one per other rule.

    Rows without any number are named below the table.
    """
    columns = [one for one in study.columns if one.name in names]
    cells = {(cell.row.name, cell.column.name): cell for cell in found}
    lines, empty = [], []
    for row in study.rows:
        here = [cells.get((row.name, column.name)) for column in columns]
        paper = ["" if cell is None else published(cell) for cell in here]
        own = ["" if cell is None else ours(found[cell], cell.rule) for cell in here]
        if not any(paper) and not any(own):
            empty += [row.title] if any(cell is not None for cell in here) else []
            continue
        block = [["paper", *paper]] if any(paper) else []
        block.append(["ours", *own])
        shown = {cell.rule for cell in here if cell is not None}
        for rule in dict.fromkeys((study.rule, *study.beside, DEFAULT_RULE)):
            other = ["" if cell is None else ours(found[cell], rule) for cell in here]
            if any(other) and shown != {rule}:
                block.append([f"ours, {rule}", *other])
        lines += titled(row.title, block)
    notes = [f"Not trained yet: {'; '.join(empty)}."] if empty else []
    return Sheet(group, ["", "", *(column.title for column in columns)], lines, 2, notes)


def _places(found: Found) -> list[Sheet]:
    """Return where the published numbers lie among ours, for MGNNI also by validation."""
    lines = []
    for cell, one in found.items():
        number = cell.row.paper.get(cell.column.name)
        if not number or one.report is None:
            continue
        own = cell.row.architecture == MGNNI
        for rule in dict.fromkeys((cell.rule, DEFAULT_RULE if own else cell.rule)):
            values = scores(one.report, rule)
            if not values:
                continue
            summary = summarize(values)
            interval = ""
            if summary.low is not None and summary.high is not None:
                interval = f"{summary.low:.2f} to {summary.high:.2f}"
            seeds = sorted(summary.seeds.values())
            lines.append(
                [
                    cell.row.title,
                    cell.column.title,
                    rule + get_rule(rule).mark,
                    percent(*number),
                    f"{summary.mean:.2f}{changed_mark(one)}",
                    interval,
                    " ".join(f"{value:.1f}" for value in seeds),
                    summary.place(number[0]) or "no interval",
                ]
            )
    if not lines:
        return []
    header = ["", "", "rule", "paper", "ours", f"{100 * CONFIDENCE:.0f} % interval"]
    return [
        Sheet(
            "Where the published numbers lie",
            [*header, "single seeds", "published number"],
            lines,
            left=3,
            notes=(
                "The interval is that of the mean over splits, after averaging over seeds. Data "
                "with one split have none.",
            ),
        )
    ]


def _differences(study: Study, found: Found) -> list[Sheet]:
    """Return the paired differences between the reference row and the others."""
    cells = {(cell.row.name, cell.column.name): cell for cell in found}
    titles = {row.name: row.title for row in study.rows}
    sheets = []
    for names in parts(study).values():
        columns = [one for one in study.columns if one.name in names]
        lines = []
        for row in study.rows:
            first = row.reference or study.reference
            pairs = [
                (cells.get((first, one.name)), cells.get((row.name, one.name))) for one in columns
            ]
            here = [_difference(found, *pair) for pair in pairs]
            if row.name != first and any(here):
                lines.append([f"{titles[first]} − {row.title}", *here])
        if lines:
            sheets.append(Sheet("Paired differences", ["", *(one.title for one in columns)], lines))
    note = (
        f"Points, with {100 * CONFIDENCE:.0f} % intervals of a paired t-test over splits, corrected"
        f" for shared training data. Scores are those of the rule {DEFAULT_RULE}, where available. "
        f"Bold: the interval does not contain 0, and neither row is marked {CHANGED}, for other "
        "settings or fewer runs. The intervals are not corrected for their number."
    )
    return [*sheets[:-1], replace(sheets[-1], notes=[note])] if sheets else []


def _difference(found: Found, reference: Cell | None, other: Cell | None) -> str:
    if reference is None or other is None:
        return ""
    ours, others = found[reference].report, found[other].report
    if ours is None or others is None:
        return ""
    changed = changed_mark(found[reference]) or changed_mark(found[other])
    for rule in (DEFAULT_RULE, reference.rule):
        a, b = scores(ours, rule), scores(others, rule)
        if a and b:
            one = difference(a, b, ratio_of_rows([ours, others], a.keys() & b.keys()))
            if one is None:
                return ""
            sure = "**" if not changed and (one.low > 0 or one.high < 0) else ""
            number = f"{sure}{one.difference:+.1f}{sure}{get_rule(rule).mark}{changed}"
            return f"{number} [{one.low:+.1f}, {one.high:+.1f}]"
    return ""


def seconds_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return times beside the published ones; arguments as of :func:`accuracy_tables`."""
    lines = []
    for row in study.rows:
        block = [
            line
            for place, measure in enumerate(study.measures)
            for line in _times(study, row, found, place, measure)
        ]
        lines += titled(row.title, block)
    devices = sorted({one.report["device"] for one in found.values() if one.report})
    notes = [f"Measured on {', '.join(devices)}."] if devices else []
    notes += state_notes(study, found, command)
    header = ["", "", *(column.title for column in study.columns)]
    return [Sheet("", header, lines, left=2, notes=tuple(notes))]


def _times(study: Study, row: Row, found: Found, place: int, measure: str) -> list[list[str]]:
    cells = {cell.column.name: cell for cell in found if cell.row.name == row.name}
    paper, own = [], []
    for column in study.columns:
        number = row.paper_seconds.get(column.name)
        paper.append("" if not number or number[place] is None else f"{number[place]:g}")
        one = found[cells[column.name]] if column.name in cells else Stored(MISSING)
        taken = value_of(one.report, "timing", measure)
        if measure == "once" and one.report and one.report["runs"][0]["epochs"] < FEW:
            taken = None
        own.append("" if taken is None else f"{taken:.3g}{changed_mark(one)}")
    lines = [[f"{MEASURES[measure]}, paper", *paper]] if any(paper) else []
    return [*lines, [f"{MEASURES[measure]}, ours", *own]]


def attention_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return mean and range of the weight of each scale; as :func:`accuracy_tables`."""
    lines = []
    for cell, one in found.items():
        shown = value_of(one.report, "attention_values")
        for place, scale in enumerate(shown["scales"] if shown else ()):
            weights = [row[place] for row in shown["weights"]]
            title = f"{cell.row.title}, {cell.column.title}" if not place else ""
            span = f"{min(weights):.2f} to {max(weights):.2f}"
            mean = f"{shown['mean'][place]:.2f}{changed_mark(one)}"
            lines.append([title, str(scale), mean, span])
        if not shown:
            lines.append([f"{cell.row.title}, {cell.column.title}", "", "", ""])
    header = ["", "scale", "mean over all nodes", "100 nodes"]
    return [Sheet("", header, lines, notes=tuple(state_notes(study, found, command)))]
