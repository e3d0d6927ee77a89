"""Tables and figures of ``mgnni bench``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mgnni.cli.terminal import console_for
from mgnni.figures import BASELINE, FAINT, INK, OTHERS, OURS, new_figure

if TYPE_CHECKING:  # tables are printed without matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTE_WIDTH = 24  # minimum width of the notes in a table
VERDICTS = {"missed": "not reached", "wrong": "wrong", "absent": "absent"}
AXES = {
    "edges": "edges",
    "width": "channels",
    "gamma": "1 / (1 − γ)",
    "scales": "scales, {1}, {1, 2}, …",
}


def show_benchmark(stored: Mapping[str, Any]) -> None:
    """Print a benchmark table, one section per case."""
    console = console_for(130)
    rows = stored["rows"]
    memory = any(row["memory"] is not None for row in rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    # The names of cases may be folded, those of methods and numbers may not.
    table.add_column("", min_width=max((len(row["method"]) for row in rows), default=0) + 2)
    columns = ["time", "× textbook", "forward error", "gradient error", "tol"]
    for column in [*columns, *(["memory"] if memory else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    longest = max((len(row["note"]) for row in rows), default=0)
    table.add_column("", overflow="fold", min_width=min(longest, NOTE_WIDTH))
    case = None
    for row in rows:
        if row["case"] != case:
            if case is not None:
                table.add_section()
            case = row["case"]
            table.add_row(Text(case, "bold"))
        cells = _benchmark_cells(row, memory)
        table.add_row(*cells, style="bold red" if row["verdict"] == "wrong" else None)
    quick = ", quick: times mean little" if stored["quick"] else ""
    console.print()
    console.print(f"{stored['title']}; {stored['device']}{quick}", style="bold", soft_wrap=True)
    console.print(table)


def _benchmark_cells(row: Mapping[str, Any], memory: bool) -> list[str]:
    errors = row["errors"] or {}
    timed = row["verdict"] == "right" and row["seconds"] is not None
    cells = [
        f"  {row['method']}",
        duration(row["seconds"]) if timed else VERDICTS.get(row["verdict"], ""),
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        *(f"{errors[key]:.0e}" if key in errors else "" for key in ("forward", "gradient")),
        "" if row["tol"] is None else f"{row['tol']:.0e}",
    ]
    if memory:
        cells.append("" if row["memory"] is None else f"{row['memory'] / 2**20:,.0f} MiB")
    return [*cells, row["note"]]


def duration(seconds: float) -> str:
    """Return a measured time with three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def draw_epoch(table: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw one panel per case, one bar per method."""
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for row in _timed(table["rows"]):
        cases.setdefault(row["case"], []).append(row)
    sizes = [len(rows) for rows in cases.values()] or [1]
    figure = new_figure(7.6, 0.9 + sum(0.5 + 0.27 * size for size in sizes))
    panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes)
    for axes, (case, rows) in zip(panels[:, 0], cases.items(), strict=False):
        _bars(axes, case, rows)
    _save(figure, table, file)


def _bars(axes: Axes, case: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [row["method"] for row in rows]
    times = [row["seconds"] for row in rows]
    colors = [
        OURS if name.startswith("mgnni") else BASELINE if "textbook" in name else OTHERS
        for name in names
    ]
    labels = []
    for row in rows:
        ratio = row["ratio"] if row["method"] != "textbook" else None
        # A note such as "all 10 in this time" says that more was done than by the others.
        note = f"  ({row['note']})" if row["note"].startswith("all ") else ""
        labels.append(duration(row["seconds"]) + (f"  {ratio:.1f} ×" if ratio else "") + note)
    bars = axes.barh(range(len(rows)), times, color=colors, height=0.72)
    axes.bar_label(bars, labels, padding=4, size=8.5, color=FAINT)
    axes.set_xlim(0, 1.4 * max(times))
    axes.margins(y=0.02)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_title(case, loc="left", size=10, color=INK)
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)


def draw_scaling(table: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw time against edges, width, contraction and number of scales, one panel each."""
    figure = new_figure(7.6, 6.0)
    for axes, (varied, label) in zip(figure.subplots(2, 2).flat, AXES.items(), strict=True):
        rows = _timed(row for row in table["rows"] if row["case"].startswith(f"{varied} ="))
        axes.set(xlabel=label, ylabel="milliseconds", yscale="log")
        axes.set_xscale("linear" if varied == "scales" else "log")
        for method, color in (("textbook", BASELINE), ("mgnni", OURS)):
            x = [row["size"][varied] for row in rows if row["method"] == method]
            # The number of iterations grows as 1 / (1 - gamma).
            x = [1 / (1 - value) for value in x] if varied == "gamma" else x
            y = [1e3 * row["seconds"] for row in rows if row["method"] == method]
            axes.plot(x, y, "o-", color=color, linewidth=2, markersize=4, label=method)
            if varied != "edges" and x:  # few values, which are not powers of ten
                axes.set_xticks(x, [f"{value:.3g}" for value in x])
                axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(which="both", labelsize=8.5, labelcolor=FAINT, color="#cccccc")
        axes.grid(which="major", color="#ececec", linewidth=0.8)
    figure.axes[0].legend(frameon=False, labelcolor="linecolor", prop={"weight": "bold", "size": 9})
    _save(figure, table, file)


FIGURES: dict[str, Callable[[Mapping[str, Any], IO[bytes]], None]] = {
    "epoch": draw_epoch,
    "scaling": draw_scaling,
}


def _timed(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["verdict"] == "right" and row["seconds"] is not None]


def _save(figure: Figure, table: Mapping[str, Any], file: IO[bytes]) -> None:
    title = f"{table['title']}; {table['device']}"
    figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold", color=INK)
    figure.savefig(file, format="png")
