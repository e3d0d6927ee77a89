"""The four configurations of MGNNI that its authors released, as arguments of the model.

Where they differ from the text of the paper, they follow the released code, which produced the
published results.

``webkb``
    Cornell, Texas and Wisconsin, with an undirected graph. The bias is the features themselves, so
    that the equilibria have as many channels as the features.
``wikipedia``
    Chameleon and Squirrel, with a directed graph. Each node aggregates its out-neighbours.
``ppi``
    PPI, with a deep head of width 2048 and logits per node of batches of graphs.
``tu``
    Graph classification.
"""

from __future__ import annotations

from typing import Any

from mgnni.errors import check_choice

PRESETS: dict[str, dict[str, Any]] = {
    "webkb": {
        "hidden_channels": None,  # the number of features
        "input_map": "identity",
        "dropout": 0.5,
        "normalization": "sym",
        "level": "node",
    },
    "wikipedia": {
        "hidden_channels": 64,
        "input_map": "mlp",
        "dropout": 0.5,
        "batch_norm": True,
        "normalization": "out",
        "self_loops": False,
        "flow": "target_to_source",
        "level": "node",
    },
    "ppi": {
        "hidden_channels": None,
        "input_map": "identity",
        "dropout": 0.1,
        "head": "residual",
        "head_channels": 2048,
        "head_layers": 4,
        "normalization": "sym",
        "level": "node",
    },
    "tu": {
        "hidden_channels": 32,
        "input_map": "mlp",
        "input_widths": (64, 32),
        "dropout": 0.0,
        "head": "graph",
        "head_layers": 3,
        "normalization": "sym",
        "level": "graph",
    },
}


def preset(name: str, in_channels: int) -> dict[str, Any]:
    """Return the arguments of a preset.

    Args:
        name (str): :obj:`"webkb"`, :obj:`"wikipedia"`, :obj:`"ppi"` or :obj:`"tu"`.
        in_channels (int): Number of features.
    """
    options = dict(PRESETS[check_choice("name", name, PRESETS)])
    if options["hidden_channels"] is None:
        options["hidden_channels"] = in_channels
    return {"scales": (1, 2), "gamma": 0.8, **options}
