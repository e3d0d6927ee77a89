"""Default hyperparameters of every model on every benchmark, read from ``preset_files``.

A file per model lists its presets: the datasets they are for, and blocks of values. Each block says
where its values come from (``source``, explained in ``shared.json``, and ``note``), and where the
training here differs from that source (``differs``). A block may be the name of a list of blocks in
the same file or in ``shared.json``; later blocks override earlier ones.

MGNNI has two presets per benchmark: ``paper`` follows the text of the paper, with what it leaves
open taken from the released code or chosen on the validation set, and ``authors`` follows the
commands in the README of the released code. A model also has the preset ``tuned`` for the
benchmarks that it was tuned on; see :mod:`mgnni.train.tuned`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from mgnni.errors import ArgumentError, check_choice
from mgnni.models.catalog import MGNNI, find_model
from mgnni.models.mgnni_presets import PRESETS as MODEL_PRESETS
from mgnni.train.config import Config, changed, options_class

AUTO = "auto"  # as a model: one of a portfolio, chosen on validation data
BASES, TUNED = ("paper", "authors"), "tuned"
PRESETS = (*BASES, TUNED)
KINDS: dict[str, tuple[str, ...]] = {
    "heterophilic": (
        *("cornell", "cornell-fixed", "texas", "wisconsin"),
        *("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered"),
    ),
    "ppi": ("ppi", "ppi-recon"),
    "graphs": ("mutag", "ptc", "ptc-mr", "proteins", "nci1", "imdb-binary", "imdb-multi"),
    "chains": ("chains", "colors"),
}


def check_auto(model: str | None, budget: float | None, **given: Any) -> None:
    """Check the options of a portfolio.

    Args:
        model (str, optional): Name of the model, or ``"auto"``.
        budget (float, optional): Minutes for the portfolio; an error for a single model.
        **given (Any): What must not be given with ``"auto"``, by name; ``None`` if it is not.
    """
    if model != AUTO and budget is not None:
        raise ArgumentError(
            f"'budget' is for the choice of a model (got {budget:g} minutes for {model or MGNNI}); "
            "leave it out, or pass model='auto'"
        )
    for name, value in given.items() if model == AUTO else ():
        if value is not None:
            raise ArgumentError(
                f"'{name}' must be left out with model='auto' (got "
                f"{value if isinstance(value, str) else type(value).__name__}), which chooses the "
                "hyperparameters in one process; choose a model"
            )


def preset_for(
    dataset: str, level: str = "node", preset: str = "paper", model: str = MGNNI
) -> Config:
    """Return the configuration of a model for a benchmark, or a default for any other data.

    Args:
        dataset (str): Name of a benchmark or of anything else; empty for your own data.
        level (str, optional): ``"node"`` or ``"graph"``, for data that has no preset.
            (default: :obj:`"node"`)
        preset (str, optional): ``"paper"`` or ``"authors"``; only MGNNI has both.
            (default: :obj:`"paper"`)
        model (str, optional): Name of the model. (default: :obj:`"mgnni"`)
    """
    check_choice("preset", preset, BASES)
    config = Config(options_class(model)(), model)
    return changed(config, _values(model, preset_blocks(dataset, level, preset, model)))


def preset_blocks(dataset: str, level: str, preset: str, model: str) -> Sequence[Any]:
    """Return the blocks of a preset; the most specific one that lists the dataset applies."""
    groups = {**preset_file("shared")["groups"], **KINDS}
    names = [dataset, *(name for name, members in groups.items() if dataset in members)]
    own = level == "node" and not dataset  # not a benchmark
    if len(names) == 1:
        names = ["own nodes" if own else f"other {level}s"]
    for name in names:
        for entry in preset_file(find_model(model).name)["presets"]:
            if name in entry["datasets"] and entry.get("preset", preset) == preset:
                found: Sequence[Any] = entry["settings"]
                return found
    return ["own-nodes" if own else "default"]


def space_for(model: str, level: str = "node") -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each hyperparameter that are worth searching for a model.

    Args:
        model (str): Name of the model.
        level (str, optional): ``"node"``, or ``"graph"`` for the values for whole graphs, where
            the model has others there. (default: :obj:`"node"`)
    """
    name = find_model(model).name
    file = preset_file(name)
    blocks = file.get(f"search {level}s", file["search"])
    return {
        option: tuple(tuple(one) if isinstance(one, list) else one for one in values)
        for option, values in _values(name, blocks).items()
    }


@lru_cache
def preset_file(name: str) -> dict[str, Any]:
    """Return the content of a file of presets: that of a model, or ``"shared"``."""
    file = resources.files("mgnni.train") / "preset_files" / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _values(model: str, blocks: Sequence[Any]) -> dict[str, Any]:
    """Merge the values of blocks, and of those that they name."""
    named = {**preset_file("shared")["blocks"], **preset_file(model).get("blocks", {})}
    values: dict[str, Any] = {}
    for block in blocks:
        if isinstance(block, str):
            values.update(_values(model, named[block]))
        elif "from_preset" in block:  # those of MGNNI.from_preset; the task decides the level
            own = MODEL_PRESETS[block["from_preset"]]
            values.update({name: value for name, value in own.items() if name != "level"})
        else:
            values.update(block["values"])
    return values
