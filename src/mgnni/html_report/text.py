"""Numbers and tables as HTML; all text from data is escaped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from mgnni.data.metric_names import OF_NUMBERS, shown

DASH = "–"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(text: str) -> Html:
    """Return text as HTML; :class:`Html` is returned as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


def link(target: str, text: str) -> Html:
    """Return a link to an anchor of the page."""
    return Html(f'<a href="#{escape(target)}">{html(text)}</a>')


def fold(title: str, content: str, level: int, anchor: str, opened: bool = False) -> Html:
    """Return a part of the page that readers open and close; links to it open it.

    Args:
        title (str): Its heading.
        content (str): What is in it, as HTML.
        level (int): Level of the heading.
        anchor (str): Anchor of the part.
        opened (bool, optional): Whether it is open at first. (default: :obj:`False`)
    """
    return Html(
        f'<details class="fold" id="{escape(anchor)}"{" open" * opened}><summary><h{level}>'
        f"{html(title)}</h{level}></summary>{content}</details>"
    )


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    words: Collection[int] = (0,),
) -> Html:
    """Return a table that scrolls on its own where it is too large.

    Args:
        caption (str): What the table shows.
        head (Sequence[str]): Names of the columns.
        rows (Sequence[Sequence[str]]): The cells; the first of a row is its heading.
        words (Collection[int], optional): Columns that hold words; the others hold numbers.
            (default: :obj:`(0,)`)
    """
    columns = [f'<th scope="col"{_kind(i, words)}>{html(one)}</th>' for i, one in enumerate(head)]
    lines = []
    for row in rows:
        cells = [f'<th scope="row"{_kind(0, words)}>{html(row[0])}</th>']
        cells += [f"<td{_kind(i, words)}>{html(one)}</td>" for i, one in enumerate(row[1:], 1)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return Html(
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{''.join(columns)}</tr></thead><tbody>"
        f"{''.join(lines)}</tbody></table></div>"
    )


def _kind(column: int, words: Collection[int]) -> str:
    return ' class="word"' if column in words else ""  # numbers are far more, so they have none


def percent(value: float | None, std: float | None = None, mark: str = "") -> str:
    """Return a score from 0 to 1 in percent, with its standard deviation."""
    if value is None:
        return DASH
    return f"{100 * value:.2f}{'' if std is None else f' ± {100 * std:.2f}'}{mark}"


def score(metric: str, value: float | None, std: float | None = None, mark: str = "") -> str:
    """Return a value of a metric, in percent unless it is one of numbers."""
    return DASH if value is None else shown(metric, value, std) + mark


def factor(metric: str) -> int:
    """Return what values of a metric are multiplied by in a figure."""
    return 1 if metric in OF_NUMBERS else 100


def points(difference: float) -> str:
    """Return a difference of scores in percentage points, with its sign."""
    return f"{100 * difference:+.2f}".replace("-", "−")


def small(value: float | None) -> str:
    """Return a small number with two digits."""
    return DASH if value is None else f"{value:.1e}".replace("e-0", "e-") if value else "0"


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: int | None) -> str:
    """Return a number of bytes in MiB or GiB."""
    if count is None:
        return DASH
    return f"{count / 2**20:.0f} MiB" if count < 2**30 else f"{count / 2**30:.2f} GiB"


def metric_name(metric: str) -> str:
    """Return what readers call a metric."""
    names = {"micro_f1": "micro F1", "macro_f1": "macro F1", "roc_auc": "ROC AUC"}
    names |= {"r2": "R²", "mae": "MAE"}
    return names.get(metric, metric)
