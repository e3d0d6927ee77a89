"""The tables of synthetic studies on chains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mgnni.reproduce.chain_length import KNOWN, LAST_DIGITS
from mgnni.reproduce.sheet import (
    Found,
    Sheet,
    changed_mark,
    ours,
    parts,
    published,
    state_notes,
    titled,
    value_of,
)
from mgnni.reproduce.store import Stored
from mgnni.reproduce.study import Cell, Row, Study

EXACTLY = f"solved to {LAST_DIGITS['tol']:.0e}"
WEIGHTED = ("distance", "weighted_majority")
# What is shown of a response: the title, the entries of the report, and the format.
RESPONSES = (
    ("largest eigenvalue of g(F)", ("eigenvalue",), "{:.3f}"),
    ("decay per hop", ("decay",), "{:.3f}"),
    ("last hop above 0, float32", ("ranges", "float32"), "{}"),
    ("last hop above 0, float64", ("ranges", "float64"), "{}"),
    ("last hop above 1e-6, exact", ("ranges", "exact"), "{}"),
    ("last hop above 1e-6, sound bound", ("ranges", "sound"), "{}"),
    ("last hop above 1e-6, printed (Corollary 1)", ("ranges", "printed"), "{}"),
    ("first hop above the printed bound (Theorem 1)", ("ranges", "exceeded"), "{}"),
)


def distance_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return accuracies by length of the chains, beside those of exact solves, and the reach.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        command (str): The command that trains the experiment.
    """
    sheets = []
    for group, names in parts(study).items():
        lines, reaches = [], []
        for row in study.rows:
            block = _accuracies(row, found, names)
            lines += titled(row.title, block)
            block = _reaches(row, found, names)
            reaches += titled(row.title, block)
        titles = [column.title for column in study.columns if column.name in names]
        sheets.append(Sheet(group, ["", "nodes of a chain", *titles], lines, left=2))
        if reaches:
            title = f"Reach in hops{f': {group}' if group else ''}"
            sheets.append(Sheet(title, ["", "nodes of a chain", *titles], reaches, left=2))
    notes = [
        "ours: test accuracy in percent, mean ± standard deviation over all splits and seeds.",
        f"ours, {EXACTLY}: the same weights, evaluated in float64 with this tolerance. If this row "
        "is better, the tolerance limits the range, not the model.",
        *_weighted_note(found),
        f"Reach: distance up to which at least {100 * KNOWN:.0f} % of the test nodes of all runs "
        "are right; none if the nearest nodes are not. Rows without any are left out. A single run "
        "that failed to train can lower it, even to none.",
        *state_notes(study, found, command),
    ]
    sheets[0] = replace(sheets[0], notes=notes)
    return sheets


def _weighted_note(found: Found) -> list[str]:
    if all(value_of(one.report, *WEIGHTED) is None for one in found.values()):
        return []
    return [
        "weighted majority: accuracy of predicting by the sign of the exact state, for the best "
        "single scale and an eigenvalue of one. In this state, nearer coloured nodes have larger "
        "weights. A trained model can be better near the coloured nodes, because it combines "
        "several scales and eigenvalues."
    ]


def _cells(row: Row, found: Found, names: Sequence[str]) -> list[tuple[Cell, Stored] | None]:
    """Return the cells of a row by column; None where it has none."""
    there = {cell.column.name: (cell, one) for cell, one in found.items() if cell.row is row}
    return [there.get(name) for name in names]


def _accuracies(row: Row, found: Found, names: Sequence[str]) -> list[list[str]]:
    cells = _cells(row, found, names)
    paper = ["" if cell is None else published(cell[0]) for cell in cells]
    own = ["" if cell is None else ours(cell[1], cell[0].rule) for cell in cells]
    values = [cell and value_of(cell[1].report, "distance", "exact", "score") for cell in cells]
    lines = [["paper", *paper]] if any(paper) else []
    lines += [["ours", *own]] if any(cells) else []
    if any(value is not None for value in values):
        shown = ["" if value is None else f"{100 * value:.2f}" for value in values]
        lines.append([f"ours, {EXACTLY}", *shown])
    values = [cell and value_of(cell[1].report, *WEIGHTED) for cell in cells]
    if any(value is not None for value in values):
        shown = ["" if value is None else f"{100 * value:.1f}" for value in values]
        lines.append(["weighted majority", *shown])
    return lines


def _reaches(row: Row, found: Found, names: Sequence[str]) -> list[list[str]]:
    cells = [cell and value_of(cell[1].report, "distance") for cell in _cells(row, found, names)]
    lines = []
    for title, path in (("ours", ("reach",)), (f"ours, {EXACTLY}", ("exact", "reach"))):
        known = [cell is not None and value_of(cell, *path[:-1]) is not None for cell in cells]
        shown = [value_of(cell, *path) for cell in cells]
        if any(hop is not None for hop in shown):
            lines.append(
                [
                    title,
                    *(
                        ("none" if hop is None else str(hop)) if there else ""
                        for hop, there in zip(shown, known, strict=True)
                    ),
                ]
            )
    return lines


def response_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return how far the masked node is seen; arguments as of :func:`distance_tables`."""
    lines = []
    names = [column.name for column in study.columns]
    for row in study.rows:
        cells = _cells(row, found, names)
        paper = [row.paper_hops.get(name) for name in names]
        block = []
        for title, path, form in RESPONSES:
            shown = [_response(cell, path, form) for cell in cells]
            block.append([title, *shown])
            if path == ("ranges", "float32") and any(paper):
                block.append(
                    ["numerically 0, paper", *("" if one is None else str(one) for one in paper)]
                )
        lines += titled(row.title, block)
    header = ["", "", *(column.title for column in study.columns)]
    return [Sheet("", header, lines, left=2, notes=tuple(state_notes(study, found, command)))]


def _response(cell: tuple[Cell, Stored] | None, path: Sequence[str], form: str) -> str:
    """Return a number of a response as text; empty if there is none."""
    value = None if cell is None else value_of(cell[1].report, "response", *path)
    if cell is None or value is None:
        return ""
    if path[-1] == "printed":  # the corollary says that hops are below this number
        value = math.ceil(value) - 1
    measured = path[-1] in ("float32", "float64", "exact")  # which end with the chain
    whole = measured and value == cell[0].options["length"] - 1
    return f"{'all ' * whole}{form.format(value)}{changed_mark(cell[1])}"
