"""Adds seeds to the stored report of a cell, without training the others again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mgnni.data.rules import DEFAULT_RULE
from mgnni.errors import DataError
from mgnni.reproduce.store import CONFIG, MORE_SEEDS, Stored, clear, keep
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import report_of, source_of, train_cell
from mgnni.train.certificates import Certificates
from mgnni.train.report import fingerprint
from mgnni.train.training import OnEpoch

# Entries of a report that belong to one training. A report with added seeds has those of its last
# training at the top, and those of all of them in ``parts``.
OF_ONE_TRAINING = ("device", "versions", "commit", "processes", "seconds")


def can_add(cell: Cell, there: Stored) -> bool:
    """Return whether seeds can be added to what is stored of a cell.

    Every run must be scored on its own. This holds for the rule ``validation``. The rules that
    use test data need the curves of all runs, which are not stored.

    Args:
        cell (Cell): The cell.
        there (Stored): What is stored of it.
    """
    report = there.report
    if not there.seeds or report is None or cell.study.kind != "accuracy":
        return False
    rules = (cell.rule, report["protocol"]["rule"])
    return rules == (DEFAULT_RULE, DEFAULT_RULE) and set(report["scores"]) == {DEFAULT_RULE}


def add_seeds(
    cell: Cell, output: Path, there: Stored, device: str, on_epoch: OnEpoch
) -> dict[str, Any]:
    """Train the missing seeds of a cell, or continue them, and store one report for all seeds.

    They are trained in a folder inside that of the cell. The stored report is replaced only when
    they are finished.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.
        there (Stored): What is stored of it, see :func:`can_add`.
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        on_epoch (Callable[[Epoch], None]): Called after every epoch.
    """
    report = there.report
    if report is None:
        raise RuntimeError("seeds are added to a report")
    source = source_of(cell)
    if fingerprint(source.task) != report["data"]["fingerprint"]:
        raise DataError(
            f"{cell.folder(output)}: must be trained on the same data as the missing seeds (got "
            "other graphs, labels or splits now); delete it to train all seeds again"
        )
    folder = cell.folder(output) / MORE_SEEDS
    asked = replace(cell, seeds=there.seeds)
    more = report_of(train_cell(asked, folder, device, on_epoch, source))
    together = combined(report, more)
    header = json.loads((cell.folder(output) / CONFIG).read_text("utf-8"))
    header["runs"] = [{name: run[name] for name in ("split", "seed")} for run in together["runs"]]
    found = keep(cell, output, together, header)
    clear(folder)
    folder.rmdir()
    return found


def combined(report: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return one report for the runs of two trainings with the same settings and other seeds.

    Means and deviations are computed from all runs. Numbers of solves and the entries of the
    confusion matrix are summed, error bounds are the larger ones. ``seconds`` is the sum;
    ``parts`` has one entry per training, with its seeds, device, versions, commit and time.

    Args:
        report (Mapping[str, Any]): The stored report.
        more (Mapping[str, Any]): The report of other seeds.
    """
    metric = report["metric"]
    runs = sorted((*report["runs"], *more["runs"]), key=lambda run: (run["split"], run["seed"]))
    values = [run["reported"][metric] for run in runs]
    score = {"mean": fmean(values), "std": stdev(values), "n": len(values)}
    solver = Certificates.from_dict(report["solver"])
    solver.merge(Certificates.from_dict(more["solver"]))
    memory = [one["peak_memory"] for one in (report, more)]
    found = {
        **report,
        **{name: more[name] for name in OF_ONE_TRAINING},
        "score": score,
        "scores": {DEFAULT_RULE: {**report["scores"][DEFAULT_RULE], **score}},
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
    return found


def _part(report: Mapping[str, Any]) -> dict[str, Any]:
    seeds = sorted({run["seed"] for run in report["runs"]})
    return {"seeds": seeds, **{name: report[name] for name in OF_ONE_TRAINING}}
