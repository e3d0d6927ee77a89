"""The table of all results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mgnni.html_report.paper import Experiment, paper_score
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

WORDS = ("Model", "Dataset", "Metric", "Rule", "Experiment")


def overview_table(results: Sequence[Result], experiments: Mapping[str, Experiment]) -> Html:
    """Return one row per result; the model links to its section, the score to its runs."""
    with_paper = any(paper_score(one, experiments) for one in results)
    stored = any(one.experiment for one in results)
    of = "" if any(factor(one.metric) == 1 for one in results) else " %"  # else metrics differ
    head = ["Model", "Dataset", f"Test{of}", *(["Paper %", "Difference"] if with_paper else [])]
    head += [f"Validation{of}", "Runs", "Time", "Metric", "Rule"]
    head += ["Experiment"] if stored else []
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
        lines.append([*line, *([one.experiment or DASH] if stored else [])])
    return table("All results: mean ± standard deviation over runs", head, lines, words=words)
