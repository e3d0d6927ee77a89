"""A trained model on its graph as a :class:`torch.export.ExportedProgram`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.files import atomic_write
from mgnni.graph.propagation import Propagation
from mgnni.layers.implicit_graph import ImplicitGraph
from mgnni.layers.reservoir import Reservoir
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import GraphModel
from mgnni.train.fitted import Fitted
from mgnni.version import __version__

SUFFIX = ".pt2"
INFO = "mgnni.json"  # name of the description inside of an exported file
CLOSE = 1e-6  # largest difference between a program and its model, for numbers up to one
# Modules that iterate until numbers say so, which a recorded graph cannot.
ITERATED = (SteadyState, Reservoir, ImplicitGraph)


class Scores(nn.Module):
    r"""The probabilities of the classes of all nodes of a fixed graph, or the predicted numbers.

    Args:
        model (GraphModel): The model, in evaluation mode.
        propagation (Propagation): The operator of the graph.
        fitted (Fitted): Says whether a node has one class, several labels, or numbers.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`
        - **output:** probabilities or numbers :math:`(|\mathcal{V}|, C)`
    """

    def __init__(self, model: GraphModel, propagation: Propagation, fitted: Fitted) -> None:
        super().__init__()
        self.model, self.propagation = model, propagation
        self.multilabel, self.regression = fitted.multilabel, fitted.regression

    def forward(self, x: Tensor) -> Tensor:
        """Returns the probabilities or numbers."""
        logits: Tensor = self.model(x, self.propagation)
        if self.regression:
            return logits
        return logits.sigmoid() if self.multilabel else logits.softmax(1)


@torch.no_grad()
def export_program(
    fitted: Fitted, graphs: Sequence[Data], run: int | None = None
) -> torch.export.ExportedProgram:
    """Returns a program that maps the features of all nodes to the probabilities of all classes.

    The graph and the weights are constants of the program, the features its only input. Its
    example input are the features of the graph.

    Args:
        fitted (Fitted): A trained model for nodes.
        graphs (Sequence[Data]): The graph, or several whose nodes are numbered one after another.
        run (int, optional): Index of the run; ``None`` uses the best one. (default: :obj:`None`)
    """
    model = fitted.model(run)
    _check(fitted, model)
    batch = Batch.from_data_list(fitted.inputs(graphs))
    several = batch.batch if len(graphs) > 1 else None
    x = batch.x.to(next(model.parameters()).dtype)
    propagation = model.propagation(x, batch.edge_index, batch.edge_weight, several)
    scores = Scores(model.requires_grad_(False), propagation, fitted).eval()
    # This pass also computes what follows from the graph, so that it is not recorded.
    expected = scores(x)
    program = torch.export.export(scores, (x,), strict=False)
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # which names folders of this machine
    gap = float((program.module()(x) - expected).abs().max())
    if not gap <= CLOSE * max(1.0, float(expected.abs().max())):
        raise MgnniError(
            f"the exported program must equal the model up to {CLOSE:g} (got a difference of "
            f"{gap:.1e}); please report this model"
        )
    return program


def _check(fitted: Fitted, model: GraphModel) -> None:
    """Raises an error that says why a model cannot be exported, if it cannot."""
    if fitted.level == "graph":
        raise ArgumentError(
            "'model' must predict nodes to be exported (got one of whole graphs), because an "
            "exported program holds one fixed graph; use mgnni predict for new graphs"
        )
    iterated = next((one for one in model.modules() if isinstance(one, ITERATED)), None)
    if iterated is not None:
        raise ArgumentError(
            f"'model' must not have a nonlinear equation to be exported (got "
            f"{fitted.config.architecture}), because the number of its steps depends on the "
            "features; use mgnni predict, or train mgnni or eignn"
        )


def save_program(
    program: torch.export.ExportedProgram, path: str | Path, info: dict[str, Any]
) -> None:
    """Writes a program and a description of it to a file that ends in ``.pt2``.

    Args:
        program (torch.export.ExportedProgram): The program.
        path (str or Path): The file.
        info (dict[str, Any]): Plain data, which is stored as ``mgnni.json`` in the file.
    """
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={INFO: json.dumps(info)})
    with atomic_write(Path(path)) as file:
        file.write(buffer.getvalue())


def export_model(
    fitted: Fitted, path: str | Path, data: Any = None, *, run: int | None = None
) -> dict[str, Any]:
    """Writes a trained model on its graph to a file, and returns the description in it.

    ``torch.export.load(path).module()`` maps the features of all nodes to the probabilities of all
    classes, in a process that has imported :mod:`mgnni.serve`.

    Args:
        fitted (Fitted): A trained model for nodes.
        path (str or Path): The file, which must end in ``.pt2``.
        data (str or Path or Data or Dataset or list[Data], optional): The graph; ``None`` uses that
            of the training. (default: :obj:`None`)
        run (int, optional): Index of the run; ``None`` uses the best one. (default: :obj:`None`)
    """
    check_path(path)
    return export_graphs(fitted, path, fitted.read(data), run)


def export_graphs(
    fitted: Fitted, path: str | Path, graphs: Sequence[Data], run: int | None = None
) -> dict[str, Any]:
    """As :func:`export_model`, for graphs whose features are those of the training already."""
    program = export_program(fitted, graphs, run)
    names = None if fitted.schema is None else list(fitted.schema.feature_names)
    info = {
        "mgnni": __version__,
        "torch": torch.__version__,
        "model": fitted.config.architecture,
        "run": fitted.best if run is None else run,
        "nodes": sum(int(graph.num_nodes) for graph in graphs),
        "features": fitted.num_features,
        "feature_names": names,
        "schema": None if fitted.schema is None else fitted.schema.to_dict(),
        "classes": list(fitted.classes),
        "multilabel": fitted.multilabel,
        "regression": fitted.regression,
        "threshold": fitted.threshold(run),
    }
    save_program(program, path, info)
    return info


def check_path(path: str | Path) -> None:
    """Raises an error unless a program can be written to this file."""
    path = Path(path)
    if path.suffix != SUFFIX or path.is_dir() or not path.parent.is_dir():
        raise DataError(
            f"{path}: an exported model must be a file that ends in {SUFFIX}, in a folder that "
            "exists; rename it, or create the folder"
        )
