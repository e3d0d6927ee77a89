"""Adds runs to the stored report of a cell, without training the others again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mgnni.data.metric_names import gain
from mgnni.data.rules import DEFAULT_RULE
from mgnni.errors import DataError
from mgnni.files import read_object
from mgnni.reproduce.store import CONFIG, MORE_RUNS, Stored, clear, keep
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import report_of, source_of, train_cell
from mgnni.train.certificates import Certificates
from mgnni.train.report import fingerprint
from mgnni.train.training import OnEpoch

# Entries of a report that belong to one training. A report with added runs has those of its last
# training at the top (but the sum of the seconds), and those of all of them in ``parts``.
OF_ONE_TRAINING = ("device", "versions", "commit", "processes", "seconds")


def can_add(cell: Cell, there: Stored) -> bool:
    """Return whether runs can be added to what is stored of a cell.

    Every run must be scored on its own. This holds for the rule ``validation``. The rules that
    use test data need the curves of all runs, which are not stored.

    Args:
        cell (Cell): The cell.
        there (Stored): What is stored of it.
    """
    report = there.report
    if not there.missing or report is None or cell.study.kind != "accuracy":
        return False
    rules = {cell.rule, report["protocol"]["rule"], *report.get("scores", {})}
    return rules == {DEFAULT_RULE}


def to_train(cell: Cell, there: Stored) -> Cell:
    """Return a cell with the runs that are trained: all, or only those that are added.

    Args:
        cell (Cell): The cell.
        there (Stored): What is stored of it.
    """
    return replace(cell, runs=there.missing) if can_add(cell, there) else cell


def add_runs(
    cell: Cell, output: Path, there: Stored, device: str, on_epoch: OnEpoch
) -> dict[str, Any]:
    """Train the missing runs of a cell, or continue them, and store one report for all runs.

    They are trained in a folder inside that of the cell. The stored report is replaced only when
    they are finished.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.
        there (Stored): What is stored of it, see :func:`can_add`.
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        on_epoch (Callable[[Epoch], None]): Called after every epoch.
    """
    report, home = there.report, cell.folder(output)
    if report is None:
        raise RuntimeError("runs are added to a report")
    source = source_of(cell)
    if fingerprint(source.task) != report["data"]["fingerprint"]:
        raise DataError(
            f"{home}: must be trained on the same data as the missing runs (got other graphs, "
            "labels or splits now); delete it to train all runs again"
        )
    header = read_object(home / CONFIG, "delete the folder to train all runs again")
    if _has_all_of(report, home / MORE_RUNS):  # the process that added them died too early
        clear(home / MORE_RUNS)
    more = report_of(train_cell(to_train(cell, there), home / MORE_RUNS, device, on_epoch, source))
    together = combined(report, more)
    header["runs"] = [{name: run[name] for name in ("split", "seed")} for run in together["runs"]]
    found = keep(cell, output, together, header)
    clear(home / MORE_RUNS)
    return found


def _has_all_of(report: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a report has all runs of the training in a folder."""
    if not (folder / CONFIG).exists():
        return False
    runs = read_object(folder / CONFIG, "delete it to train these runs again")["runs"]
    there = [(run["split"], run["seed"]) for run in report["runs"]]
    return all((run["split"], run["seed"]) in there for run in runs)


def combined(report: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return one report for two trainings with the same settings and different runs.

    Means and deviations are computed from all runs. Numbers of solves and the entries of the
    confusion matrix are summed, error bounds are the larger ones. ``attention`` is that of the
    best run on validation data, if it is known. ``seconds`` is the sum; ``parts`` has one entry
    per training, with its splits, seeds, device, versions, commit and time.

    Args:
        report (Mapping[str, Any]): The stored report.
        more (Mapping[str, Any]): The report of other runs.
    """
    metric = report["metric"]
    runs = sorted((*report["runs"], *more["runs"]), key=lambda run: (run["split"], run["seed"]))
    values = [run["reported"][metric] for run in runs]
    score = {"mean": fmean(values), "std": stdev(values), "n": len(values)}
    solver = Certificates.from_dict(report["solver"])
    solver.merge(Certificates.from_dict(more["solver"]))
    memory: list[Any] = [one.get("peak_memory") for one in (report, more)]
    found = {
        **report,
        **{name: more[name] for name in OF_ONE_TRAINING},
        "score": score,
        "scores": {DEFAULT_RULE: {**more["scores"][DEFAULT_RULE], **score}},
        "runs": runs,
        "solver": solver.to_dict(),
        "peak_memory": None if None in memory else max(memory),
        "seconds": report["seconds"] + more["seconds"],
        "parts": [*(report.get("parts") or [_part(report)]), _part(more)],
    }
    if "confusion" in report:
        pairs = zip(report["confusion"]["counts"], more["confusion"]["counts"], strict=True)
        counts = [[a + b for a, b in zip(*rows, strict=True)] for rows in pairs]
        found["confusion"] = {**report["confusion"], "counts": counts}
    for name in ("attention", "copy_of"):  # with more runs, it is no copy any more
        found.pop(name, None)
    best = max(runs, key=lambda run: gain(metric, run["val"][metric]))
    for sample in (one["attention"] for one in (report, more) if "attention" in one):
        if (sample["split"], sample["seed"]) == (best["split"], best["seed"]):
            found["attention"] = sample
    return found


def _part(report: Mapping[str, Any]) -> dict[str, Any]:
    runs = report["runs"]
    found = {f"{name}s": sorted({run[name] for run in runs}) for name in ("split", "seed")}
    there = [name for name in OF_ONE_TRAINING if name in report]  # early reports lack some
    return {**found, **{name: report[name] for name in there}}
