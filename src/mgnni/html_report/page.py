"""The page: one HTML file with its style, its scripts and its data."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from mgnni.data.metric_names import unit
from mgnni.errors import ArgumentError, MgnniError
from mgnni.files import atomic_write
from mgnni.html_report.assessment import assessment_facts, assessment_figures
from mgnni.html_report.command import command_line
from mgnni.html_report.costs import cost_figures
from mgnni.html_report.curves import Curve, read_curves
from mgnni.html_report.details import MAX_RUNS, attention_figure, confusion_figure, curve_figures
from mgnni.html_report.figure import Figure
from mgnni.html_report.labels import headings
from mgnni.html_report.numbers import number_facts, number_figures
from mgnni.html_report.overview import overview_table
from mgnni.html_report.paper import (
    DEFINITIONS,
    Experiment,
    in_order,
    paper_score,
    read_experiments,
)
from mgnni.html_report.portfolio import portfolio_part
from mgnni.html_report.results import Result, read_results, trained
from mgnni.html_report.scores import score_figures
from mgnni.html_report.solvers import solver_figures
from mgnni.html_report.text import DASH, Html, duration, metric_name, percent, score, size, table
from mgnni.version import __version__

GENERATOR = '<meta name="generator" content="mgnni">'  # in the head of every page
POINTS = 60_000  # of all learning curves together
PER_CURVE = (20, 200)  # least and most points of one curve
TEST_LABELS = (
    "This score was chosen with the labels it is tested on. It is no estimate for new data, and "
    "comparable only with numbers chosen by the same rule."
)


def plotly_script() -> str:
    """Return the source of plotly.js, from the Python package plotly."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MgnniError("the HTML report needs plotly; run: pip install 'mgnni[cli]'") from error
    source: str = get_plotlyjs()
    return source


def write_page(paths: Sequence[Path], output: Path, definitions: Path = DEFINITIONS) -> int:
    """Write a report on trainings as one HTML file; return the number of trainings.

    A result that was copied from another one is no further training.

    Args:
        paths (Sequence[Path]): Folders of trainings, or of stored results.
        output (Path): The file to write; replaced if it exists.
        definitions (Path, optional): Folder with definitions of experiments, which have the
            numbers of the paper. (default: that of the package)
    """
    script = plotly_script()
    experiments = read_experiments(definitions)
    known = {(name, row) for name, one in experiments.items() for row in one.rows}
    results = read_results(paths, known)
    text = make_page(in_order(results, experiments), experiments, script)
    with atomic_write(output) as file:
        file.write(text.encode())
    return len(trained(results))


def check_target(output: Path) -> None:
    """Refuse a file that cannot be written, or that holds something else than a report.

    Args:
        output (Path): The file to write.
    """
    if not output.parent.is_dir():
        raise ArgumentError(
            f"'output' must be in a folder that exists (got {str(output)!r}); create it first"
        )
    if not output.exists():
        return
    problem = "a folder" if output.is_dir() else "a file that is no report of mgnni"
    if output.is_file():
        with output.open("rb") as file:
            if GENERATOR.encode() in file.read(2000):
                return
    raise ArgumentError(
        f"'output' must be a new file, or a report to replace (got {str(output)!r}, {problem}); "
        "choose another name"
    )


def write_training_page(folder: Path, on_note: Callable[[str], None]) -> None:
    """Write ``report.html`` into the folder of a training, if plotly is installed.

    Args:
        folder (Path): The folder of a complete training.
        on_note (Callable[[str], None]): Called with a message if the page cannot be written, which
            is no reason for a training to fail.
    """
    if find_spec("plotly") is None:
        return
    try:
        write_page([folder], folder / "report.html")
    except (MgnniError, OSError) as error:
        on_note(f"report.html was not written ({error}); repeat with mgnni report {folder}")


def make_page(results: Sequence[Result], experiments: Mapping[str, Experiment], script: str) -> str:
    """Return the text of the page.

    Args:
        results (Sequence[Result]): The trainings.
        experiments (Mapping[str, Experiment]): Experiments by name.
        script (str): Source of plotly.js.
    """
    files = resources.files("mgnni.html_report") / "page_files"
    curves = [read_curves(one.folder) for one in results]
    lines = 3 * sum(min(len(one), MAX_RUNS) for one in curves)
    points = min(max(POINTS // max(lines, 1), PER_CURVE[0]), PER_CURVE[1])
    sections = [
        section
        for result, name, found in zip(results, headings(results), curves, strict=True)
        for section in _section(result, name, found, points, experiments)
    ]
    solvers = _figures("solver", solver_figures(results), 3)
    datasets = list(dict.fromkeys(one.dataset for one in results))
    return Template((files / "page.html").read_text("utf-8")).substitute(
        title=escape(f"mgnni report: {', '.join(datasets[:4])}{' …' * (len(datasets) > 4)}"),
        generator=GENERATOR,
        style=(files / "page.css").read_text("utf-8"),
        summary=escape(_summary(results, datasets)),
        overview=overview_table(results, experiments) + _marks(results),
        scores=_figures("score", score_figures(results, experiments), 3),
        solvers=solvers or "<p>No model here solves equations.</p>",
        costs=_figures("cost", cost_figures(results), 3),
        sections="".join(sections),
        version=escape(__version__),
        plotly=_packed(script),
        script=(files / "page.js").read_text("utf-8"),
    )


def _packed(script: str) -> str:
    """Return a script as the page holds it, compressed to less than half of its size."""
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def _summary(results: Sequence[Result], datasets: Sequence[str]) -> str:
    once = trained(results)
    runs, copies = sum(len(one.runs) for one in once), len(results) - len(once)
    return (
        f"{len(once)} training{'s' * (len(once) > 1)} with {runs:,} run{'s' * (runs > 1)} on "
        f"{len(datasets)} dataset{'s' * (len(datasets) > 1)}, "
        f"{duration(sum(one.seconds for one in once))} of computing."
        + f" Copies of them in other experiments: {copies:,}."
        * bool(copies)
    )


def _marks(results: Sequence[Result]) -> str:
    """Return a note for every rule whose scores have a mark in the table."""
    marked = [one for one in results if one.mark]
    rules = {one.report["protocol"]["rule"]: (one.mark, one) for one in marked}
    return "".join(
        f'<p class="note"><strong>{escape(mark)}</strong> {escape(rule)}: '
        f"{escape(one.report['protocol']['description'])}. {TEST_LABELS}</p>"
        for rule, (mark, one) in rules.items()
    )


def _figures(prefix: str, figures: Sequence[Figure], level: int) -> str:
    pairs = enumerate(figures, 1)
    return "".join(figure.to_html(f"{prefix}-{place}", level) for place, figure in pairs)


def _section(
    result: Result,
    name: str,
    curves: dict[tuple[int, int], Curve],
    points: int,
    experiments: Mapping[str, Experiment],
) -> Iterator[str]:
    """Yield the parts of the section of a result."""
    report = result.report
    yield f'<section id="{result.anchor}" aria-labelledby="{result.anchor}-title">'
    yield f'<h3 id="{result.anchor}-title">{escape(name)}</h3>'
    yield "<dl>"
    for term, text in _facts(result, experiments):
        yield f"<div><dt>{term}</dt><dd>{escape(text)}</dd></div>"
    yield "</dl>"
    yield f'<h4 id="{result.anchor}-command">Command</h4>'
    yield f"<pre><code>{_unbroken(command_line(result))}</code></pre>"
    if result.mark:
        yield f'<p class="note">{escape(result.mark)} {TEST_LABELS}</p>'
    notes = [f"<li>{escape(str(note))}</li>" for note in report.get("data", {}).get("notes", ())]
    if notes:
        yield f'<h4>Notes on the data</h4><ul class="note">{"".join(notes)}</ul>'
    yield from portfolio_part(result)
    yield f'<h4 id="{result.anchor}-runs">Runs</h4>'
    yield _run_table(result)
    figures = curve_figures(result, curves, points)
    figures += [one for one in (confusion_figure(result), attention_figure(result)) if one]
    figures += [*assessment_figures(result), *number_figures(result)]
    yield _figures(f"{result.anchor}-figure", figures, 4)
    yield '<p><a href="#overview">Back to the overview</a></p></section>'


def _unbroken(command: str) -> str:
    """Return a command as HTML whose lines may end after words, but not inside of options."""
    words = [escape(word) for word in command.split(" ")]
    return " ".join(f"<span>{one}</span>" if one.startswith("--") else one for one in words)


def _facts(result: Result, experiments: Mapping[str, Experiment]) -> Iterator[tuple[str, str]]:
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
    """Return what is told of a training, or of each of several to which seeds were added."""
    texts = [told(one) for one in result.parts]
    if len(set(texts)) == 1:
        return texts[0]
    seeds = [one["seeds"] for one in result.parts]
    names = [f"seed{'s' * (len(one) > 1)} {', '.join(map(str, one))}" for one in seeds]
    return "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


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
