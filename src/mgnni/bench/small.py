"""A training step on a batch of molecules, against the explicit network for such graphs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from mgnni.bench import explicit
from mgnni.bench.compete import settle
from mgnni.bench.epoch import LARGEST, Field
from mgnni.bench.problems import small_problem, trained_factor
from mgnni.bench.row import Row
from mgnni.bench.settings import Settings
from mgnni.bench.study import Study
from mgnni.train.presets import preset_for


def rows(settings: Settings) -> Iterator[Row]:
    """Time one step on a batch of 128 graphs of 18 nodes: forward, loss, backward, Adam."""
    task = small_problem(settings.quick)
    config = preset_for("mutag")
    width = config.model.hidden_channels or task.num_features
    generator = torch.Generator().manual_seed(0)
    factor = trained_factor(len(config.model.scales), width, LARGEST, generator)
    field = Field(Study(task, config, factor, settings.device), settings, validate=False)
    entrants = [
        field.textbook(),
        field.ours(),
        field.ours_in_a_loop(),
        field.explicit("GIN", explicit.gin),
    ]
    yield from settle(f"{task.name}, h = {width}", entrants, settings)
