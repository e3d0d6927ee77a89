"""The page: one HTML file with its style, its scripts and its data."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template

from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.files import atomic_write
from mgnni.html_report.costs import cost_figures
from mgnni.html_report.curves import read_curves
from mgnni.html_report.details import MAX_RUNS
from mgnni.html_report.figure import Figure, figures_html
from mgnni.html_report.labels import by_experiment, experiment_title, headings
from mgnni.html_report.overview import overview
from mgnni.html_report.paper import DEFINITIONS, in_order, read_experiments
from mgnni.html_report.results import REPORT, WRONG, Result, read_results, trained
from mgnni.html_report.scores import score_figures
from mgnni.html_report.solvers import solver_figures
from mgnni.html_report.text import duration, fold
from mgnni.html_report.training import training_part
from mgnni.reproduce.study import Study
from mgnni.version import __version__

GENERATOR = '<meta name="generator" content="mgnni">'  # in the head of every page
POINTS = 60_000  # of all learning curves together
FEW = 4  # trainings up to which all are open at first
PER_CURVE = (20, 200)  # least and most points of one curve


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
    known = {(name, row.name) for name, one in experiments.items() for row in one.rows}
    results = read_results(paths, known)
    results = in_order(results, experiments)
    try:
        text = make_page(results, experiments, script)
    except WRONG:
        _refuse_wrong(results, experiments)
        raise
    with atomic_write(output) as file:
        file.write(text.encode())
    return len(trained(results))


def _refuse_wrong(results: Sequence[Result], experiments: Mapping[str, Study]) -> None:
    """Raise an error that names the first report that has not what a page shows."""
    for one in results:
        try:
            make_page([one], experiments, "")
        except MgnniError:
            raise
        except WRONG as error:
            raise DataError(
                f"{one.folder / REPORT}: is not a report of mgnni train ({type(error).__name__}: "
                f"{error}); leave it out, or train again"
            ) from error


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


def make_page(results: Sequence[Result], experiments: Mapping[str, Study], script: str) -> str:
    """Return the text of the page.

    Args:
        results (Sequence[Result]): The trainings.
        experiments (Mapping[str, Study]): Experiments by name.
        script (str): Source of plotly.js.
    """
    files = resources.files("mgnni.html_report") / "page_files"
    solvers = _per_experiment("solver", results, solver_figures)
    datasets = list(dict.fromkeys(one.dataset for one in results))
    return Template((files / "page.html").read_text("utf-8")).substitute(
        title=escape(f"mgnni report: {', '.join(datasets[:4])}{' …' * (len(datasets) > 4)}"),
        generator=GENERATOR,
        style=(files / "page.css").read_text("utf-8"),
        summary=escape(_summary(results, datasets)),
        overview=overview(results, experiments),
        scores=_per_experiment("score", results, lambda some: score_figures(some, experiments)),
        solvers=solvers or "<p>No model here solves equations.</p>",
        costs=_per_experiment("cost", results, cost_figures),
        trainings=_trainings(results, experiments),
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


def _per_experiment(
    prefix: str, results: Sequence[Result], make: Callable[[Sequence[Result]], Sequence[Figure]]
) -> str:
    """Return the figures of the results; of several experiments, each in a part of its own."""
    groups = by_experiment(results)
    if len(groups) == 1:
        return figures_html(prefix, make(results), 3)
    found = ((f"{prefix}-of-{place}", one, make(one)) for place, one in enumerate(groups, 1))
    return "".join(
        fold(experiment_title(group[0]), figures_html(anchor, figures, 4), 3, anchor)
        for anchor, group, figures in found
        if figures
    )


def _trainings(results: Sequence[Result], experiments: Mapping[str, Study]) -> str:
    """Return the parts of the trainings, together for each of several experiments."""
    curves = [read_curves(one.folder) for one in results]
    lines = 3 * sum(min(len(one), MAX_RUNS) for one in curves)
    points = min(max(POINTS // max(lines, 1), PER_CURVE[0]), PER_CURVE[1])
    groups, opened = by_experiment(results), len(results) <= FEW
    level = 3 if len(groups) == 1 else 4
    parts = {
        result.number: fold(
            name,
            "".join(training_part(result, found, points, experiments, level + 1)),
            level,
            result.anchor,
            opened,
        )
        for result, name, found in zip(results, headings(results), curves, strict=True)
    }
    together = ["".join(parts[one.number] for one in group) for group in groups]
    if len(groups) == 1:
        return together[0]
    return "".join(
        fold(experiment_title(group[0]), content, 3, f"results-of-{place}", opened)
        for place, (group, content) in enumerate(zip(groups, together, strict=True), 1)
    )
