"""Explanations of trained models, and of any model on a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from mgnni.data.assessment.threshold import positive_probability
from mgnni.errors import ArgumentError, check_choice, check_int
from mgnni.explain.attribution import attribute_equilibrium, attribute_model
from mgnni.explain.explanation import Explanation
from mgnni.explain.gradients import STEPS
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphModule
from mgnni.models.mgnni import MGNNI
from mgnni.range.hops import influence_hops
from mgnni.range.measure import accurate
from mgnni.train.fitted import Fitted

BASELINES = ("zero", "mean")
OTHERS = "others"  # the mean of all other logits
TOL = 1e-11  # of the equations, relative


def explain_prediction(
    fitted: Fitted,
    index: int,
    data: Any = None,
    *,
    class_index: int | None = None,
    against: int | str | None = None,
    baseline: str = "zero",
    steps: int = STEPS,
    run: int | None = None,
) -> Explanation:
    r"""Explains one prediction of a trained model: which nodes, features and scales carried it.

    The contributions of all nodes add up to the logit of the predicted class minus its value for
    the features of the baseline; so do those of all features. For :class:`~mgnni.MGNNI`, also in
    its generalised forms, the propagation is attributed exactly, by one adjoint solve per scale,
    and the input map and the head by integrated gradients. Other models are attributed by
    integrated gradients as a whole.

    Args:
        fitted (Fitted): The trained model.
        index (int): The node, or the graph, as a row of :meth:`Fitted.predict_proba`.
        data (str or Path or Data or Dataset or list[Data], optional): Graphs to predict;
            :obj:`None` uses those of the training. (default: :obj:`None`)
        class_index (int, optional): The class to explain; :obj:`None` explains the predicted one,
            of several labels the most probable one. (default: :obj:`None`)
        against (int or str, optional): Explain the difference to the logit of this class, that is,
            why one class and not the other; ``"others"`` is the mean of all other logits. Unlike
            a logit, differences do not change if all logits are shifted. (default: :obj:`None`)
        baseline (str, optional): Features that stand for no information: ``"zero"``, or
            ``"mean"``, the mean over the nodes of the graph. (default: ``"zero"``)
        steps (int, optional): Number of points of integrated gradients. (default: :obj:`64`)
        run (int, optional): Index of the run; :obj:`None` uses the best one.
            (default: :obj:`None`)
    """
    return explain_graphs(
        fitted,
        fitted.read(data),
        index,
        class_index=class_index,
        against=against,
        baseline=baseline,
        steps=steps,
        run=run,
    )


def explain_graphs(
    fitted: Fitted, graphs: Sequence[Data], index: int, *, run: int | None = None, **options: Any
) -> Explanation:
    """Explains one prediction for graphs that have been read; see :func:`explain_prediction`.

    Args:
        fitted (Fitted): The trained model.
        graphs (Sequence[Data]): Graphs with the features of the training.
        index (int): The node or graph.
        run (int, optional): Index of the run; :obj:`None` uses the best one.
            (default: :obj:`None`)
        **options (optional): Further arguments of :func:`explain_model`.
    """
    inputs = fitted.inputs(graphs)
    counts = [int(graph.num_nodes) if fitted.level == "node" else 1 for graph in inputs]
    if not isinstance(index, int) or not 0 <= index < sum(counts):
        raise ArgumentError(
            f"'index' must be a {fitted.level} between 0 and {sum(counts) - 1} (got {index!r}); "
            "rows are counted from 0, in the order of the data"
        )
    place, row = 0, index
    while row >= counts[place]:
        row, place = row - counts[place], place + 1
    graph = inputs[place]
    return explain_model(
        fitted.model(run),
        graph.x,
        graph.edge_index,
        row if fitted.level == "node" else None,
        graph.edge_weight,
        multilabel=fitted.multilabel,
        regression=fitted.regression,
        threshold=fitted.threshold(run),
        index=index,
        **options,
    )


def explain_model(
    model: nn.Module,
    x: Tensor,
    edge_index: Tensor,
    node: int | None,
    edge_weight: Tensor | None = None,
    *,
    class_index: int | None = None,
    against: int | str | None = None,
    baseline: str | Tensor = "zero",
    multilabel: bool = False,
    regression: bool = False,
    threshold: float | None = None,
    steps: int = STEPS,
    index: int | None = None,
) -> Explanation:
    r"""Explains one output of any model on one graph; see :func:`explain_prediction`.

    The model is copied, in float64 and evaluation mode, and its equations are solved to a
    tolerance of :math:`10^{-11}`.

    Args:
        model (torch.nn.Module): Maps ``(x, edge_index)``, then ``edge_weight`` if there is one, to
            logits. A model of whole graphs also takes the keyword argument ``batch``.
        x (Tensor): Node features.
        edge_index (Tensor): Edge indices.
        node (int, optional): The node to explain; :obj:`None` explains the output for the graph.
        edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
        class_index (int, optional): The class; :obj:`None` for the predicted one, of several
            labels the most probable one. (default: :obj:`None`)
        against (int or str, optional): The class to compare with, or ``"others"``.
            (default: :obj:`None`)
        baseline (str or Tensor, optional): ``"zero"``, ``"mean"``, or features of all nodes.
            (default: ``"zero"``)
        multilabel (bool, optional): Whether every logit is a label of its own.
            (default: :obj:`False`)
        regression (bool, optional): Whether the outputs are numbers; then ``class_index`` is that
            of a number, 0 by default. (default: :obj:`False`)
        threshold (float, optional): Probability of the second of two classes above which it is
            predicted; :obj:`None` predicts the most probable class. (default: :obj:`None`)
        steps (int, optional): Number of points of integrated gradients. (default: :obj:`64`)
        index (int, optional): What to call the node or graph; :obj:`None` for ``node``.
            (default: :obj:`None`)

    Shapes:
        - **x:** ``(num_nodes, in_channels)``
        - **edge_index:** ``(2, num_edges)``
        - **edge_weight:** ``(num_edges,)``
        - **baseline:** ``(num_nodes, in_channels)``
    """
    check_int("steps", steps)
    x = x.detach().to_dense().double()
    if node is not None and not 0 <= node < x.size(0):
        raise ArgumentError(f"'node' must lie between 0 and {x.size(0) - 1} (got {node})")
    start = _baseline(baseline, x)
    exact = accurate(model, TOL).requires_grad_(False)
    batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device) if node is None else None
    weight = None if edge_weight is None else edge_weight.detach().double()
    options = {} if batch is None else {"batch": batch}

    def outputs(x: Tensor) -> Tensor:
        graph = (edge_index,) if weight is None else (edge_index, weight)
        rows: Tensor = exact(x, *graph, **options)
        return rows

    def logits(x: Tensor) -> Tensor:
        return outputs(x)[0 if node is None else node]

    with torch.no_grad():
        rows = outputs(x)
    if len(rows) != (1 if node is None else len(x)):
        raise ArgumentError(
            f"'node' must be {'a node' if node is None else 'None'} for this model (got {node}), "
            f"which returns {len(rows)} rows for {len(x)} nodes; name a node if it returns a row "
            "for each"
        )
    found = rows[0 if node is None else node]
    if regression and against is not None:
        raise ArgumentError("'against' compares two classes (got a model of numbers); leave it out")
    likely = (class_index or 0) if regression else int(found.argmax())
    if threshold is not None:  # as mgnni predict decides
        likely = int(positive_probability(found.unsqueeze(0)) > threshold)
    chosen = likely if class_index is None else class_index
    cotangent = _cotangent(found, chosen, against)
    predicted: int | None = likely
    if multilabel:
        predicted = chosen if found[chosen] > 0 else None
    if isinstance(exact, GraphModule):
        operator = exact.propagation(x, edge_index, weight, batch)
    else:
        operator = Propagation.from_edge_index(edge_index, x.size(0), dtype=torch.float64)
    result = None
    if isinstance(exact, MGNNI):
        exact.memory = "fast"  # gradients are batched, which blocks of rows do not support
        result = attribute_equilibrium(exact, x, operator, start, node, cotangent, steps)
        # A subclass or a hook may return something else than the equilibrium attributes.
        if not math.isclose(result.output, float(found @ cotangent), rel_tol=1e-6, abs_tol=1e-9):
            result = None
    attributed_exactly = result is not None
    if result is None:
        result = attribute_model(lambda x: logits(x) @ cotangent, x, start, steps)
    contributions = result.nodes.cpu()
    hops = None
    if node is not None:
        size = contributions.abs().sum(0, keepdim=True)
        hops = influence_hops(operator, torch.tensor([node]), size)[0]
    share = found.sigmoid() if multilabel else found.softmax(0)
    probability = None if regression else float(share[chosen])
    return Explanation(
        level="graph" if node is None else "node",
        index=(node or 0) if index is None else index,
        node=node,
        class_index=chosen,
        against=against,
        predicted=predicted,
        probability=probability,
        output=result.output,
        baseline_output=result.baseline,
        paths=result.paths,
        contributions=contributions,
        features=result.features.cpu(),
        hops=hops,
        edge_index=edge_index.cpu(),
        exact=attributed_exactly,
        steps=steps,
    )


def _baseline(baseline: str | Tensor, x: Tensor) -> Tensor:
    if isinstance(baseline, Tensor):
        if baseline.shape != x.shape:
            raise ArgumentError(
                f"'baseline' must have the shape of x, {tuple(x.shape)} (got "
                f"{tuple(baseline.shape)}); pass one row per node, or 'zero'"
            )
        return baseline.detach().to(x)
    if check_choice("baseline", baseline, BASELINES) == "mean":
        return x.mean(0, keepdim=True).expand_as(x)
    return torch.zeros_like(x)


def _cotangent(logits: Tensor, chosen: int, against: int | str | None) -> Tensor:
    """Return the weight of each logit in what is explained."""
    count = len(logits)
    for name, value in (("class_index", chosen), ("against", against)):
        if value not in (None, OTHERS) and value not in range(count):
            raise ArgumentError(
                f"'{name}' must be a class between 0 and {count - 1} (got {value!r}); classes are "
                "numbered in the order of the columns of predict_proba"
            )
    if against == chosen or (against == OTHERS and count == 1):
        got = "the same one" if against == chosen else "a model of one class"
        raise ArgumentError(
            f"'against' must be another class than the explained one (got {got}); name another "
            "one, or leave it out"
        )
    weight = torch.zeros_like(logits)
    if against == OTHERS:
        weight -= 1 / (count - 1)
    elif against is not None:
        weight[against] = -1.0  # type: ignore[index]
    weight[chosen] = 1.0
    return weight
