"""Settings of IGNN."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "ignn": {
        # The row of the table is EIGNN's; neither paper states IGNN's settings there and no script
        # is released. One equilibrium and a linear map as in IGNN's code for chains; optimiser
        # within the search space that MGNNI's text has for CGS (lr .001 to .05, decay 5e-6, 5e-4).
        "heterophilic": {
            "model": {"hidden_channels": 64, "kappa": 0.9, "dropout": 0.5},
            "lr": 0.01,
            "weight_decay": 5e-4,
            "epochs": 1000,
            "patience": 100,
            "stopping": "metric",
        },
        # IGNN's code, nodeclassification/train_IGNN_PPI.py and models_PPI.py: widths 4h, 2h, 2h, h
        # with h = 256, then 121 labels; kappa .98; raw adjacency without self-loops; Adam lr .005
        # (the script's --lr is not used), no weight decay, no dropout in the model, batches of
        # one graph, 1000 epochs, the best test score of all. Patience on validation is ours.
        "ppi": {
            "model": {
                "hidden_channels": 256,
                "widths": (1024, 512, 512, 256),
                "residual": True,
                "kappa": 0.98,
                "dropout": 0.0,
                "normalization": "none",
                "self_loops": False,
            },
            "lr": 0.005,
            "weight_decay": 0.0,
            "epochs": 1000,
            "patience": 100,
            "stopping": "metric",
            "batch_size": 1,
        },
        # IGNN's code, graphclassification/train_IGNN.py and models.py: three equilibria of 64,
        # sum, linear, ReLU, dropout .5, linear; kappa .9 with lambda set to 1 on the normalised
        # graph; Adam lr .001, halved once at epoch 51 (no such schedule here), no weight decay,
        # batches of 128, 200 epochs, the best epoch of every fold.
        "graphs": {
            "model": {
                "hidden_channels": 64,
                "num_layers": 3,
                "kappa": 0.9,
                "dropout": 0.5,
            },
            "lr": 0.001,
            "weight_decay": 0.0,
            "schedule": "constant",
            "epochs": 200,
            "patience": None,
            "batch_size": 128,
        },
        # IGNN's code, nodeclassification/train_IGNN_chains.py and models_chains.py: one
        # equilibrium of 16, rows scaled to length one, dropout .5, linear without bias; kappa .9;
        # directed D^-1/2 (A + I) D^-1/2 by out-degrees; Adam lr .01, decay 5e-4, 2000 epochs and
        # the last of them, gradient of each parameter cut to norm .5 (ours cuts that of a run).
        "chains": {
            "model": {
                "hidden_channels": 16,
                "unit_rows": True,
                "kappa": 0.9,
                "dropout": 0.5,
                "normalization": "out",
            },
            "lr": 0.01,
            "weight_decay": 5e-4,
            "clip": 0.5,
            "epochs": 2000,
            "patience": None,
            "stopping": "loss",
        },
    },
}

# None is stated for IGNN; rates and decays are those that MGNNI's text has for CGS.
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "ignn": {
        "hidden_channels": (16, 32, 64),
        "kappa": (0.8, 0.9, 0.98),
        "dropout": (0.0, 0.5),
        "lr": (0.001, 0.005, 0.01, 0.05),
        "weight_decay": (5e-6, 5e-4),
    },
}
