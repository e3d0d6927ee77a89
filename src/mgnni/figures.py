"""An empty matplotlib figure, and the colours and texts of all figures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # everything but figures works without matplotlib
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


def literal(text: str) -> str:
    """Return text that matplotlib does not read as mathematics.

    Args:
        text (str): Any text, for example a name in the files of a user.
    """
    return text.replace("$", r"\$")
