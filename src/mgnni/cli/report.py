"""The report of the quick start: one plain dictionary that the screen, picture and file share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mgnni.cli.study import Outcome, Settings
from mgnni.cli.wording import model_name
from mgnni.train.report import versions

FORMAT = 1
BINS = 4  # of the hops beyond the coloured nodes


def make_report(
    settings: Settings,
    outcomes: Sequence[Outcome],
    files: Mapping[str, Path],
    seconds: float,
) -> dict[str, Any]:
    """Gather everything that was asked, measured and certified."""
    hops = settings.length - settings.colored
    return {
        "command": "quickstart",
        "format": FORMAT,
        "task": "colour counting on undirected chains",
        "rule": "validation: the epoch best on validation chains, by accuracy, then by loss; "
        "test chains are used once, at the end",
        "config": asdict(settings),
        "example": settings.data(0).x[: settings.colored].argmax(1).tolist(),
        "chance": 0.5,
        "models": [_model(outcome, hops) for outcome in outcomes],
        "seconds": seconds,
        "device": "cpu",
        "threads": 1,
        "versions": versions(),
        "files": {name: str(path) for name, path in files.items()},
    }


def hop_bins(hops: int) -> list[tuple[int, int]]:
    """Split ``0 ... hops`` into the coloured part, 0, and at most four equal stretches."""
    width = max(math.ceil(hops / BINS), 1)
    return [(0, 0), *((a, min(a + width - 1, hops)) for a in range(1, hops + 1, width))]


def _model(outcome: Outcome, hops: int) -> dict[str, Any]:
    return {
        "name": model_name(outcome.scales),
        "scales": list(outcome.scales),
        "test_accuracy": _spread(outcome.accuracy),
        "by_distance": _by_distance(outcome.by_hop, hops),
        "by_hop": _columns(outcome.by_hop),
        "float64": {  # the same weights, solved again to exact_tol
            "test_accuracy": _spread(outcome.exact),
            "by_distance": _by_distance(outcome.exact_by_hop, hops),
            "by_hop": _columns(outcome.exact_by_hop),
        },
        "val_accuracy": _spread(outcome.val_accuracy),
        "best_epoch": outcome.best_epoch,
        **outcome.certificates.to_dict(),
        "seconds": outcome.seconds,
    }


def _by_distance(by_hop: Sequence[Sequence[float]], hops: int) -> list[dict[str, Any]]:
    """Accuracy in every stretch of hops; hops beyond the colours have one node a chain each."""
    return [
        {"hops": [a, b], **_spread([statistics.fmean(run[a : b + 1]) for run in by_hop])}
        for a, b in hop_bins(hops)
    ]


def _columns(by_hop: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    return [{"hop": hop, **_spread(runs)} for hop, runs in enumerate(zip(*by_hop, strict=True))]


def _spread(runs: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (none of a single run), and the runs themselves."""
    std = statistics.stdev(runs) if len(runs) > 1 else None
    return {"mean": statistics.fmean(runs), "std": std, "runs": list(runs)}
