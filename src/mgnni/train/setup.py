"""Data and configuration of a training, from what was given for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mgnni.errors import ArgumentError
from mgnni.train.config import Config, changed, with_training_options
from mgnni.train.presets import AUTO
from mgnni.train.source import Source, find_source
from mgnni.train.tuned import find_preset


def find_training(
    data: Any,
    changes: Mapping[str, Any],
    *,
    model: str | None = None,
    preset: str = "paper",
    config: Config | None = None,
    metric: str | None = None,
    **reading: Any,
) -> tuple[Source, Config]:
    """Return the data and the configuration of a training.

    Args:
        data (str or Path or Data or Dataset or list[Data] or Task): The data.
        changes (Mapping[str, Any]): Fields of the configuration or of its model to replace.
        model (str, optional): Name of the model. With ``"auto"``, changes of a model are left to
            its candidates. (default: that of the configuration or the preset)
        preset (str, optional): Name or path of a preset. (default: :obj:`"paper"`)
        config (Config, optional): Configuration instead of a preset. (default: :obj:`None`)
        metric (str, optional): Metric to use instead of that of the task. (default: :obj:`None`)
        **reading (Any): Further arguments of :func:`~mgnni.train.source.find_source`.
    """
    source = find_source(data, metric=metric, **reading)
    if config is None:
        named = None if model == AUTO else model
        config = find_preset(source.preset, source.task.level, preset, named)
    elif model not in (None, config.architecture):
        raise ArgumentError(
            f"'model' must be that of the config, {config.architecture!r} (got {model!r}); leave "
            "one of the two out"
        )
    config = (with_training_options if model == AUTO else changed)(config, changes)
    return source if metric is not None else _balanced(source, config), config


def _balanced(source: Source, config: Config) -> Source:
    """Return the data with the metric of a configuration with balanced class weights.

    Accuracy would select the epochs that ignore rare classes, so balanced accuracy replaces it.
    """
    task = source.task
    if config.class_weight == "none" or task.metric != "accuracy":
        return source
    balanced = task.with_metric("balanced_accuracy")
    balanced.notes += (
        "class_weight balanced: epochs are selected, and the score is given, by balanced_accuracy",
    )
    return replace(source, task=balanced)
