"""Figures of experiments; they need matplotlib."""

from __future__ import annotations

from typing import IO

from mgnni.figures import COLORS, FAINT, INK, new_figure, plain_axes
from mgnni.reproduce.sheet import Found, values_shown
from mgnni.reproduce.study import Study


def attention_figure(study: Study, found: Found, file: IO[bytes]) -> bool:
    """Draw the weight of each scale at 100 nodes as a PNG, one panel per dataset.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        file (IO[bytes]): Where to write.

    Returns:
        bool: Whether there was something to draw.
    """
    shown = values_shown(found, "attention_values")
    if not shown:
        return False
    figure = new_figure(4.2 * len(shown), 3.4, dpi=150, layout="tight")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, (cell, values) in zip(panels, shown, strict=True):
        order = sorted(values["weights"], reverse=True)  # by the weight of the first scale
        for place, scale in enumerate(values["scales"]):
            color = COLORS[place % len(COLORS)]
            weights = [row[place] for row in order]
            axes.plot(weights, ".", ms=4, color=color, label=f"scale {scale}")
        axes.set_title(cell.column.title, size=11, color=INK, loc="left")
        axes.set_xlabel("node, by the weight of the first scale", size=9, color=FAINT)
        axes.set_ylim(-0.03, 1.03)
        plain_axes(axes, "y", size=8)
    panels[0].set_ylabel("attention weight", size=9, color=FAINT)
    panels[-1].legend(frameon=False, fontsize=8, loc="upper right")
    figure.savefig(file, format="png")
    return True
