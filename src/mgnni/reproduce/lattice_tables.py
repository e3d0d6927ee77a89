"""The table and the figure of errors on the lattice; the figure needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import IO, TYPE_CHECKING, Any

from mgnni.figures import COLORS, FAINT, INK, new_figure, plain_axes
from mgnni.reproduce.lattice_error import FRESH, THETA, needed
from mgnni.reproduce.sheet import Found, Sheet, changed_mark, state_notes, value_of, values_shown
from mgnni.reproduce.study import Cell, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vP"
Shown = Sequence[tuple[Cell, dict[str, Any]]]


def lattice_tables(study: Study, found: Found, command: str) -> list[Sheet]:
    """Return errors, ranges, and the hops that an error needs, one row per model.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        command (str): The command that trains the experiment.
    """
    lines = []
    for row in study.rows:
        cells = {cell.column.name: one for cell, one in found.items() if cell.row is row}
        line = [row.title]
        for column in study.columns:
            one = cells.get(column.name)
            values = None if one is None else value_of(one.report, "lattice")
            line += ["", ""] if one is None or values is None else _texts(values, changed_mark(one))
        lines.append(line)
    header = [""]
    for column in study.columns:
        header += [f"{column.title}: error", "hops: range, needed"]
    notes = [
        f"error: misclassified nodes of {FRESH} new lattices, in percent.",
        f"range: the longest distance with an influence above {100 * THETA:.0f} % of the largest.",
        "needed: the smallest number of hops with which this error is possible, by the formula in "
        "the text.",
        *state_notes(study, found, command),
    ]
    return [Sheet("", header, lines, notes=notes)]


def _texts(values: dict[str, Any], mark: str) -> list[str]:
    errors = [100 * one for one in values["error"]]
    text = f"{fmean(errors):.1f}"
    if len(errors) > 1:
        text += f" ± {stdev(errors):.1f}"
    hops = needed(fmean(values["error"]), values["best"])
    return [text + mark, f"{fmean(values['range']):.0f}, {hops}"]


def lattice_figure(study: Study, found: Found, file: IO[bytes]) -> bool:
    """Draw the error against the range as a PNG, one panel per column.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        file (IO[bytes]): Where to write.

    Returns:
        bool: Whether there was something to draw.
    """
    shown = values_shown(found, "lattice")
    if not shown:
        return False
    columns = [one for one in study.columns if any(cell.column is one for cell, _ in shown)]
    figure = new_figure(3.6 * len(columns) + 0.6, 4.6, dpi=170)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        _panel(axes, study, [one for one in shown if one[0].column is column])
        axes.set_title(column.title, size=10, color=INK, loc="left")
    panels[0].set_ylabel("error on new lattices, in percent", size=9, color=FAINT)
    handles, _ = panels[0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, format="png")
    return True


def _panel(axes: Axes, study: Study, shown: Shown) -> None:
    """Draw the models of a column, and the errors that are impossible."""
    best = [100 * one for one in shown[0][1]["best"]]
    hops = list(range(1, len(best)))
    axes.fill_between(hops, 0, best[1:], color="#ededed", linewidth=0)
    axes.plot(
        hops, best[1:], color=FAINT, lw=1.5, label="smallest error of a model that sees r hops"
    )
    models = list(dict.fromkeys(row.architecture for row in study.rows))
    for cell, values in shown:
        place = models.index(cell.row.architecture)
        same = [row.name for row in study.rows if row.architecture == cell.row.architecture]
        # From hollow to full in the order of the rows.
        strength = same.index(cell.row.name) / max(len(same) - 1, 1)
        axes.plot(
            max(fmean(values["range"]), 1),
            100 * fmean(values["error"]),
            MARKERS[place],
            ms=8,
            color=(COLORS[place], strength),
            mec=COLORS[place],
            label=cell.row.title,
        )
    axes.set_xscale("log", base=2)
    ticks = [tick for tick in (1, 2, 4, 8, 16, 32, 64) if tick <= len(best)]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(0, 50)
    axes.set_xlabel("range, in hops", size=9, color=FAINT)
    plain_axes(axes, size=8)
