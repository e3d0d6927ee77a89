"""What ``mgnni range`` measures: a graph, or a trained model with its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.utils import to_undirected

from mgnni.cli.arguments import UsageError
from mgnni.cli.trained_on import joined, of_task, trained_on
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_scales
from mgnni.layers.blocks import DirectedEquilibrium
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.models.base import GraphModel
from mgnni.range.advice import advise, recommend
from mgnni.range.hops import influence_hops
from mgnni.range.measure import States, jacobian_influence
from mgnni.range.profile import hop_profile
from mgnni.range.study import Ranges, Setting, sample_nodes, study_range
from mgnni.train.fitted import Fitted
from mgnni.train.learner import prepared
from mgnni.train.source import find_source

if TYPE_CHECKING:
    from mgnni.cli.range import Range

PREDICTIONS = 64  # nodes whose predictions are differentiated, unless asked otherwise
OUT = "-out"  # in the name of a layer against the edges
FEW_CLASSES = 10  # up to which there is one cotangent per class


def measure_data(command: Range, options: dict[str, Any]) -> dict[str, Any]:
    """Return the range of a graph, for every gamma with every scale.

    Args:
        command (Range): The command with its options.
        options (dict[str, Any]): Options of the benchmark.
    """
    from mgnni.cli.range import GAMMAS, SCALES

    gammas, scales = command.gamma or GAMMAS, check_scales(command.scales or SCALES)
    eigenvalue = dict.fromkeys(scales, 1.0)
    if command.initial:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(command.seed)
            eigenvalue = eigenvalues(MultiscaleEquilibrium(command.channels, scales))
    settings = [Setting(gamma, one, eigenvalue[one]) for gamma in gammas for one in scales]
    source = of_task(find_source(command.data, options=options, tables=command.tables).task)
    graph = joined(source.graphs)
    edge_index, weight = graph.edge_index, graph.edge_weight
    if command.undirected:
        edge_index, weight = to_undirected(
            edge_index, weight, num_nodes=graph.num_nodes, reduce="max"
        )
    propagation = Propagation.from_edge_index(
        edge_index,
        graph.num_nodes,
        weight,
        normalization=command.normalization,
        self_loops=not command.no_self_loops,
        dtype=torch.float64,
    )
    study = study_range(
        propagation,
        settings,
        theta=command.theta,
        samples=command.samples,
        labeled=source.labeled,
        seed=command.seed,
    )
    return _result(source.name, propagation, study)


def measure_training(command: Range, options: dict[str, Any]) -> dict[str, Any]:
    """Return the range of a trained model: of its equilibria, and of its predictions.

    Args:
        command (Range): The command with its options.
        options (dict[str, Any]): Options of the benchmark.
    """
    path, theta, samples, seed = Path(command.data), command.theta, command.samples, command.seed
    fitted = Fitted.load(path)
    model = fitted.model(command.run_number)
    source = trained_on(path, options, fitted, command.run_number, command.moved)
    graph = prepared(joined(source.graphs), fitted.config)
    batch = graph.batch if len(source.graphs) > 1 else None
    x = graph.x.to(next(model.parameters()).dtype)
    propagation = model.propagation(x.double(), graph.edge_index, graph.edge_weight, batch)
    layers = _layers(model)
    study, names = _study_layers(
        propagation, layers, theta=theta, samples=samples, labeled=source.labeled, seed=seed
    )
    measured, few = model, len(fitted.classes) <= FEW_CLASSES
    if fitted.level == "graph":
        if not layers:
            raise UsageError(
                f"{path} predicts whole graphs with a model without equilibria, whose range is "
                "not defined by nodes; measure its data instead"
            )
        measured, few = States(model), False  # type: ignore[assignment]
    nodes = sample_nodes(propagation.num_nodes, samples or PREDICTIONS, seed)
    influence = jacobian_influence(
        measured,
        x,
        propagation,
        nodes,
        outputs="all" if few else "random",
        seed=seed,
    )
    profile = hop_profile(influence, influence_hops(propagation, nodes, influence))
    start = float(profile.largest[0])
    found = _result(source.name, propagation, study)
    found["run"] = str(path)
    if len(layers) > 1:
        for one, name in zip(found["ranges"], names, strict=True):
            one["layer"] = name
    found["model"] = {
        "architecture": fitted.config.architecture,
        "of": "predictions" if fitted.level == "node" else "states",
        "range": profile.effective_range(theta * start) if start > 0 else 0,
        "profile": profile.to_dict(),
    }
    return found


def _layers(model: GraphModel) -> dict[str, MultiscaleEquilibrium]:
    """Return the equilibrium layers of a model; the name of one against the edges ends in out."""
    against = [one.against for one in model.modules() if isinstance(one, DirectedEquilibrium)]
    found: dict[str, MultiscaleEquilibrium] = {}
    for one in model.modules():
        if isinstance(one, MultiscaleEquilibrium):
            out = any(one is other for other in against)
            number = 1 + sum(name.endswith(OUT) == out for name in found)
            found[f"{number}{OUT if out else ''}"] = one
    return found


def _study_layers(
    propagation: Propagation, layers: Mapping[str, MultiscaleEquilibrium], **options: Any
) -> tuple[Ranges, list[str]]:
    """Return the ranges of all layers, and the name of the layer of each."""
    studies, names = [], []
    for out, operator in ((False, propagation), (True, propagation.adjoint())):
        some = {name: layer for name, layer in layers.items() if name.endswith(OUT) == out}
        values = {name: eigenvalues(layer) for name, layer in some.items()}
        settings = [
            Setting(layer.gamma, scale, value)
            for name, layer in some.items()
            for scale, value in values[name].items()
        ]
        names += [name for name in some for _ in values[name]]
        if settings or not (out or layers):
            studies.append(study_range(operator, settings, **options))
    ranges = tuple(one for study in studies for one in study.ranges)
    longest = max(study.longest for study in studies)
    return replace(studies[0], ranges=ranges, longest=longest), names


def eigenvalues(layer: MultiscaleEquilibrium) -> dict[int, float]:
    """Return the largest eigenvalue of the weight of each scale, with its learned factor."""
    weight = layer.weight(torch.float64, torch.device("cpu")).detach()
    largest = torch.linalg.eigvalsh(weight)[:, -1]
    return dict(zip(layer.scales, largest.clamp(0.0, 1.0).tolist(), strict=True))


def _result(name: str, propagation: Propagation, study: Ranges) -> dict[str, Any]:
    symmetric = propagation.symmetric
    return {
        "command": "range",
        "data": name,
        "run": None,
        "graph": {
            "nodes": propagation.num_nodes,
            "entries": propagation.pattern.nnz,
            "undirected": symmetric,
            "normalization": propagation.normalization,
        },
        "theta": study.theta,
        "measured_nodes": len(study.nodes),
        "longest": study.longest,
        "is_diameter": len(study.nodes) == propagation.num_nodes,
        "ranges": [one.to_dict() for one in study.ranges],
        "model": None,
        "advice": {
            "text": recommend(study, symmetric=symmetric),
            "scales": [
                vars(one) for one in advise(study.longest, symmetric=symmetric, theta=study.theta)
            ],
        },
    }
