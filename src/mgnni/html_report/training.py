"""What the page says about one training: facts, command, runs and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from mgnni.data.metric_names import unit
from mgnni.html_report.assessment import assessment_facts, assessment_figures
from mgnni.html_report.command import command_line
from mgnni.html_report.curves import Curve
from mgnni.html_report.details import attention_figure, confusion_figure, curve_figures
from mgnni.html_report.figure import figures_html
from mgnni.html_report.numbers import number_facts, number_figures
from mgnni.html_report.paper import paper_score
from mgnni.html_report.portfolio import portfolio_part
from mgnni.html_report.results import Result
from mgnni.html_report.text import DASH, Html, duration, metric_name, percent, score, size, table
from mgnni.reproduce.study import Study

TEST_LABELS = (
    "This score was chosen with the labels it is tested on. It is no estimate for new data, and "
    "comparable only with numbers chosen by the same rule."
)


def training_part(
    result: Result,
    curves: dict[tuple[int, int], Curve],
    points: int,
    experiments: Mapping[str, Study],
    level: int,
) -> Iterator[str]:
    """Yield what the page says about a training.

    Args:
        result (Result): The training.
        curves (dict): Its learning curves.
        points (int): Largest number of points of a curve.
        experiments (Mapping[str, Study]): Experiments by name.
        level (int): Level of the headings.
    """
    report = result.report
    yield "<dl>"
    for term, text in _facts(result, experiments):
        yield f"<div><dt>{term}</dt><dd>{escape(text)}</dd></div>"
    yield "</dl>"
    yield f'<h{level} id="{result.anchor}-command">Command</h{level}>'
    yield f"<pre><code>{_unbroken(command_line(result))}</code></pre>"
    if result.mark:
        yield f'<p class="note">{escape(result.mark)} {TEST_LABELS}</p>'
    notes = [f"<li>{escape(str(note))}</li>" for note in report.get("data", {}).get("notes", ())]
    if notes:
        yield f'<h{level}>Notes on the data</h{level}><ul class="note">{"".join(notes)}</ul>'
    yield from portfolio_part(result, level)
    yield f'<h{level} id="{result.anchor}-runs">Runs</h{level}>'
    yield _run_table(result)
    figures = curve_figures(result, curves, points)
    figures += [one for one in (confusion_figure(result), attention_figure(result)) if one]
    figures += [*assessment_figures(result), *number_figures(result)]
    yield figures_html(f"{result.anchor}-figure", figures, level)
    yield '<p><a href="#overview">Back to the overview</a></p>'


def _unbroken(command: str) -> str:
    """Return a command as HTML whose lines may end after words, but not inside of options."""
    words = [escape(word) for word in command.split(" ")]
    return " ".join(f"<span>{one}</span>" if one.startswith("--") else one for one in words)


def _facts(result: Result, experiments: Mapping[str, Study]) -> Iterator[tuple[str, str]]:
    report, protocol = result.report, result.report["protocol"]
    runs = len(result.runs)
    of = f"mean ± standard deviation of {runs} runs" if runs > 1 else "one run"
    if result.experiment:
        yield "Experiment", result.experiment + (f": {result.title}" if result.title else "")
    value = score(result.metric, result.mean, result.std, result.mark) + unit(result.metric)
    yield "Score", f"test {metric_name(result.metric)} {value} ({of})"
    paper = paper_score(result, experiments)
    if paper is not None:
        yield "Paper", f"{percent(paper.mean, paper.std)} %"
    yield "Rule", f"{protocol['rule']}: {protocol['description']}"
    yield from assessment_facts(result)
    yield from number_facts(result)
    data = report.get("data", {})
    if {"nodes", "edges", "graphs", "classes"} <= data.keys():
        yield (
            "Data",
            ", ".join(
                f"{data[what]:,} {what[:-1] if data[what] == 1 else what}"
                for what in ("nodes", "edges", "graphs")
            )
            + (f", {data['classes']} classes" if data["classes"] else ""),
        )
    yield "Parameters", f"{report['parameters']:,}" if "parameters" in report else DASH
    total = f"{duration(result.seconds)}: " if len(result.parts) > 1 else ""
    yield "Time", total + _of_parts(result, _time)
    if report.get("peak_memory"):
        yield "Peak memory", size(report["peak_memory"])
    yield "Versions", _of_parts(result, _versions)
    if result.copy_of:
        yield "Copy", f"of {result.copy_of}, which is the same training"
    yield "Folder", str(result.folder)


def _of_parts(result: Result, told: Callable[[Mapping[str, Any]], str]) -> str:
    """Return what is told of a training, or of each of several if runs were added."""
    texts = [told(one) for one in result.parts]
    if len(set(texts)) == 1:
        return texts[0]
    kinds = ["split"] if len({str(one.get("splits")) for one in result.parts}) > 1 else []
    kinds += ["seed"]
    names = [
        ", ".join(_numbered(kind, part.get(f"{kind}s")) for kind in kinds) for part in result.parts
    ]
    return "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


def _numbered(kind: str, numbers: Sequence[int] | None) -> str:
    """Return a kind of number with its numbers, ``"seeds 0, 1"``; early reports lack splits."""
    if numbers is None:
        return f"all {kind}s"
    return f"{kind}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _time(part: Mapping[str, Any]) -> str:
    return f"{duration(part['seconds'])} on {part.get('device', 'an unknown device')}"


def _versions(part: Mapping[str, Any]) -> str:
    shown = [f"{package} {number}" for package, number in part.get("versions", {}).items()]
    commit = part.get("commit")
    changed = "+" * str(commit).endswith("+")  # the source had changes
    shown += [f"commit {commit[:12]}{changed}"] if commit else []
    return ", ".join(shown) or DASH


def _run_table(result: Result) -> Html:
    caption = f"Runs of {result.label} on {result.place}"
    of = unit(result.metric)
    head = ["Split", "Seed", "Epochs", "Chosen epoch", f"Validation{of}", f"Test{of}"]
    rows = [
        [
            *map(str, (run.split, run.seed, run.epochs, run.epoch)),
            score(result.metric, run.val),
            score(result.metric, run.test, None, result.mark),
        ]
        for run in result.runs
    ]
    return table(caption, head, rows, words=())
