"""Settings of EIGNN, GIND and MIGNN."""

from __future__ import annotations

from typing import Any

from mgnni.train.baselines.common import by_family

_EIGNN_WEBKB = {
    # README of the code, for the university data [code]; the rule of selection is that of MGNNI's
    # code ("authors").
    "model": {"hidden_channels": None, "gamma": 0.8, "dropout": 0.0, "normalization": "sym"},
    "undirected": True,
    "lr": 0.8,
    "weight_decay": 5e-6,
    "epochs": 1000,  # 10,000 and patience 500 there; the width of 1,703 makes an epoch dear [ours]
    "patience": 100,
    "stopping": "authors",
}
_EIGNN_WIKIPEDIA = {
    # The authors take the graph as it is, D_out^-1/2 (A + I) D_out^-1/2, along the edges [code];
    # the published numbers come from their closed form, which is wrong there (variant "published").
    # Learning rate and weight decay are not stated. Of rates .001 to .8 and decays 5e-6 and 5e-4
    # one of the two best on validation data, .01 being level with it; on the undirected graph,
    # where a solve is several times cheaper. In a trial on three splits a patience of 500, that of
    # the code, chose the same epochs [ours].
    **_EIGNN_WEBKB,
    "model": {"hidden_channels": None, "gamma": 0.8, "dropout": 0.0, "normalization": "sym"},
    "lr": 0.1,
    "epochs": 1500,
    "patience": 100,
}


def _gind(
    hidden: int,
    rescale: bool,
    state_dropout: float,
    lr: float,
    weight_decay: float,
    undirected: bool | None,
) -> dict[str, Any]:
    # config.yaml of the node tasks [code], with its rate and decay of the explicit part, rounded;
    # ours has one for all.
    return {
        "model": {
            "hidden_channels": hidden,
            "rescale": rescale,
            "double_linear": True,
            "state_dropout": state_dropout,
            "dropout": 0.0,
            "self_loops": False,
        },
        "undirected": undirected,
        "lr": lr,
        "weight_decay": weight_decay,
        "epochs": 1000,
        "patience": 200,
        "stopping": "metric",
    }


def _gind_graphs(dropout: float, lr: float, epochs: int) -> dict[str, Any]:
    # config.yaml of the graph tasks [code]; the rate goes down linearly there, ours along a cosine,
    # and is rounded.
    return {
        "model": {
            "hidden_channels": 32,
            "rescale": True,
            "double_linear": True,
            "dropout": dropout,
            "self_loops": False,
        },
        "lr": lr,
        "weight_decay": 0.0,
        "epochs": epochs,
        "patience": None,
        "batch_size": 128,
        "schedule": "cosine",
    }


PRESETS: dict[str, dict[str, Any]] = {
    "eignn": {
        "heterophilic": by_family(_EIGNN_WEBKB, _EIGNN_WIKIPEDIA),
        # Not stated: MGNNI's own for PPI, head and training [P], with its one scale.
        "ppi": {
            "model": {
                "hidden_channels": None,
                "gamma": 0.8,
                "dropout": 0.0,
                "head": "residual",
                "head_channels": 2048,
                "head_layers": 4,
                "normalization": "sym",
            },
            "lr": 0.001,
            "weight_decay": 0.0,
            "batch_size": 2,
            "epochs": 5000,
            "patience": 500,
        },
        # "3-layer MLP with ReLU", a sum, "2-layer MLP", gamma .8; rate and decay from MGNNI's
        # search; 32 hidden as MGNNI [P].
        "graphs": {
            "model": {
                "hidden_channels": None,
                "gamma": 0.8,
                "dropout": 0.0,
                "head": "graph",
                "head_channels": 32,
                "head_layers": 3,
                "normalization": "sym",
            },
            "lr": 0.01,
            "weight_decay": 0.0,
            "epochs": 500,
            "patience": None,
        },
        # train_EIGNN_chains.py and models_chains.py [code]. States fall off geometrically along a
        # directed chain and are scaled to length one afterwards, so the tolerance decides how far a
        # label is seen: a trial on 10 chains of 100 nodes gave 82 % with 1e-6 in float32, 100 %
        # with 1e-14 in float64, and 100 % with variant "published" [ours].
        "chains": {
            "model": {
                "hidden_channels": None,
                "gamma": 0.8,
                "dropout": 0.5,
                "unit_rows": True,
                "normalization": "out",
                "tol": 1e-14,
            },
            "precision": "64",
            "lr": 0.01,
            "weight_decay": 5e-4,
            "epochs": 2000,
            "patience": 200,
            "stopping": "loss",
        },
    },
    "gind": {
        "heterophilic": {
            "cornell": _gind(128, True, 0.7, 0.046, 1e-4, True),
            "cornell-fixed": _gind(128, True, 0.7, 0.046, 1e-4, True),
            "texas": _gind(128, True, 0.5, 0.028, 5e-4, True),
            "wisconsin": _gind(128, True, 0.6, 0.019, 1e-4, True),
            **dict.fromkeys(
                ("chameleon", "chameleon-filtered"), _gind(256, False, 0.0, 0.012, 1e-5, None)
            ),
            **dict.fromkeys(
                ("squirrel", "squirrel-filtered"), _gind(256, False, 0.0, 0.025, 0.0, None)
            ),
        },
        # config.yaml [code]: batches of one graph; the rate is divided by ten every 1000 epochs
        # there.
        "ppi": {
            "model": {
                "hidden_channels": 256,
                "rescale": False,
                "double_linear": True,
                "dropout": 0.0,
                "self_loops": True,
            },
            "lr": 0.004,
            "weight_decay": 0.0,
            "batch_size": 1,
            "epochs": 8000,
            "patience": 2000,
            "schedule": "cosine",
        },
        "graphs": {
            "mutag": _gind_graphs(0.2, 0.033, 1000),
            **dict.fromkeys(("ptc", "ptc-mr"), _gind_graphs(0.4, 0.0011, 1500)),
            "proteins": _gind_graphs(0.4, 0.0025, 1500),
            "nci1": _gind_graphs(0.0, 0.001, 2000),
            **dict.fromkeys(
                ("imdb-binary", "imdb-multi"), _gind_graphs(0.4, 0.0025, 1500)
            ),  # not run by them; as proteins [ours]
        },
        # Not run by them; EIGNN's training [ours].
        "chains": {
            "model": {"hidden_channels": 16, "dropout": 0.5},
            "lr": 0.01,
            "weight_decay": 5e-4,
            "epochs": 2000,
            "patience": 200,
            "stopping": "loss",
        },
    },
    "mignn": {
        # Not run by them; MGNNI's search space and EIGNN's budget [ours].
        "heterophilic": {
            "model": {"hidden_channels": 64, "dropout": 0.5},
            "undirected": True,
            "lr": 0.01,
            "weight_decay": 5e-4,
            "epochs": 1000,
            "patience": 200,
            "stopping": "metric",
        },
        # Not run by them [ours].
        "ppi": {
            "model": {"hidden_channels": 256, "dropout": 0.0},
            "lr": 0.005,
            "weight_decay": 0.0,
            "batch_size": 2,
            "epochs": 1000,
            "patience": 100,
        },
        # tu.yaml [code]: all graphs in one batch of at most 1024; 80/10/10, patience on validation
        # accuracy.
        "graphs": {
            "model": {"hidden_channels": 16, "dropout": 0.4},
            "lr": 0.008,
            "weight_decay": 5e-4,
            "batch_size": 1024,
            "epochs": 2000,
            "patience": 200,
            "stopping": "metric",
        },
        # synth_chains.yaml [code]; chains are made undirected there, and the norm of a gradient is
        # cut at .5 per parameter.
        "chains": {
            "model": {"hidden_channels": 16, "dropout": 0.4, "unit_rows": True},
            "undirected": True,
            "lr": 0.008,
            "weight_decay": 5e-4,
            "epochs": 2000,
            "patience": 200,
            "stopping": "loss",
            "clip": 0.5,
        },
    },
}

SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    # MGNNI's for heterophilic graphs [P], the rate of EIGNN's README added.
    "eignn": {"lr": (0.01, 0.05, 0.1, 0.5, 0.8), "weight_decay": (5e-6, 5e-4), "gamma": (0.8,)},
    # Around config.yaml, which was found by a search that is not described [code].
    "gind": {
        "hidden_channels": (32, 128, 256),
        "lr": (0.001, 0.01, 0.03),
        "weight_decay": (0.0, 1e-5, 1e-4, 5e-4),
        "state_dropout": (0.0, 0.5, 0.7),
        "rescale": (True, False),
    },
    # Around tu.yaml and synth_chains.yaml [code]; the parametrisations of its paper.
    "mignn": {
        "hidden_channels": (16, 64),
        "lr": (0.001, 0.008, 0.03),
        "weight_decay": (0.0, 5e-4),
        "dropout": (0.0, 0.4),
        "parametrization": ("orthogonal", "monotone"),
    },
}
