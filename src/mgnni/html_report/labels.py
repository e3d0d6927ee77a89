"""Unique names of results, for headings and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mgnni.html_report.results import Result


def by_experiment(results: Sequence[Result]) -> list[list[Result]]:
    """Return results as one group per experiment; those of none are a group too."""
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(one.experiment, []).append(one)
    return list(groups.values())


def experiment_title(result: Result) -> str:
    """Return what to call the experiment of a result in a heading."""
    return result.title or result.experiment or "Results of no experiment"


def of_experiment(result: Result) -> str:
    """Return the title of an experiment as the end of a heading; empty if there is none."""
    return f": {experiment_title(result)}" if result.experiment else ""


def headings(results: Sequence[Result]) -> list[str]:
    """Return a heading for each result: model, data and experiment."""
    names = [
        f"{one.label} on {one.place}" + (f" ({one.experiment})" if one.experiment else "")
        for one in results
    ]
    return _told_apart(names, results)


def labels(results: Sequence[Result]) -> list[str]:
    """Return a label for each result of a figure: its model, and its data if they differ."""
    names = [one.label for one in results]
    if len({one.column for one in results}) > 1:
        short = len({one.dataset for one in results}) == 1
        names = [f"{one.label}, {(short and one.column_label) or one.place}" for one in results]
    return _told_apart(names, results)


def _told_apart(names: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Add the folder to names that are equal: its last part, or all of it."""
    found = list(names)
    for folder in ([one.folder.name for one in results], [str(one.folder) for one in results]):
        several = {name for name, count in Counter(found).items() if count > 1}
        pairs = zip(names, found, folder, strict=True)
        found = [f"{name} ({add})" if now in several else now for name, now, add in pairs]
    return found
