"""The settings of a training, read from the ``config.json`` that it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgnni.data.rules import get_rule
from mgnni.errors import ArgumentError, DataError, closest
from mgnni.files import read_object
from mgnni.train.tuned import tuned_config

REMEDY = "pass the config.json that mgnni train wrote"
# What a file may hold: the data and the machine do not carry over, the other entries do.
IGNORED = ("format", "data", "device", "versions", "portfolio")
ENTRIES = (*IGNORED, "config", "runs", "rule", "metric", "together", "deterministic")


def with_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of ``mgnni train`` with those of the file that ``config`` names, if it is one.

    The file becomes the preset. Options that are given override those of the file.

    Args:
        values (Mapping[str, Any]): Options that are given, by name.
    """
    path = values.get("config")
    if path is None:
        return dict(values)
    if values.get("preset", "paper") != "paper":
        raise ArgumentError(
            f"'config' has all hyperparameters (got also preset={values['preset']!r}); leave one "
            "of the two out"
        )
    file = path / "config.json" if path.is_dir() else path
    return {**read_options(file), **values, "preset": str(file)}


def read_options(file: Path) -> dict[str, Any]:
    """Return splits, seeds, rule, metric and switches of a training, as options.

    Args:
        file (Path): A ``config.json``. Only its ``config`` is required.

    Raises:
        DataError: The file cannot be read, or an entry is unknown or has a wrong value.
    """
    found = read_object(file, REMEDY)
    for name in found:
        if name not in ENTRIES:
            near = closest(name, ENTRIES)
            hint = f"did you mean {near!r}?" if near else REMEDY
            raise DataError(f"{file}: unknown entry {name!r}; {hint}")
    tuned_config(found, str(file))  # an error in it should come before any other
    try:
        return _options(found)
    except (ArgumentError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{file}: must hold the settings of a training (got a wrong entry: {reason}); {REMEDY}"
        ) from error


def _options(found: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "runs" in found:
        splits = sorted({int(run["split"]) for run in found["runs"]})
        options["seeds"] = tuple(dict.fromkeys(int(run["seed"]) for run in found["runs"]))
        # If all splits were trained, all splits of other data are meant.
        if splits != list(range(found.get("data", {}).get("splits", 0))):
            options["split"] = tuple(map(str, splits))
    if "rule" in found:
        options["rule"] = get_rule(found["rule"]).name
    if "metric" in found:
        options["metric"] = str(found["metric"])
    if found.get("together") is False:
        options["one_by_one"] = True
    if found.get("deterministic") is True:
        options["deterministic"] = True
    return options
