"""Which configuration each benchmark is trained with unless asked otherwise.

MGNNI's are here, those of all other models in :mod:`mgnni.train.baselines`. ``paper`` follows the
text of the paper, with what it leaves open chosen on validation data; ``authors`` is the released
code. Where the code is all that says how, both are the same.
"""

from __future__ import annotations

from typing import Any

from mgnni.errors import check_choice
from mgnni.models.catalog import MGNNI, find_model
from mgnni.models.mgnni_presets import PRESETS as MODELS
from mgnni.train.baselines import tables
from mgnni.train.config import Config, ModelConfig, from_dict

PRESETS = ("paper", "authors")
KINDS: dict[str, tuple[str, ...]] = {
    "heterophilic": (
        *("cornell", "cornell-fixed", "texas", "wisconsin"),
        *("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered"),
    ),
    "ppi": ("ppi", "ppi-recon"),
    "graphs": ("mutag", "ptc", "ptc-mr", "proteins", "nci1", "imdb-binary", "imdb-multi"),
    "chains": ("chains", "colors"),
}

_SEARCHED = {"epochs": 10_000, "patience": 500, "stopping": "authors"}
_WEBKB: dict[str, Any] = {
    "model": {"input_map": "mlp-relu", "scales": (1, 2, 3)},
    "undirected": True,
    "lr": 0.01,
    "weight_decay": 5e-4,
    **_SEARCHED,
}
_WEBKB_AUTHORS: dict[str, Any] = {
    "model": MODELS["webkb"],
    "undirected": True,
    "lr": 0.5,
    "weight_decay": 5e-6,
    **_SEARCHED,
}
_WIKIPEDIA: dict[str, Any] = {"model": MODELS["wikipedia"], **_SEARCHED}
_PPI: dict[str, Any] = {
    "model": {**MODELS["ppi"], "dropout": 0.0},
    "lr": 0.001,
    "weight_decay": 0.0,
    "batch_size": 2,
    "epochs": 5000,
    "patience": 500,
}
_TU: dict[str, Any] = {
    "model": MODELS["tu"],
    "lr": 0.01,
    "weight_decay": 0.0,
    "epochs": 500,
    "patience": None,
}
_TU_AUTHORS: dict[str, Any] = {**_TU, "shuffle": False}
_PPI_AUTHORS: dict[str, Any] = {**_PPI, "model": MODELS["ppi"], "lr": 0.01, "patience": None}
# Neither text nor code says how chains were trained; these are the settings of EIGNN's.
_CHAINS: dict[str, Any] = {
    "model": {"hidden_channels": None, "input_map": "identity", "scales": (1, 4, 8)},
    "epochs": 2000,
    "patience": 200,
    "stopping": "loss",
}
_PAPER: dict[str, dict[str, Any]] = {
    "wisconsin": {**_WEBKB, "model": {**_WEBKB["model"], "scales": (1, 2)}},
    **dict.fromkeys(("cornell", "cornell-fixed", "texas"), _WEBKB),
    **dict.fromkeys(
        ("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered"), _WIKIPEDIA
    ),
    **dict.fromkeys(KINDS["ppi"], _PPI),
    **dict.fromkeys(KINDS["graphs"], _TU),
    **dict.fromkeys(KINDS["chains"], _CHAINS),
}
_AUTHORS: dict[str, dict[str, Any]] = {
    **_PAPER,
    **dict.fromkeys(("cornell", "texas", "wisconsin", "cornell-fixed"), _WEBKB_AUTHORS),
    **dict.fromkeys(KINDS["ppi"], _PPI_AUTHORS),
    **dict.fromkeys(KINDS["graphs"], _TU_AUTHORS),
}


def preset_for(
    dataset: str, level: str = "node", preset: str = "paper", model: str = MGNNI
) -> Config:
    """Return the configuration for a benchmark, or a sensible one for any other data.

    Args:
        dataset: name of a benchmark, or of anything else.
        level: ``"node"`` or ``"graph"``, for data that has no preset.
        preset: ``"paper"`` or ``"authors"``; only MGNNI has both.
        model: name of the model.
    """
    check_choice("preset", preset, PRESETS)
    if find_model(model).name != MGNNI:
        return from_dict(Config, {**_baseline(model, dataset, level), "architecture": model})
    table = _PAPER if preset == "paper" else _AUTHORS
    if dataset in table:
        data = {**table[dataset]}
        # A model's own preset also says by what its rows are; here the task does.
        data["model"] = {k: v for k, v in data["model"].items() if k != "level"}
        return from_dict(Config, data)
    if level == "graph":
        return Config(ModelConfig(head="graph", dropout=0.1), weight_decay=0.0, epochs=500)
    return Config()


def _baseline(model: str, dataset: str, level: str) -> dict[str, Any]:
    """The settings of another model: for a benchmark, or for those of its kind."""
    table = tables.PRESETS[model]
    kind = next((kind for kind, names in KINDS.items() if dataset in names), None)
    for_kind = table.get(kind or ("graphs" if level == "graph" else "heterophilic"), {})
    found: dict[str, Any] = table.get(dataset) or for_kind.get(dataset) or for_kind
    return found if "model" in found else {"epochs": 500, "patience": 100}
