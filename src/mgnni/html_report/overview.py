"""Tables of all results: as in the paper if they belong to an experiment, otherwise as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from mgnni.data.rules import DEFAULT_RULE
from mgnni.html_report.labels import by_experiment, experiment_title
from mgnni.html_report.paper import paper_score, published_seconds
from mgnni.html_report.results import Result
from mgnni.html_report.text import (
    DASH,
    Html,
    duration,
    factor,
    link,
    metric_name,
    percent,
    points,
    score,
    table,
)
from mgnni.html_report.training import TEST_LABELS
from mgnni.reproduce.study import Study

WORDS = ("Model", "Dataset", "Metric", "Rule")


def overview(results: Sequence[Result], experiments: Mapping[str, Study]) -> Html:
    """Return the tables of all results, with links to them if there are several."""
    groups = by_experiment(results)
    tables = [_of_group(group, experiments) for group in groups]
    if len(groups) == 1:
        return tables[0]
    names = [f"overview-{place}" for place in range(1, len(groups) + 1)]
    titles = [experiment_title(one[0]) for one in groups]
    items = [f"<li>{link(*one)}</li>" for one in zip(names, titles, strict=True)]
    parts = [
        f'<section id="{name}"><h3>{escape(title)}</h3>{content}</section>'
        for name, title, content in zip(names, titles, tables, strict=True)
    ]
    return Html(f"<ul>{''.join(items)}</ul>{''.join(parts)}")


def _of_group(group: Sequence[Result], experiments: Mapping[str, Study]) -> Html:
    """Return a grid of models and datasets if every cell has one result, otherwise a list."""
    places = {(one.label, one.place) for one in group}
    make = _grid if group[0].experiment and len(places) == len(group) else _list
    return Html(make(group, experiments) + _marks(group))


def _marks(group: Sequence[Result]) -> str:
    """Return a note for every rule whose scores have a mark in the table."""
    marked = {one.report["protocol"]["rule"]: one for one in group if one.mark}
    return "".join(
        f'<p class="note"><strong>{escape(one.mark)}</strong> {escape(rule)}: '
        f"{escape(one.report['protocol']['description'])}. {TEST_LABELS}</p>"
        for rule, one in marked.items()
    )


def _grid(group: Sequence[Result], experiments: Mapping[str, Study]) -> Html:
    """Return one row per model and one column per dataset; scores link to their runs."""
    experiment = experiments.get(group[0].experiment)
    of_times = experiment is not None and experiment.kind == "seconds"
    order = [row.name for row in experiment.rows] if experiment else []
    rows = {one.label: order.index(one.row) if one.row in order else len(order) for one in group}
    columns = list(dict.fromkeys(one.place for one in group))  # in order already
    cells = {(one.label, one.place): one for one in group}
    lines = []
    for label in sorted(rows, key=rows.__getitem__):
        line: list[str] = [label]
        for column in columns:
            one = cells.get((label, column))
            line.append(DASH if one is None else _cell(one, of_times, experiments))
        lines.append(line)
    metrics = {metric_name(one.metric) for one in group}
    of = f"test {metrics.pop()}" if len(metrics) == 1 else "test metric"
    of += " in percent" * all(factor(one.metric) > 1 for one in group)
    rules = {one.report["protocol"]["rule"] + one.mark: None for one in group}
    told = f"{of}, mean ± standard deviation over runs, by rule {', '.join(rules)}"
    if any(paper_score(one, experiments) for one in group):
        told += "; in brackets the difference from the paper"
    if of_times:
        told = "seconds per epoch with its validation, the median; the paper names no machine"
    return table(f"{told[0].upper()}{told[1:]}", ["Model", *columns], lines)


def _cell(one: Result, of_times: bool, experiments: Mapping[str, Study]) -> Html:
    """Return the score, below it that by validation if it is another, and that of the paper."""
    if of_times:
        return _seconds(one, experiments)
    lines: list[str] = [link(f"{one.anchor}-runs", score(one.metric, one.mean, one.std, one.mark))]
    fair = one.report.get("scores", {}).get(DEFAULT_RULE)  # early reports have none
    if fair and one.mark:
        text = score(one.metric, fair["mean"], fair["std"])
        lines.append(f"<small>{DEFAULT_RULE} {text}</small>")
    paper = paper_score(one, experiments)
    if paper is not None:
        difference = points(one.mean - paper.mean)
        lines.append(f"<small>paper {percent(paper.mean, paper.std)} ({difference})</small>")
    lines += _few_runs(one, experiments)
    return Html("<br>".join(lines))


def _few_runs(one: Result, experiments: Mapping[str, Study]) -> list[str]:
    """Return a line if a result has fewer runs than its experiment asks for."""
    experiment = experiments.get(one.experiment)
    splits = one.report.get("data", {}).get("splits", len(one.splits))  # early reports lack it
    found, asked = len(one.runs), 0
    for cell in experiment.cells() if experiment else ():
        if (cell.row.name, cell.column.name) == (one.row, one.column):
            asked = len(cell.chosen_runs(splits))
    return [f"<small>{found} of {asked} runs</small>"] if found < asked else []


def _seconds(one: Result, experiments: Mapping[str, Study]) -> Html:
    """Return the seconds per epoch, below them those of the paper."""
    own = one.report.get("timing", {}).get("epoch")
    lines: list[str] = [link(f"{one.anchor}-runs", DASH if own is None else f"{own:.3g}")]
    published = published_seconds(experiments[one.experiment], one.row, one.column)
    if published is not None:
        lines.append(f"<small>paper {published:g}</small>")
    return Html("<br>".join(lines))


def _list(results: Sequence[Result], experiments: Mapping[str, Study]) -> Html:
    """Return one row per result; the model links to its section, the score to its runs."""
    with_paper = any(paper_score(one, experiments) for one in results)
    of = "" if any(factor(one.metric) == 1 for one in results) else " %"  # else metrics differ
    head = ["Model", "Dataset", f"Test{of}", *(["Paper %", "Difference"] if with_paper else [])]
    head += [f"Validation{of}", "Runs", "Time", "Metric", "Rule"]
    words = [head.index(name) for name in head if name in WORDS]
    lines = []
    for one in results:
        line: list[str] = [link(one.anchor, one.label), one.place]
        line.append(link(f"{one.anchor}-runs", score(one.metric, one.mean, one.std, one.mark)))
        if with_paper:
            paper = paper_score(one, experiments)
            line.append(DASH if paper is None else percent(paper.mean, paper.std))
            line.append(DASH if paper is None else points(one.mean - paper.mean))
        line += [score(one.metric, one.val), str(len(one.runs)), duration(one.seconds)]
        line += [metric_name(one.metric), one.report["protocol"]["rule"]]
        lines.append(line)
    return table("All results: mean ± standard deviation over runs", head, lines, words=words)
