"""The picture of the quick start: accuracy against distance, above the chain itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import IO, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mgnni.cli.palette import MODELS, NODES
from mgnni.cli.wording import small

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word on font caches

INK, FAINT, SAND = "#222222", "#6b6b6b", "#f4f1e8"
LEFT = 0.083
MOST_DOTS = 120  # a longer chain is drawn as a line
SEEN = 0.02  # a dotted line nearer than this to its solid one needs no label


def draw(report: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw accuracy against distance for every model, as a PNG."""
    config = report["config"]
    figure = Figure(figsize=(7.6, 4.6), dpi=200, facecolor="white")
    grid = figure.add_gridspec(2, 1, height_ratios=(11, 1), hspace=0)
    plot = figure.add_subplot(grid[0])
    strip = figure.add_subplot(grid[1], sharex=plot)
    figure.subplots_adjust(left=LEFT, right=0.925, top=0.845, bottom=0.115)

    _frame(plot, strip, report)
    _chance(plot, report)
    for model, color in zip(report["models"], MODELS, strict=True):
        _curve(plot, model, color)
    _names(plot, report)
    _ends(plot, report)
    _explain_dots(plot, report)
    _chain(strip, report)

    runs = config["runs"]
    spread = f"; mean ± standard deviation of {runs} runs" if runs > 1 else ""
    title = "How far does the colour count travel?"
    figure.text(LEFT, 0.935, title, size=14, weight="bold", color=INK)
    figure.text(
        LEFT,
        0.883,
        f"Accuracy on unseen chains at each distance from the colours{spread}",
        size=9.5,
        color=FAINT,
    )
    figure.savefig(file, format="png")


def _hops(config: Mapping[str, Any]) -> int:
    return int(config["length"] - config["colored"])


def _frame(plot: Axes, strip: Axes, report: Mapping[str, Any]) -> None:
    colored, hops = report["config"]["colored"], _hops(report["config"])
    lowest = min(min(_band(model)[1]) for model in report["models"])
    bottom = max(min(0.42, lowest - 0.1), -0.03)
    plot.set_xlim(0.4 - colored, hops + 0.6)
    plot.set_ylim(bottom, 1.03)
    ticks = [tick for tick in range(0, 101, 10) if tick / 100 > bottom + 0.05]
    plot.set_yticks([tick / 100 for tick in ticks], [f"{tick} %" for tick in ticks])
    plot.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    plot.set_axisbelow(True)
    plot.tick_params(axis="x", bottom=False, labelbottom=False)
    plot.tick_params(axis="y", length=0, labelsize=9, labelcolor=FAINT)
    strip.tick_params(axis="x", length=0, labelsize=9, labelcolor=FAINT)
    strip.set_yticks([])
    strip.set_ylim(-1, 1)
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, hops) if hops / s <= 8)
    strip.set_xticks(range(0, hops + 1, step))
    strip.set_xlabel("Hops from the last coloured node", size=10, color=INK)
    for axes in (plot, strip):
        axes.axvspan(0.4 - colored, 0.5, color=SAND, linewidth=0, zorder=0)
        axes.spines[:].set_visible(False)


def _chance(plot: Axes, report: Mapping[str, Any]) -> None:
    level = report["chance"]
    plot.axhline(level, color=FAINT, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
    plot.annotate(
        "chance",
        (_hops(report["config"]), level),
        (0, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        size=9,
        color=FAINT,
    )


def _curve(plot: Axes, model: Mapping[str, Any], color: str) -> None:
    """The mean with its band, and dotted: the same weights solved far more exactly."""
    mean, low, high = _band(model)
    exact = [point["mean"] for point in model["float64"]["by_hop"]]
    hop = range(len(mean))
    plot.fill_between(hop, low, high, color=color, alpha=0.14, linewidth=0)
    plot.plot(hop, exact, color=color, linewidth=1.4, linestyle=(0, (1, 1.6)))
    plot.plot(hop, mean, color=color, linewidth=2.4, solid_capstyle="round")
    left = plot.get_xlim()[0] + 0.6  # one number for all coloured nodes
    plot.fill_between([left, 0], low[0], high[0], color=color, alpha=0.14, linewidth=0)
    plot.plot([left, 0], [mean[0]] * 2, color=color, linewidth=2.4, solid_capstyle="round")


def _band(model: Mapping[str, Any]) -> tuple[list[float], list[float], list[float]]:
    mean = [point["mean"] for point in model["by_hop"]]
    std = [point["std"] or 0.0 for point in model["by_hop"]]
    low = [max(m - s, 0.0) for m, s in zip(mean, std, strict=True)]
    high = [min(m + s, 1.0) for m, s in zip(mean, std, strict=True)]
    return mean, low, high


def _names(plot: Axes, report: Mapping[str, Any]) -> None:
    """The better model is named above its curve, the other one below its own."""
    hops = _hops(report["config"])
    near = slice(1, max(hops // 5, 2))
    x, side = (1, "left") if hops > 12 else (hops, "right")
    order = sorted(
        zip(report["models"], MODELS, strict=True), key=lambda item: sum(_band(item[0])[0][near])
    )
    for above, (model, color) in enumerate(order):
        _, low, high = _band(model)
        edge = max(high[near]) if above else min(low[near])
        plot.annotate(
            model["name"],
            (x, edge),
            (0, 3 if above else -3),
            textcoords="offset points",
            ha=side,
            va="bottom" if above else "top",
            size=11,
            weight="bold",
            color=color,
        )


def _ends(plot: Axes, report: Mapping[str, Any]) -> None:
    """Accuracy at the far end, in the margin; numbers too near to each other are moved apart."""
    ends = [model["by_hop"][-1]["mean"] for model in report["models"]]
    gap = 0.04 - abs(ends[0] - ends[1])
    for index, (end, color) in enumerate(zip(ends, MODELS, strict=True)):
        upper = end > ends[1 - index] or (end == ends[1 - index] and index == 1)
        y = end + max(gap, 0) / 2 * (1 if upper else -1)
        plot.annotate(
            f"{100 * end:.0f} %",
            (1, y),
            (4, 0),
            xycoords=plot.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            size=10,
            weight="bold",
            color=color,
        )


def _explain_dots(plot: Axes, report: Mapping[str, Any]) -> None:
    """Label the dotted line of the model whose solves to the working tolerance lost the most."""
    config = report["config"]
    lost = [
        (exact["mean"] - working["mean"], working["hop"], exact["mean"], color)
        for model, color in zip(report["models"], MODELS, strict=True)
        for working, exact in zip(model["by_hop"], model["float64"]["by_hop"], strict=True)
    ]
    most = max(lost)[0]
    if most < SEEN:
        return
    _, hop, level, color = max((x for x in lost if x[0] >= most / 2), key=lambda x: x[1])
    plot.annotate(
        f"dotted: the same weights,\nsolved in float64 to {small(config['exact_tol'])}.\n"
        f"Out here a state is too small\nfor a solve to {small(config['tol'])} to see.",
        (hop, level),
        (0, -6),
        textcoords="offset points",
        ha="right",
        va="top",
        size=8.5,
        linespacing=1.35,
        color=color,
    )


def _chain(strip: Axes, report: Mapping[str, Any]) -> None:
    config = report["config"]
    colored, hops = config["colored"], _hops(config)
    strip.plot([1 - colored, hops], [0, 0], color="#b5b5b5", linewidth=1, zorder=1)
    size = min(60.0, 3000 / config["length"])
    for color, name in enumerate(NODES):
        place = [i + 1 - colored for i, value in enumerate(report["example"]) if value == color]
        strip.scatter(place, [0] * len(place), s=size, c=name, ec=INK, lw=0.7, zorder=3)
    if config["length"] <= MOST_DOTS:
        plain = range(1, hops + 1)
        strip.scatter(plain, [0] * hops, s=0.45 * size, c="white", ec="#9a9a9a", lw=0.8, zorder=2)
    strip.annotate(
        f"{colored} coloured\nnodes",
        (0.4 - colored, 1),
        (4, 4),
        textcoords="offset points",
        va="bottom",
        size=9,
        color=FAINT,
    )
