"""A figure of Plotly, with its description and its numbers as a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mgnni.html_report.text import Html, table

LONGEST = 28  # characters of a label
# Names of colours that the page replaces by those of its colour scheme.
SERIES = ("@series-1", "@series-2", "@series-3", "@series-4", "@series-5", "@series-6")
MUTED = "@muted"


@dataclass(frozen=True)
class Figure:
    """A figure, ready to be placed in the page.

    Args:
        title (str): Its heading.
        text (str): What it shows, in one or two sentences; also its description for those who
            cannot see it.
        data (Sequence[dict]): Traces of Plotly.
        layout (dict): Layout of Plotly.
        head (Sequence[str]): Names of the columns of its table.
        rows (Sequence[Sequence[str]]): Rows of its table.
        height (int, optional): Height in pixels. (default: :obj:`340`)
        width (int, optional): Largest width in pixels; ``0`` for that of the page.
            (default: :obj:`0`)
        words (Collection[int], optional): Columns of the table with words.
            (default: :obj:`(0,)`)
    """

    title: str
    text: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    height: int = 340
    width: int = 0
    words: Collection[int] = (0,)

    def to_html(self, name: str, level: int) -> Html:
        """Return the figure with a heading of this level; ``name`` is its anchor."""
        spec = json.dumps({"data": self.data, "layout": self.layout}, allow_nan=False)
        spec = spec.replace("<", "\\u003c")  # cannot end the script element
        numbers = table(f"{self.title}: numbers", self.head, self.rows, words=self.words)
        style = f"height:{self.height}px" + (f";max-width:{self.width}px" if self.width else "")
        label = escape(f"{self.title}. {self.text}")
        return Html(
            f'<figure id="{name}"><h{level}>{escape(self.title)}</h{level}>'
            f"<figcaption>{escape(self.text)}</figcaption>"
            f'<div class="plot" role="img" aria-label="{label}" style="{style}">'
            f'</div><script type="application/json">{spec}</script>'
            f"<details><summary>Numbers of this figure</summary>{numbers}</details></figure>"
        )


def plain(text: str) -> str:
    """Return text as a label: Plotly shows it as it is, and long text is cut."""
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return escape(text, quote=False)


def categories(labels: Sequence[str]) -> dict[str, Any]:
    """Return an axis with one label per whole number, from the top."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": [plain(label) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "zeroline": False,
        "showgrid": False,
    }


def axis(title: str, **options: Any) -> dict[str, Any]:
    """Return an axis with a title."""
    return {"title": {"text": title}, "automargin": True, "zeroline": False, **options}
