"""The style of all matplotlib figures: an empty figure, axes, colours and texts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # everything but figures works without matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # of Okabe and Ito
OURS, BASELINE = COLORS[:2]  # this library, and what it is compared with
INK, FAINT, OTHERS = "#222222", "#6b6b6b", "#b5b5b5"


def new_figure(
    width: float,
    height: float,
    *,
    dpi: int = 200,
    layout: Literal["constrained", "tight"] | None = "constrained",
) -> Figure:
    """Return an empty figure on white; matplotlib is imported here.

    Args:
        width (float): Width in inches.
        height (float): Height in inches.
        dpi (int, optional): Dots per inch. (default: :obj:`200`)
        layout (str, optional): Layout engine of matplotlib. (default: :obj:`"constrained"`)
    """
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no messages about font caches
    return Figure(figsize=(width, height), dpi=dpi, facecolor="white", layout=layout)


def plain_axes(axes: Axes, grid: Literal["both", "x", "y"] = "both", size: int = 9) -> None:
    """Draw a faint grid below the data, without a frame and without tick marks.

    Args:
        axes (Axes): The axes.
        grid (str, optional): Axis with grid lines. (default: :obj:`"both"`)
        size (int, optional): Font size of the tick labels. (default: :obj:`9`)
    """
    axes.grid(axis=grid, color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=size, labelcolor=FAINT)
    axes.minorticks_off()
    axes.spines[:].set_visible(False)


def literal(text: str) -> str:
    """Return text that matplotlib does not read as mathematics.

    Args:
        text (str): Any text, for example a name in the files of a user.
    """
    return text.replace("$", r"\$")
