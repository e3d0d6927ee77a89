"""The figure of the change of states along a chain; it needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from mgnni.figures import COLORS, FAINT, INK, new_figure, plain_axes
from mgnni.reproduce.sheet import Found, values_shown
from mgnni.reproduce.study import Cell, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAMMAS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#e69f00", "#d55e00")
LOWEST = 1e-24  # of the logarithmic axis
# The curves of a small panel: entry, name, and how it is drawn.
CURVES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sound", "sound bound", {"color": COLORS[2], "lw": 1.2, "ls": (0, (4, 2))}),
    ("printed", "printed bound", {"color": COLORS[3], "lw": 1.2, "ls": (0, (1, 1.2))}),
    ("exact", "exact (closed form)", {"color": "#c9c9c9", "lw": 5.0}),
    ("float64", "solved in float64 to 1e-14", {"color": COLORS[0], "lw": 2.2}),
    ("float32", "solved in float32 to 1e-6", {"color": COLORS[1], "lw": 1.3}),
)
Shown = Sequence[tuple[Cell, dict[str, Any]]]


def response_figure(study: Study, found: Found, file: IO[bytes]) -> bool:
    r"""Draw :math:`\|\Delta z_q\|` against the distance as a PNG.

    Above all values of γ as in the paper, below one panel for each of them with the bounds.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        file (IO[bytes]): Where to write.

    Returns:
        bool: Whether there was something to draw.
    """
    shown = values_shown(found, "response")
    if not shown:
        return False
    rows = (len(shown) + 2) // 3
    figure = new_figure(9, 3.6 + 2.6 * rows, dpi=170)
    heights = [3.6, 2.6 * rows]
    above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, log in zip(above.subplots(1, 2), (False, True), strict=True):
        _together(axes, shown, log)
    panels = below.subplots(rows, min(len(shown), 3), sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    for axes, (cell, values) in zip(panels.flat, shown, strict=False):
        _single(axes, cell, values)
    for axes in panels[-1]:
        axes.set_xlabel("distance from the masked node, in hops", size=8, color=FAINT)
    for axes in panels[:, 0]:
        axes.set_ylabel("‖Δz‖", size=9, color=FAINT)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    below.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(file, format="png")
    return True


def _together(axes: Axes, shown: Shown, log: bool) -> None:
    """Draw all values of γ, solved as the model is trained."""
    places = [column.name for column in shown[0][0].study.columns]
    for cell, values in shown:
        color = GAMMAS[places.index(cell.column.name) % len(GAMMAS)]
        hops, curve = _positive(values["float32"]) if log else _whole(values["float32"])
        axes.plot(hops, curve, color=color, lw=1.8, label=cell.column.title)
        if log and len(hops) < len(values["float32"]):
            axes.plot(hops[-1], curve[-1], "x", color=color, ms=6)
        paper = cell.row.paper_hops.get(cell.column.name)
        if log and paper is not None:
            axes.axvline(paper, color=color, lw=1, ls=(0, (4, 3)))
            axes.annotate(
                f"paper: 0 for {cell.column.title}",
                (paper, 1),
                (4, -4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                va="top",
                size=8,
                color=color,
            )
    title = "The same; exactly 0 after the cross" if log else "Solved in float32 to 1e-6"
    axes.set_title(title, size=10, color=INK, loc="left")
    axes.set_xlabel("distance from the masked node, in hops", size=9, color=FAINT)
    axes.set_ylabel("change of the state, ‖Δz‖", size=9, color=FAINT)
    axes.set_xlim(0, None if log else 30)
    if log:
        axes.set_yscale("log")
    else:
        axes.legend(frameon=False, fontsize=8)
    plain_axes(axes, size=8)


def _single(axes: Axes, cell: Cell, values: dict[str, Any]) -> None:
    """Draw one value of γ with its bounds."""
    for name, label, look in CURVES:
        hops, curve = _positive(values[name])
        axes.plot(hops, curve, label=label, **look)
    axes.set_yscale("log")
    axes.set_ylim(LOWEST, 1e2)
    axes.set_title(cell.column.title, size=10, color=INK, loc="left")
    plain_axes(axes, size=8)


def _whole(curve: Sequence[float]) -> tuple[list[int], list[float]]:
    return list(range(len(curve))), list(curve)


def _positive(curve: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the distances and values before the first zero, which has no logarithm."""
    end = next((hop for hop, value in enumerate(curve) if value <= 0), len(curve))
    return list(range(end)), list(curve[:end])
