"""The figure of accuracy against the length of chains; it needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from mgnni.data.statistics import scores, summarize
from mgnni.figures import FAINT, INK, OTHERS, new_figure, plain_axes
from mgnni.reproduce.chain_length import LAST_DIGITS
from mgnni.reproduce.sheet import Found, parts, value_of
from mgnni.reproduce.study import Row, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

SEEN = 2.0  # points; a dotted line closer than this to its solid one is not drawn
GAP = 0.047  # between two names in the margin, relative to the height
# Colours of Okabe and Ito by row; explicit models are grey, because their curves coincide.
COLORS = {
    "mgnni-1-4-8": "#0072b2",
    "mgnni-1-4-8-99": "#e69f00",
    "mgnni-1-2-3": "#56b4e9",
    "mgnni-1": "#1b2a49",
    "eignn": "#d55e00",
    "eignn-published": "#e69f00",
    "ignn": "#009e73",
    "cgs": "#cc79a7",
}
MARKERS = "sD^v<>PX"


@dataclass
class Curve:
    """The accuracy of a row in percent, by length of the chains."""

    row: Row
    length: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    paper: list[tuple[int, float]] = field(default_factory=list)
    runs: int = 0


def length_figure(study: Study, found: Found, file: IO[bytes]) -> bool:
    """Draw accuracy against length as a PNG, one curve per row and one panel per part.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        file (IO[bytes]): Where to write.

    Returns:
        bool: Whether there was something to draw.
    """
    groups = {group: _curves(study, found, names) for group, names in parts(study).items()}
    groups = {group: curves for group, curves in groups.items() if curves}
    if not groups:
        return False
    figure = new_figure(8.2, 4.8 * len(groups), layout=None)
    panels = figure.subfigures(len(groups), 1, squeeze=False)[:, 0]
    for panel, (group, curves) in zip(panels, groups.items(), strict=True):
        _panel(panel, study.title, group, curves)
    figure.savefig(file, format="png")
    return True


def _curves(study: Study, found: Found, names: Sequence[str]) -> list[Curve]:
    curves = {row.name: Curve(row) for row in study.rows}
    for cell, one in found.items():  # by column, so lengths are in order
        if cell.column.name not in names:
            continue
        curve, length = curves[cell.row.name], int(cell.options["length"])
        if cell.column.name in cell.row.paper:
            curve.paper.append((length, cell.row.paper[cell.column.name][0]))
        values = None if one.report is None else scores(one.report, cell.rule)
        if not values:
            continue
        score = summarize(values)
        exact = value_of(one.report, "distance", "exact", "score")
        curve.length.append(length)
        curve.mean.append(score.mean)
        curve.std.append(score.std or 0.0)
        curve.exact.append(score.mean if exact is None else 100 * exact)
        curve.runs = len(values)
    return [curve for curve in curves.values() if curve.length]


def _panel(panel: SubFigure, title: str, group: str, curves: Sequence[Curve]) -> None:
    axes = panel.subplots()
    panel.subplots_adjust(left=0.095, right=0.69, top=0.845, bottom=0.16)
    looks = {curve.row.name: _look(curve.row, place) for place, curve in enumerate(curves)}
    dotted = [_draw(axes, curve, looks[curve.row.name]) for curve in curves]
    runs = max(curve.runs for curve in curves)
    told = [f"Bands: standard deviation of {runs} runs."] if runs > 1 else []
    if any(dotted):
        digits = f"{LAST_DIGITS['tol']:.0e}"
        told.append(f"Dotted: the same weights, solved in float64 to {digits}.")
    if any(curve.paper for curve in curves):
        told.append("Rings: the paper.")
    panel.text(0.095, 0.025, " ".join(told), size=8.5, color=FAINT)
    _frame(axes, curves)
    _labels(axes, curves, looks)
    panel.text(0.095, 0.935, title, size=13, weight="bold", color=INK)
    panel.text(0.095, 0.883, group or "Mean test accuracy", size=9, color=FAINT)


def _draw(axes: Axes, curve: Curve, look: tuple[str, str, float]) -> bool:
    """Draw the mean with its band, and dotted the same weights solved exactly if that differs."""
    color, marker, width = look
    x, mean = curve.length, curve.mean
    if curve.row.name in COLORS:
        low = [one - std for one, std in zip(mean, curve.std, strict=True)]
        high = [min(one + std, 100.0) for one, std in zip(mean, curve.std, strict=True)]
        axes.fill_between(x, low, high, color=color, alpha=0.14, linewidth=0)
        for length, value in curve.paper:
            axes.plot(length, value, "o", ms=9, mfc="none", mec=color, mew=0.8, zorder=5)
    dotted = max(abs(a - b) for a, b in zip(mean, curve.exact, strict=True)) >= SEEN
    if dotted:
        axes.plot(x, curve.exact, color=color, linewidth=1.4, linestyle=(0, (1, 1.6)), zorder=3)
    # Of curves that coincide, the thinner one is on top.
    axes.plot(x, mean, color=color, marker=marker, ms=2 + width, lw=width, zorder=4 - width / 4)
    return dotted


def _look(row: Row, place: int) -> tuple[str, str, float]:
    """Return colour, marker and width of a curve; explicit models differ only by marker."""
    if row.name in COLORS:
        return COLORS[row.name], "o", 3.2 if row.name.startswith("eignn") else 2.0
    return OTHERS, MARKERS[place % len(MARKERS)], 1.2


def _frame(axes: Axes, curves: Sequence[Curve]) -> None:
    lengths = sorted({length for curve in curves for length in curve.length})
    room = 0.02 * (lengths[-1] - lengths[0] or 1)
    bottom = max(min(42.0, min(min(curve.mean) for curve in curves) - 5), -3.0)
    axes.set_xlim(lengths[0] - room, lengths[-1] + room)
    axes.set_ylim(bottom, 103)
    ticks = [tick for tick in range(0, 101, 10) if tick > bottom + 3]
    axes.set_yticks(ticks, [f"{tick} %" for tick in ticks])
    axes.set_xticks(lengths)
    axes.set_xlabel("Nodes of a chain", size=10, color=INK)
    axes.set_ylabel("Test accuracy", size=10, color=INK)
    plain_axes(axes, "y")
    axes.axhline(50, color=FAINT, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        "chance", (lengths[0], 50), (0, -4), textcoords="offset points", va="top", size=9,
        color=FAINT,
    )  # fmt: skip


def _labels(
    axes: Axes, curves: Sequence[Curve], looks: Mapping[str, tuple[str, str, float]]
) -> None:
    """Name every curve in the margin at its end; names that would overlap are moved."""
    bottom, top = axes.get_ylim()
    ordered = sorted(curves, key=lambda curve: -curve.mean[-1])
    gap = GAP * (top - bottom)
    y = [curve.mean[-1] for curve in ordered]
    for place in range(1, len(y)):
        y[place] = min(y[place], y[place - 1] - gap)
    below = bottom - y[-1] + gap / 2  # too many at the bottom: all are pushed up
    for place in reversed(range(len(y))):
        floor = y[place + 1] + gap if place + 1 < len(y) else bottom + gap / 2
        y[place] = max(y[place], floor) if below > 0 else y[place]
    margin = axes.get_yaxis_transform()
    longest = max(curve.length[-1] for curve in curves)
    for curve, level in zip(ordered, y, strict=True):
        name, end = curve.row.name, curve.mean[-1]
        color, marker, _ = looks[name]
        point = axes.transData.transform((curve.length[-1], end))
        start = axes.transAxes.inverted().transform(point)[0]
        ends = curve.length[-1] < longest  # a line to its name would look like its continuation
        if not ends:
            line = [start, 1.03], [end, level]
            axes.plot(*line, transform=margin, color=color, lw=0.6, clip_on=False)
        axes.plot(1.03, level, marker, ms=4, transform=margin, color=color, clip_on=False)
        axes.annotate(
            f"{curve.row.title}  {end:.0f} %{f', {curve.length[-1]} nodes' if ends else ''}",
            (1.03, level),
            (7, 0),
            xycoords=margin,
            textcoords="offset points",
            va="center",
            size=8.5,
            weight="bold" if name in COLORS else "normal",
            color=color if name in COLORS else FAINT,
        )
