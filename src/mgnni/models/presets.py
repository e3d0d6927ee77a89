"""The four configurations of MGNNI that its authors released, as arguments of the model.

They differ from the text of the paper in places; where they do, these follow the released code,
which is what the published numbers came from.

``webkb``
    Cornell, Texas, Wisconsin; make the graph undirected. The features themselves are the bias, so
    the equilibria are as wide as the features.
``wikipedia``
    Chameleon, Squirrel, directed: every node gathers from the nodes it points to.
``ppi``
    PPI; a deep head 2048 wide. Batches of graphs with one row a node.
``tu``
    Graph classification.
"""

from __future__ import annotations

from typing import Any

from mgnni.errors import check_choice

PRESETS: dict[str, dict[str, Any]] = {
    "webkb": {
        "hidden_channels": None,  # as many as features
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
    """Return the arguments of a preset for features of this width."""
    options = dict(PRESETS[check_choice("name", name, PRESETS)])
    if options["hidden_channels"] is None:
        options["hidden_channels"] = in_channels
    return {"scales": (1, 2), "gamma": 0.8, **options}
