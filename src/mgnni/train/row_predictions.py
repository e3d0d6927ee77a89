"""Predictions of a model that was trained by mini-batches of nodes, for the nodes of its graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgnni.disk.stored_graph import TEST, TRAIN, VAL, blocks
from mgnni.disk.sweep import Sweep
from mgnni.errors import DataError
from mgnni.train.device import find_device
from mgnni.train.fitted import ROW_KIND
from mgnni.train.folder import load_checkpoint
from mgnni.train.prediction import Prediction, decide
from mgnni.train.row_training import RowOptions, certificate, make_row_model

WORDS = {0: "", TRAIN: "train", VAL: "val", TEST: "test"}


@dataclass(frozen=True, eq=False)
class RowPredictions:
    """Predictions for all nodes of a stored graph.

    Attributes:
        ids: Ids of the nodes; their numbers if they have none.
        classes: Names of the classes.
        prediction: Predicted classes, probabilities and weights of the scales.
        scales: The scales.
        labels: Class of each node, -1 if it is unknown.
        split: Set that each node is in; empty if it is in none.
        seed: Seed of the training.
    """

    ids: Any
    classes: tuple[str, ...]
    prediction: Prediction
    scales: tuple[int, ...]
    labels: Tensor
    split: list[str]
    seed: int


def is_row_model(path: Path) -> bool:
    """Return whether a ``model.pt`` is that of a training by mini-batches of nodes."""
    return load_checkpoint(path).get("kind") == ROW_KIND


@torch.no_grad()
def predict_rows(
    path: Path, terms: Path, threshold: float | None = None, device: str = "auto"
) -> RowPredictions:
    """Predict the classes of all nodes of the graph that a model was trained on.

    Args:
        path (Path): The ``model.pt`` of :func:`mgnni.train.minibatch.train_rows`.
        terms (Path): Output folder of :func:`mgnni.disk.precompute.precompute` for the same graph,
            with the scales of the model and at least its γ.
        threshold (float, optional): Probability above which the second of two classes is
            predicted; ``None`` predicts the most probable class. (default: :obj:`None`)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: :obj:`"auto"`)
    """
    found, sweep = load_checkpoint(path), Sweep.open(terms)
    graph, there = sweep.graph, sweep.graph.identity()
    if found["graph"] != there:
        name = next(key for key in there if found["graph"].get(key) != there[key])
        raise DataError(
            f"{terms}: must be terms of the graph that the model was trained on, with {name} "
            f"{found['graph'].get(name)!r} (got {there[name]!r}); other graphs may encode their "
            "features in another way"
        )
    if tuple(found["scales"]) != sweep.terms.scales or found["gamma"] > sweep.terms.gamma:
        raise DataError(
            f"{terms}: must be terms for the scales {found['scales']} and a gamma of at least "
            f"{found['gamma']:g}, as in training (got {list(sweep.terms.scales)} and "
            f"{sweep.terms.gamma:g}); compute others with mgnni precompute"
        )
    options, where = RowOptions(**found["options"]), torch.device(find_device(device))
    model = make_row_model(sweep, replace(options, gamma=found["gamma"])).to(where).eval()
    model.model.load_state_dict(found["state"])
    certificate(model, sweep)
    logits = torch.empty(graph.num_nodes, graph.classes)
    weights = torch.empty(graph.num_nodes, len(sweep.terms.scales))
    for start, stop in blocks(graph.num_nodes, options.batch_size):
        rows = sweep.rows(np.arange(start, stop)).to(where)
        logits[start:stop], weights[start:stop] = model(rows, return_attention=True)
    from mgnni.data.tables.row_ids import read_ids  # needs pyarrow, as the table of predictions

    names = graph.class_names or tuple(map(str, range(graph.classes)))
    return RowPredictions(
        read_ids(graph.folder, graph.num_nodes),
        names,
        decide(logits, weights, multilabel=False, threshold=threshold),
        sweep.terms.scales,
        torch.from_numpy(graph.array("y").astype(np.int64)),
        [WORDS[part] for part in graph.array("part").tolist()],
        options.seed,
    )
