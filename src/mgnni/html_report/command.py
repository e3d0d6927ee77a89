"""The ``mgnni train`` command line that repeats a training."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from mgnni.data.catalog import ENTRIES
from mgnni.data.metric_names import default_metric
from mgnni.data.rules import DEFAULT_RULE
from mgnni.errors import ArgumentError, MgnniError
from mgnni.html_report.results import Result
from mgnni.models.catalog import MGNNI
from mgnni.train.config import Config
from mgnni.train.option_words import option_words
from mgnni.train.presets import PRESETS
from mgnni.train.tuned import find_preset


def command_line(result: Result) -> str:
    """Return the command that repeats a training, with the options that are not defaults.

    Args:
        result (Result): The training. Reports of earlier versions do not have the options of their
            data, which are then left out.
    """
    report, header = result.report, result.header
    origin = header.get("data", {}).get("origin", result.dataset)
    given = {"data": origin, "options": report.get("options", {}), **report.get("input", {})}
    data = str(given["data"])
    words = ["mgnni", "train", data]
    if report["model"] != MGNNI or data not in ENTRIES:  # own data have no usual model
        words += ["--model", str(report["model"])]
    pairs = [f"{name}={value}" for name, value in given.get("options", {}).items()]
    words += ["--option", *pairs] if pairs else []
    for name, value in given.get("columns", {}).items():
        words += option_words(name, value)
    for name in ("num_splits", "folds"):
        words += option_words(name, given[name]) if name in given else []
    if result.splits != tuple(range(report.get("data", {}).get("splits", 0))):
        words += option_words("split", result.splits)
    seeds = sorted({run.seed for run in result.runs})
    words += [] if seeds == [0] else option_words("seeds", seeds)
    rule = report["protocol"]["rule"]
    words += [] if rule == DEFAULT_RULE else option_words("rule", rule)
    usual = (
        ENTRIES[data].metric if data in ENTRIES else default_metric(False, "regression" in report)
    )
    words += [] if result.metric == usual else option_words("metric", result.metric)
    words += ["--one-by-one"] * (report.get("together") is False)
    words += ["--deterministic"] * (header.get("deterministic") is True)
    level = str(report.get("data", {}).get("level", "node"))
    words += _hyperparameters(report.get("config", {}), data if data in ENTRIES else "", level)
    return shlex.join(words)


def _hyperparameters(content: Mapping[str, Any], dataset: str, level: str) -> list[str]:
    """Return the options that differ from the preset, of which the closer one is chosen."""
    try:
        config = Config.from_dict(content)
    except (MgnniError, TypeError):  # of another version: name all of them
        flat = {**content, **content.get("model", {})}
        kept = {k: v for k, v in flat.items() if k not in ("model", "architecture")}
        return [word for k, v in kept.items() for word in option_words(k, v)]
    candidates = []
    for preset in PRESETS:
        try:
            base = find_preset(dataset, level, preset, config.architecture)
        except ArgumentError:  # not every benchmark has every preset
            continue
        changes = _changes(config, base)
        candidates.append([*([] if preset == PRESETS[0] else ["--preset", preset]), *changes])
    return min(candidates, key=len)


def _changes(config: Config, base: Config) -> list[str]:
    words: list[str] = []
    for one, other in ((config, base), (config.model, base.model)):
        for name, value in vars(one).items():
            if name not in ("model", "architecture") and value != getattr(other, name):
                words += option_words(name, value)
    return words
