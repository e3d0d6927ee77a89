"""Choices, and other details of options that fields of configurations and tables do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgnni.data.metric_names import METRICS
from mgnni.data.rules import RULES
from mgnni.data.tables import column_names as tables
from mgnni.data.tables.schema import TASKS
from mgnni.train.config import CLASS_WEIGHTS, PRECISIONS, SCHEDULES, STOPPING
from mgnni.train.presets import PRESETS

# Repeated here because the modules that define them are slow to import; a test compares them.
CHOICES: dict[str, Sequence[str]] = {
    "metric": METRICS,
    "device": ("auto", "cpu", "cuda"),
    "partition": ("order", "metis"),
    "rule": tuple(RULES),
    "preset": PRESETS,
    "schedule": SCHEDULES,
    "stopping": STOPPING,
    "class_weight": CLASS_WEIGHTS,
    "precision": PRECISIONS,
    "input_map": ("mlp", "mlp-relu", "identity", "graph"),
    "fusion": ("attention", "mean", "concat"),
    "contraction": ("frobenius", "spectral", "identity"),
    "directions": ("in", "out", "both"),
    "head": ("linear", "mlp", "residual", "graph"),
    "normalization": ("auto", "sym", "dir", "out", "row", "none"),
    "flow": ("source_to_target", "target_to_source"),
    "solver": tuple(
        "auto anderson cg chebyshev deflated gmres picard series spectral wide dense".split()
    ),
    "memory": ("fast", "low", "half"),
    "log": ("tensorboard", "wandb", "trackio"),
}
MAP_SOLVERS = ("anderson", "picard")  # of models whose equation is not linear


def _column(*names: str) -> dict[str, Any]:
    unset = f"column {', '.join(names[:-1])} or {names[-1]}"
    return {"unset": unset, "literal": True}  # a column may be named none


FILE_DETAILS: dict[str, Mapping[str, Any]] = {
    "id": _column(*tables.ID_NAMES),
    "label": _column(*tables.LABEL_NAMES),
    "task": {"choices": TASKS},
    "split_column": _column("split", "split_0, split_1 ...", "train_mask ..."),
    "features": {"unset": ""},
    "ignore": {"unset": "none"},
    "categorical": {"unset": "columns of text"},
    "source": _column(*tables.SOURCE_NAMES),
    "target": _column(*tables.TARGET_NAMES),
    "weight": _column(*tables.WEIGHT_NAMES),
    "graph": _column(*tables.GRAPH_NAMES),
    "delimiter": {"unset": "", "metavar": "CHARACTER"},
    "degree": {"switch": True, "unset": ""},
    "standardize": {"switch": True, "unset": ""},
}
