"""Tables and summaries on standard output."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mgnni.cli.assessment_output import assessment_lines
from mgnni.data.metric_names import shown, unit
from mgnni.data.storage import VARIABLE

# Columns left out on a narrow terminal, the least important first.
OPTIONAL_COLUMNS = ("splits", "graphs", "features", "metric", "task", "classes")
KINDS = {
    "implicit": "Implicit: states that solve an equation",
    "explicit": "Explicit: layers",
    "baseline": "Baselines without a graph",
}
VANISHING = 0.1  # relative error that no tolerance allows unless gradients vanish
TEST_LABELS_USED = (
    "chosen with the labels it is tested on: no estimate for new data, and comparable only with "
    "numbers chosen by the same rule"
)


def console_for(width: int = 100, stderr: bool = False) -> Console:
    """Return a console; output that is not a terminal has this width."""
    console = Console(highlight=False, markup=False, stderr=stderr)
    if not console.is_terminal:
        console.width = width
    return console


def show_datasets(found: Mapping[str, Any]) -> None:
    """Print one row per dataset."""
    console = console_for()
    rows = [
        {
            "name": entry["name"],
            "task": entry["level"],
            **{name: _number(count) for name, count in entry["expected"].items()},
            "metric": entry["metric"],
            "on disk": "made" if entry["made_in_code"] else "yes" if entry["on_disk"] else "no",
        }
        for entry in found["datasets"]
    ]
    width = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    left_out = []
    for name in OPTIONAL_COLUMNS:
        if sum(width.values()) + 2 * (len(width) - 1) > console.width:
            left_out.append(name)
            del width[name]
    table = Table.grid(padding=(0, 2))
    table.show_header = True
    for name in width:
        number = name in found["datasets"][0]["expected"]
        table.add_column(name, no_wrap=True, justify="right" if number else "left")
    for entry, row in zip(found["datasets"], rows, strict=True):
        table.add_row(*(row[name] for name in width), style=None if entry["on_disk"] else "dim")
    console.print(table)
    if left_out:
        paragraph(console, f"\nNot shown on a terminal this narrow: {', '.join(left_out)}.", 0)
    console.print(
        f"\nDatasets are in {found['folder']}; set {VARIABLE}=FOLDER for another folder.\n"
        "mgnni datasets NAME describes one of them.",
        soft_wrap=True,
    )


def show_dataset(found: Mapping[str, Any]) -> None:
    """Print the size of one dataset and everything else known about it."""
    console = console_for()
    sizes = Table(box=SIMPLE_HEAD, pad_edge=False)
    sizes.add_column(found["name"], style="bold")
    sizes.add_column("expected", justify="right")
    sizes.add_column("on load", justify="right")
    measured = found["measured"] or {}
    for count, expected in found["expected"].items():
        sizes.add_row(count, _number(expected), _number(measured.get(count)))
    if measured:
        sizes.add_row("train / val / test", "", _part_sizes(found["parts"]))
    console.print(sizes)
    options = (f"{name}={default!r}" for name, default in found["options"].items())
    facts(
        console,
        ("task", f"{found['level']} classification, {found['metric']}"),
        ("on disk", _location(found)),
        ("options", ", ".join(options)),
        ("licence", found["licence"]),
        ("source", found["source"]),
        *(("warning" if not place else "", trap) for place, trap in enumerate(found["traps"])),
        *(("notes" if not i else "", note) for i, note in enumerate(found.get("notes", []))),
    )


def show_models(found: Mapping[str, Any]) -> None:
    """Print one row per model, by kind."""
    console = console_for()
    for kind, title in KINDS.items():
        console.print(title, style="bold")
        rows = [(one["name"], one["equation"]) for one in found["models"] if one["kind"] == kind]
        facts(console, *rows, style="")
        console.print()
    paragraph(
        console,
        "mgnni models NAME describes one of them; mgnni train DATA --model NAME trains it.",
        0,
    )


def show_model(found: Mapping[str, Any]) -> None:
    """Print everything known about one model."""
    console = console_for()
    console.print(found["title"], style="bold")
    options = (f"{name}={shown_value(default)}" for name, default in found["options"].items())
    search = [f"{name}: {', '.join(map(shown_value, v))}" for name, v in found["search"].items()]
    facts(
        console,
        ("equation", found["equation"]),
        ("paper", found["paper"]),
        ("differs", found["differs"]),
        ("MGNNI paper", ", ".join(found["tables"]) or "in no table"),
        ("class", found["home"].replace(":", ".")),
        ("options", ", ".join(options)),
        *(("search" if not place else "", line) for place, line in enumerate(search)),
    )


def show_training(
    report: Mapping[str, Any], folder: Path, data: Sequence[str], *, resumed: bool
) -> None:
    """Print the runs, the score with its rule, the notes, and what to do next.

    Args:
        report (Mapping[str, Any]): The report of the training.
        folder (Path): Where it was saved.
        data (Sequence[str]): The data as given on the command line, with its options.
        resumed (bool): Whether the training had been complete before.
    """
    console = console_for(80)
    metric, mark = report["metric"], report["protocol"]["mark"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    names = (f"validation{unit(metric)}", f"test{unit(metric)}")
    for name in (" split", "seed", "epochs", "chosen epoch", *names):
        table.add_column(name, justify="right")
    for run in report["runs"]:
        val, test = run["val"].get(metric), shown(metric, run["reported"][metric]) + mark
        epochs = str(run["epochs"]), str(run["reported"]["epoch"])
        chosen = "–" if val is None else shown(metric, val)
        table.add_row(str(run["split"]), str(run["seed"]), *epochs, chosen, test)
    console.print(table)
    paragraph(console, score_line(report), style="bold")
    paragraph(console, f"by rule {report['protocol']['rule']}: {report['protocol']['description']}")
    if mark:
        paragraph(console, f"{mark} {TEST_LABELS_USED}")
    if "portfolio" in report:
        count, name = len(report["portfolio"]["candidates"]), report["portfolio"]["chosen"]
        paragraph(console, f"model: {name}, chosen among {count} on validation data")
    if others := other_scores(report):
        paragraph(console, f"the same runs by other rules: {others}")
    rows = _part_sizes([list(run["rows"].values()) for run in report["runs"]])
    paragraph(console, f"train / val / test: {rows} labelled {report['data']['level']}s")
    for line in assessment_lines(report):
        paragraph(console, line)
    if report["solver"]["forward"]["solves"]:
        paragraph(console, solver_line(report["solver"]))
    for note in report["data"]["notes"]:
        paragraph(console, f"note: {note}", style="dim")
    when = "before: nothing was left to train" if resumed else f"after {span(report['seconds'])}"
    # Not wrapped: a path, and a command to copy.
    console.print(f"\n  Saved model.pt, report.json and log.jsonl {when}: {folder}", soft_wrap=True)
    if (folder / "report.html").exists():
        console.print(f"  Report: {folder / 'report.html'}", soft_wrap=True)
    following = shlex.join(["mgnni", "predict", str(folder), *data])
    console.print(f"  Next: {following}", soft_wrap=True)


def score_line(report: Mapping[str, Any]) -> str:
    """Return the test score as it may be quoted."""
    score, mark, metric = report["score"], report["protocol"]["mark"], report["metric"]
    of = "one run"
    if score["std"] is not None:
        of = f"mean ± standard deviation of {score['n']} runs"
    value = f"{shown(metric, score['mean'], score['std'])}{unit(metric)}{mark}"
    return f"{report['dataset']}: test {metric} {value} ({of})"


def other_scores(report: Mapping[str, Any]) -> str:
    """Return the scores of the same runs by other rules, without what would be a repetition."""
    found = {report["protocol"]["mark"]: report["protocol"]["rule"]}  # a mark is one computation
    for name, score in report["scores"].items():
        value = shown(report["metric"], score["mean"]) + unit(report["metric"])
        found.setdefault(score["mark"], f"{name} {value}{score['mark']}")
    return ", ".join(list(found.values())[1:])


def solver_line(solver: Mapping[str, Any]) -> str:
    """Return how accurately the equations were solved."""
    forward, backward = solver["forward"], solver["backward"]
    bounds = [one["relative_error_bound"] for one in (forward, backward)]
    certified = "no contraction proven, so no error certified"
    if None not in bounds:
        certified = (
            f"certified relative error at most {small(bounds[0])} (states), {small(bounds[1])} "
            "(gradients)"
        )
    if (bounds[1] or 0) > VANISHING and not backward["failures"]:
        certified += "; gradients too small for normal floating-point numbers are always accepted"
    return (
        f"{forward['solves'] + backward['solves']} equations solved, "
        f"{forward['failures'] + backward['failures']} missed their tolerance; {certified}"
    )


def paragraph(console: Console, text: str, margin: int = 2, style: str = "") -> None:
    """Print text with a left margin, wrapped between words."""
    console.print(Padding(Text(text, style), (0, 0, 0, margin), expand=False))


def span(seconds: float) -> str:
    """Return a rough time in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def small(value: float) -> str:
    """Return a small number as ``1e-6``, not ``1e-06``."""
    return f"{value:.0e}".replace("e-0", "e-") if value else "0"


def facts(console: Console, *rows: tuple[str, str], style: str = "bold") -> None:
    """Print names beside what is known of them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def shown_value(value: Any) -> str:
    """Return a hyperparameter as text."""
    if isinstance(value, (tuple, list)):
        return "{" + ", ".join(map(shown_value, value)) + "}"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _part_sizes(parts: Sequence[Sequence[int]]) -> str:
    """Return the sizes of training, validation and test set, as ranges where splits differ."""
    ranges = []
    for sizes in zip(*parts, strict=True):
        low, high = min(sizes), max(sizes)
        ranges.append(f"{low:,}" if low == high else f"{low:,}-{high:,}")
    return " / ".join(ranges)


def _location(found: Mapping[str, Any]) -> str:
    if found["made_in_code"]:
        return "made in code"
    if found["on_disk"]:
        return f"yes, {found['place']}"
    return f"no; {found['remedy'] or 'downloaded when it is first used'}"
