"""Presets in files: of ``mgnni tune``, of trainings, and those that come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from mgnni.errors import ArgumentError, DataError, check_choice
from mgnni.files import read_object
from mgnni.models.catalog import MGNNI, find_model
from mgnni.train.config import Config
from mgnni.train.presets import PRESETS, TUNED, preset_for

STORED: Any = resources.files("mgnni.train") / "preset_files" / "tuned"  # MODEL-DATA.json

REMEDY = "pass the preset.json of mgnni tune, or the config.json of mgnni train"


def find_preset(
    dataset: str, level: str = "node", preset: str = "paper", model: str | None = None
) -> Config:
    """Return the configuration of a preset: by name, or from a file.

    Args:
        dataset (str): Name of a benchmark, or of anything else.
        level (str, optional): ``"node"`` or ``"graph"``, for data that has no preset.
            (default: :obj:`"node"`)
        preset (str, optional): ``"paper"``, ``"authors"``, ``"tuned"``, or the path of a
            ``preset.json`` of ``mgnni tune`` or a ``config.json`` of ``mgnni train``.
            (default: :obj:`"paper"`)
        model (str, optional): Name of the model. (default: that of the file, or ``"mgnni"``)
    """
    if is_file(preset):
        found = tuned_config(read_object(Path(preset), REMEDY), preset)
        if model not in (None, found.architecture):
            raise ArgumentError(
                f"'model' must be {found.architecture!r}, which {preset} is for (got {model!r}); "
                "leave it out, or choose another preset"
            )
        return found
    model = find_model(model or MGNNI).name
    if check_choice("preset", preset, PRESETS) != TUNED:
        return preset_for(dataset, level, preset, model)
    file = STORED / f"{model}-{dataset}.json"
    if not file.is_file():
        data = dataset or "DATA"
        raise ArgumentError(
            f"'preset' tuned is stored for {', '.join(stored()) or 'no model and data'} (asked "
            f"for: {model}-{data}); run `mgnni tune {data} --model {model}`, and pass its "
            "preset.json as the preset"
        )
    return tuned_config(read_object(file, REMEDY), file.name)


def preset_model(preset: str) -> str:
    """Return the model that a preset is for; a preset with a name is for every model."""
    return (
        tuned_config(read_object(Path(preset), REMEDY), preset).architecture
        if is_file(preset)
        else MGNNI
    )


def is_file(preset: str) -> bool:
    """Whether a preset is a path, not a name."""
    return preset not in PRESETS and (preset.endswith(".json") or Path(preset).is_file())


def stored() -> list[str]:
    """Return the names of the tuned presets in the package, ``MODEL-DATA``."""
    if not STORED.is_dir():
        return []
    return sorted(file.name.removesuffix(".json") for file in STORED.iterdir())


def tuned_config(found: dict[str, Any], name: str) -> Config:
    """Return the configuration in the content of a ``preset.json`` or a ``config.json``.

    Args:
        found (dict[str, Any]): The content of the file.
        name (str): Its name, for error messages.
    """
    if "config" not in found or found.get("command", "tune") != "tune":
        raise DataError(f"{name}: is no preset of mgnni tune and no config.json; {REMEDY}")
    try:
        return Config.from_dict(found["config"])
    except ArgumentError as error:
        raise DataError(
            f"{name}: does not fit this version ({error}); correct it, or make it again"
        ) from error
