"""The pictures of ``mgnni bench``: bars of epochs, and curves of growth."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mgnni.bench.row import RIGHT
from mgnni.cli.bench_screen import duration
from mgnni.cli.palette import MODELS

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word on font caches

INK, FAINT, OTHERS = "#222222", "#6b6b6b", "#b5b5b5"
RIVAL, OURS = MODELS
AXES = {
    "edges": "edges",
    "width": "channels",
    "gamma": "1 / (1 − γ)",
    "scales": "scales, {1}, {1, 2}, …",
}


def draw_epoch(table: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw one panel a case, one bar a method."""
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for row in table["rows"]:
        if row["verdict"] == RIGHT and row["seconds"] is not None:
            cases.setdefault(row["case"], []).append(row)
    height = 0.9 + sum(0.5 + 0.27 * len(rows) for rows in cases.values())
    figure = Figure(figsize=(7.6, height), dpi=200, facecolor="white", layout="constrained")
    ratios = [len(rows) for rows in cases.values()] or [1]
    panels = figure.subplots(
        max(len(cases), 1), 1, squeeze=False, gridspec_kw={"height_ratios": ratios}
    )
    for axes, (case, rows) in zip(panels[:, 0], cases.items(), strict=False):
        _bars(axes, case, rows)
    title = f"{table['title']}; {table['device']}"
    figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold", color=INK)
    figure.savefig(file, format="png")


def _bars(axes: Axes, case: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [row["method"] for row in rows]
    times = [row["seconds"] for row in rows]
    colors = [
        OURS if name.startswith("mgnni") else RIVAL if "textbook" in name else OTHERS
        for name in names
    ]
    axes.barh(range(len(rows)), times, color=colors, height=0.72)
    axes.set_xlim(0, 1.4 * max(times))
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_title(case, loc="left", size=10, color=INK)
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    for place, row in enumerate(rows):
        told = duration(row["seconds"])
        if row["ratio"] and names[place] != "textbook":
            told += f"  {row['ratio']:.1f} ×"
        if row["note"].startswith("all "):  # more than the others did in their times
            told += f"  ({row['note']})"
        axes.annotate(
            told,
            (row["seconds"], place),
            (4, 0),
            textcoords="offset points",
            va="center",
            size=8.5,
            color=FAINT,
        )


def draw_scaling(table: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw time against edges, width, contraction and scales, one panel each."""
    figure = Figure(figsize=(7.6, 6.0), dpi=200, facecolor="white", layout="constrained")
    panels = figure.subplots(2, 2).flat
    for axes, (varied, label) in zip(panels, AXES.items(), strict=True):
        rows = [row for row in table["rows"] if row["case"].startswith(f"{varied} =")]
        for method, color in (("textbook", RIVAL), ("mgnni", OURS)):
            _curve(axes, varied, [row for row in rows if row["method"] == method], method, color)
        _whole_decades(axes)
        axes.set_xlabel(label, size=9.5, color=INK)
        axes.set_ylabel("milliseconds", size=9.5, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(which="both", labelsize=8.5, labelcolor=FAINT, color="#cccccc")
        axes.grid(which="major", color="#ececec", linewidth=0.8)
    title = f"{table['title']}; {table['device']}"
    figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold", color=INK)
    figure.savefig(file, format="png")


def _curve(
    axes: Axes, varied: str, rows: Sequence[Mapping[str, Any]], method: str, color: str
) -> None:
    points = [
        (_place(varied, row["size"][varied]), 1e3 * row["seconds"])
        for row in rows
        if row["verdict"] == RIGHT and row["seconds"] is not None
    ]
    if not points:
        return
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=color, linewidth=2, marker="o", markersize=4)
    axes.set_yscale("log")
    if varied == "scales":
        axes.set_xticks(x)
    else:
        axes.set_xscale("log")
    if varied in ("width", "gamma"):  # few values, which are not powers of ten
        axes.set_xticks(x, [f"{value:.3g}" for value in x])
        axes.xaxis.set_minor_locator(NullLocator())
    # Costs rise: there is room above the end of a curve, and below its beginning.
    above = color == RIVAL
    axes.annotate(
        method,
        (x[-1], y[-1]) if above else (x[0], y[0]),
        (-4, 6) if above else (6, -14),
        textcoords="offset points",
        ha="right" if above else "left",
        size=9,
        weight="bold",
        color=color,
    )


def _whole_decades(axes: Axes) -> None:
    """End the axis at powers of ten, written as plain numbers, with room for a label below."""
    low, high = axes.get_ylim()
    first, last = math.floor(math.log10(low / 2)), math.ceil(math.log10(high))
    axes.set_ylim(10.0**first, 10.0**last)
    ticks = [10.0**power for power in range(first, last + 1)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _place(varied: str, value: float) -> float:
    """Where a value stands: the contraction by the number of steps that it asks for."""
    return 1 / (1 - value) if varied == "gamma" else value


Draw = Callable[[Mapping[str, Any], IO[bytes]], None]
FIGURES: dict[str, Draw] = {"epoch": draw_epoch, "scaling": draw_scaling}
