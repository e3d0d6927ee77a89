"""A figure of Plotly, with its description and its numbers as a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mgnni.html_report.text import Html, table

LONGEST = 28  # characters of a label
ROW = 36  # pixels per row of a figure with one row per result
FRAME = 130  # pixels around the rows
MANY = 25  # rows from which on the axis is at the top, where readers start
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
        content = {"data": self.data, "layout": self.layout}
        spec = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        spec = spec.replace("<", "\\u003c")  # cannot end the script element
        numbers = table(f"{self.title}: numbers", self.head, self.rows, words=self.words)
        style = f"height:{self.height}px" + (f";max-width:{self.width}px" if self.width else "")
        label = escape(f"{self.title}. {self.text}")
        return Html(
            f'<figure id="{name}"><figcaption><h{level}>{escape(self.title)}</h{level}>'
            f"<p>{escape(self.text)}</p></figcaption>"
            f'<div class="plot" role="img" aria-label="{label}" style="{style}">'
            f'</div><script type="application/json">{spec}</script>'
            f"<details><summary>Numbers of this figure</summary>{numbers}</details></figure>"
        )


def figures_html(prefix: str, figures: Sequence[Figure], level: int) -> str:
    """Return figures with headings of a level, and anchors that start with a prefix."""
    pairs = enumerate(figures, 1)
    return "".join(figure.to_html(f"{prefix}-{place}", level) for place, figure in pairs)


def plain(text: str, longest: int = LONGEST) -> str:
    """Return text as a label: Plotly shows it as it is, and long text is cut in the middle."""
    if len(text) > longest:
        end = longest // 2  # labels often differ there
        text = f"{text[: longest - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return escape(text, quote=False)


def categories(labels: Sequence[str]) -> dict[str, Any]:
    """Return an axis with one label per whole number, from the top; labels stay different."""
    lengths = range(LONGEST, max(map(len, labels), default=0) + LONGEST)
    cut = ([plain(label, longest) for label in labels] for longest in lengths)
    short = next(found for found in cut if len(set(found)) == len(set(labels)))
    return {
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": short,
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "zeroline": False,
        "showgrid": False,
    }


def axis(title: str, **options: Any) -> dict[str, Any]:
    """Return an axis with a title."""
    return {"title": {"text": title}, "automargin": True, "zeroline": False, **options}


def rows_layout(numbers: dict[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Return the layout of a figure with one row per label.

    Args:
        numbers (dict): The axis of the numbers. It is at the top if there are many rows.
        labels (Sequence[str]): Labels of the rows.
    """
    layout = {"xaxis": numbers, "yaxis": categories(labels)}
    if len(labels) < MANY:
        return layout
    return {
        "xaxis": {**numbers, "side": "top"},
        "yaxis": layout["yaxis"],
        "margin": {"l": 12, "r": 28, "t": 90, "b": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"},
    }


def markers(name: str, x: Sequence[float], y: Sequence[float], **options: Any) -> dict[str, Any]:
    """Return points as a trace of Plotly."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [float(f"{value:.5g}") for value in x],
        "y": list(y),
        "hovertemplate": f"%{{x}}<extra>{name}</extra>",
        **options,
    }
