"""The page: one HTML file with its style, its scripts and its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template

from mgnni.data.metric_names import unit
from mgnni.errors import ArgumentError, MgnniError
from mgnni.files import atomic_write
from mgnni.html_report.assessment import assessment_facts, assessment_figures
from mgnni.html_report.command import command_line
from mgnni.html_report.curves import Curve, read_curves
from mgnni.html_report.details import MAX_RUNS, attention_figure, confusion_figure, curve_figures
from mgnni.html_report.figure import Figure
from mgnni.html_report.numbers import number_facts, number_figures
from mgnni.html_report.overview import cost_figures, overview_table, score_figures, solver_figures
from mgnni.html_report.paper import DEFINITIONS, Row, in_order, paper_score, read_rows
from mgnni.html_report.portfolio import portfolio_part
from mgnni.html_report.results import Result, read_results
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

    Args:
        paths (Sequence[Path]): Folders of trainings, or of stored results.
        output (Path): The file to write; replaced if it exists.
        definitions (Path, optional): Folder with definitions of experiments, which have the
            numbers of the paper. (default: that of the package)
    """
    script = plotly_script()
    rows = read_rows(definitions)
    results = read_results(paths, {(row.experiment, row.name) for row in rows})
    text = make_page(in_order(results, rows), rows, script)
    with atomic_write(output) as file:
        file.write(text.encode())
    return len(results)


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


def make_page(results: Sequence[Result], rows: Sequence[Row], script: str) -> str:
    """Return the text of the page.

    Args:
        results (Sequence[Result]): The trainings.
        rows (Sequence[Row]): Rows of experiments, with the numbers of the paper.
        script (str): Source of plotly.js.
    """
    files = resources.files("mgnni.html_report") / "page_files"
    curves = [read_curves(one.folder) for one in results]
    lines = 3 * sum(min(len(one), MAX_RUNS) for one in curves)
    points = min(max(POINTS // max(lines, 1), PER_CURVE[0]), PER_CURVE[1])
    sections = [
        section
        for result, found in zip(results, curves, strict=True)
        for section in _section(result, found, points, rows)
    ]
    solvers = _figures("solver", solver_figures(results), 3)
    datasets = list(dict.fromkeys(one.dataset for one in results))
    return Template((files / "page.html").read_text("utf-8")).substitute(
        title=escape(f"mgnni report: {', '.join(datasets[:4])}{' …' * (len(datasets) > 4)}"),
        generator=GENERATOR,
        style=(files / "page.css").read_text("utf-8"),
        summary=escape(_summary(results, datasets)),
        overview=overview_table(results, rows) + _marks(results),
        scores=_figures("score", score_figures(results, rows), 3),
        solvers=solvers or "<p>No model here solves equations.</p>",
        costs=_figures("cost", cost_figures(results), 3),
        sections="".join(sections),
        version=escape(__version__),
        plotly=script,
        script=(files / "page.js").read_text("utf-8"),
    )


def _summary(results: Sequence[Result], datasets: Sequence[str]) -> str:
    runs = sum(len(one.runs) for one in results)
    return (
        f"{len(results)} training{'s' * (len(results) > 1)} with {runs} run{'s' * (runs > 1)} on "
        f"{len(datasets)} dataset{'s' * (len(datasets) > 1)}, "
        f"{duration(sum(one.seconds for one in results))} of computing."
    )


def _marks(results: Sequence[Result]) -> str:
    """Return a note for every mark in the table."""
    marks = {one.mark: one.report["protocol"]["description"] for one in results if one.mark}
    return "".join(
        f'<p class="note"><strong>{escape(mark)}</strong> {escape(text)}. {TEST_LABELS}</p>'
        for mark, text in marks.items()
    )


def _figures(prefix: str, figures: Sequence[Figure], level: int) -> str:
    pairs = enumerate(figures, 1)
    return "".join(figure.to_html(f"{prefix}-{place}", level) for place, figure in pairs)


def _section(
    result: Result, curves: dict[tuple[int, int], Curve], points: int, rows: Sequence[Row]
) -> Iterator[str]:
    """Yield the parts of the section of a result."""
    report, name = result.report, escape(f"{result.label} on {result.dataset}")
    command = escape(command_line(result))
    yield f'<section id="{result.anchor}" aria-labelledby="{result.anchor}-title">'
    yield f'<h3 id="{result.anchor}-title">{name}</h3>'
    yield "<dl>"
    for term, text in _facts(result, rows):
        yield f"<div><dt>{term}</dt><dd>{escape(text)}</dd></div>"
    yield "</dl>"
    yield f'<h4 id="{result.anchor}-command">Command</h4>'
    yield f'<pre role="region" aria-label="Command" tabindex="0"><code>{command}</code></pre>'
    if result.mark:
        yield f'<p class="note">{escape(result.mark)} {TEST_LABELS}</p>'
    for note in report.get("data", {}).get("notes", ()):
        yield f'<p class="note">Note: {escape(str(note))}</p>'
    yield from portfolio_part(result)
    yield f'<h4 id="{result.anchor}-runs">Runs</h4>'
    yield _run_table(result)
    figures = curve_figures(result, curves, points)
    figures += [one for one in (confusion_figure(result), attention_figure(result)) if one]
    figures += [*assessment_figures(result), *number_figures(result)]
    yield _figures(f"{result.anchor}-figure", figures, 4)
    yield '<p><a href="#overview">Back to the overview</a></p></section>'


def _facts(result: Result, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    report, protocol = result.report, result.report["protocol"]
    of = f"mean ± standard deviation of {len(result.runs)} runs" if result.std else "one run"
    value = score(result.metric, result.mean, result.std, result.mark) + unit(result.metric)
    yield "Score", f"test {metric_name(result.metric)} {value} ({of})"
    paper = paper_score(result, rows)
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
    yield "Time", f"{duration(result.seconds)} on {report.get('device', 'an unknown device')}"
    if report.get("peak_memory"):
        yield "Peak memory", size(report["peak_memory"])
    versions = report.get("versions", {})
    commit = f", commit {report['commit'][:12]}" if report.get("commit") else ""
    shown = ", ".join(f"{package} {number}" for package, number in versions.items())
    yield "Versions", f"{shown}{commit}" or DASH
    yield "Folder", str(result.folder)


def _run_table(result: Result) -> Html:
    caption = f"Runs of {result.label} on {result.dataset}"
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
    ids = [f"{result.anchor}-run-{place}" for place in range(len(rows))]
    return table(caption, head, rows, words=(), ids=ids)
