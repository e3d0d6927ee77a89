r"""Contributions of nodes, features and scales to one output of a model.

With states :math:`Z_s` of all scales :math:`s`, the output of :class:`~mgnni.MGNNI` is
:math:`y = h(Z_1, \dots, Z_S)`, where :math:`h` is the fusion and the head,
:math:`Z_s = R_s(B)` is linear, and :math:`B = f(X)` is the bias. Primes denote the baseline.

1. Integrated gradients of :math:`h` give :math:`G_s` with
   :math:`y - y' = \sum_s \langle G_s, Z_s - Z_s' \rangle`; exactly if :math:`h` is linear.
2. One adjoint solve per scale gives :math:`U_s = R_s^{\top}(G_s)`. Then
   :math:`\langle G_s, Z_s - Z_s' \rangle = \sum_p \langle u_{s,p}, b_p - b_p' \rangle` exactly,
   and the term of node :math:`p` is its contribution through scale :math:`s`.
3. Integrated gradients of :math:`\langle \sum_s u_{s,p}, f(x_p) \rangle` distribute the
   contribution of node :math:`p` over its features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.explain.gradients import mean_gradients
from mgnni.explain.input_gradients import input_gradients
from mgnni.graph.propagation import Propagation
from mgnni.implicit.solve import solve_equilibrium
from mgnni.layers.blocks import DirectedEquilibrium, state_names
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.heads import ResidualHead
from mgnni.models.mgnni import MGNNI

WHOLE = "model"  # the path of a model that is not divided into scales
DIRECT = "features"  # the path of the features of a node to the head


class Attribution(NamedTuple):
    """Contributions to one output.

    Attributes:
        paths: Names of the paths from nodes to the output: scales, and what else there is.
        nodes: Contribution of each node through each path, shape ``(paths, num_nodes)``.
        features: Contribution of each feature, shape ``(num_nodes, in_channels)``.
        output: The output.
        baseline: The output at the baseline.
    """

    paths: tuple[int | str, ...]
    nodes: Tensor
    features: Tensor
    output: float
    baseline: float


class Path(NamedTuple):
    """One term of the states: an equilibrium, or the bias itself if there is no operator."""

    name: int | str
    operator: Propagation | None = None
    layer: MultiscaleEquilibrium | None = None
    place: int = 0  # of the scale in the layer


def attribute_model(
    function: Callable[[Tensor], Tensor], x: Tensor, baseline: Tensor, steps: int
) -> Attribution:
    """Return integrated gradients of any output over all node features.

    Args:
        function (Callable): Maps node features to the output.
        x (Tensor): Node features.
        baseline (Tensor): Node features of the baseline.
        steps (int): Number of points on the line between them.

    Shapes:
        - **x, baseline:** ``(num_nodes, in_channels)``
    """
    with torch.no_grad():
        output, start = (float(function(one)) for one in (x, baseline))
    (grads,) = mean_gradients(function, [baseline], [x], steps)
    features = (x - baseline) * grads[0]
    return Attribution((WHOLE,), features.sum(1).unsqueeze(0), features, output, start)


@torch.no_grad()
def attribute_equilibrium(
    model: MGNNI,
    x: Tensor,
    propagation: Propagation,
    baseline: Tensor,
    node: int | None,
    cotangent: Tensor,
    steps: int,
) -> Attribution:
    """Return contributions through the equilibria of :class:`~mgnni.MGNNI`.

    Args:
        model (MGNNI): The model, in float64 and evaluation mode, without gradients of parameters.
        x (Tensor): Node features of one graph.
        propagation (Propagation): Its operator.
        baseline (Tensor): Node features of the baseline.
        node (int, optional): The node whose output is explained; :obj:`None` for the graph.
        cotangent (Tensor): Weight of each logit, or predicted number, in the output.
        steps (int): Number of points of integrated gradients.

    Shapes:
        - **x, baseline:** ``(num_nodes, in_channels)``
        - **cotangent:** ``(out_channels,)``
    """
    rows = slice(None) if node is None else slice(node, node + 1)
    batch = propagation.graph_of_node() if node is None else None

    def states(bias: Tensor) -> Tensor:
        return model.fused_states(model.equilibrium(bias, propagation), bias)

    def output(z: Tensor, x: Tensor) -> Tensor:
        return model.read_out(z, x, batch, 1)[0][0] @ cotangent

    bias, start = model.bias(x, propagation), model.bias(baseline, propagation)
    ends = [states(bias)[:, rows], x[rows]]
    starts = [states(start)[:, rows], baseline[rows]]
    of_states, of_features = mean_gradients(output, starts, ends, steps)

    paths = equilibrium_paths(model, propagation)
    adjoints = []
    for path, grad in zip(paths, of_states[0], strict=True):
        source = torch.zeros_like(bias)
        source[rows] = grad
        adjoint = pulled_back(path, source)
        propagated_only = path.layer is not None and not model.own_bias
        adjoints.append(adjoint - source if propagated_only else adjoint)
    u = torch.stack(adjoints)

    if len(model.blocks):  # every block mixes nodes

        def weighted(x: Tensor) -> Tensor:
            return (u * model.bias(x, propagation)).sum((1, 2))

        (grads,) = mean_gradients(weighted, [baseline], [x], steps)
        nodes, features = ((x - baseline) * grads).sum(2), (x - baseline) * grads.sum(0)
    else:
        nodes = (u * (bias - start)).sum(2)
        grad = input_gradients(model.input_map, x, baseline, propagation, u.sum(0), steps)
        features = (x - baseline) * grad
    names = tuple(path.name for path in paths)
    if isinstance(model.head, ResidualHead):
        direct = torch.zeros_like(x)
        direct[rows] = (x[rows] - baseline[rows]) * of_features[0]
        features = features + direct
        nodes, names = torch.cat([nodes, direct.sum(1).unsqueeze(0)]), (*names, DIRECT)
    return Attribution(names, nodes, features, float(output(*ends)), float(output(*starts)))


def equilibrium_paths(model: MGNNI, propagation: Propagation) -> list[Path]:
    """Return the paths from the bias to the states that are fused, in their order.

    Args:
        model (MGNNI): The model.
        propagation (Propagation): The operator of the graph.
    """
    layer, names = model.equilibrium, iter(state_names(model))
    if isinstance(layer, DirectedEquilibrium):
        parts = [(layer.along, propagation), (layer.against, propagation.adjoint())]
    else:
        parts = [(layer, propagation)]
    paths = [
        Path(next(names), operator, part, place)
        for part, operator in parts
        if part is not None
        for place in range(len(part.scales))
    ]
    return [*paths, *map(Path, names)]  # the bias, if it is among the states


def pulled_back(path: Path, cotangent: Tensor) -> Tensor:
    r"""Return :math:`R^{\top}(G)`, the solution of the adjoint equation.

    Args:
        path (Path): The equilibrium with the resolvent :math:`R`.
        cotangent (Tensor): The cotangent :math:`G` of its states.

    Shapes:
        - **cotangent:** ``(num_nodes, channels)``
        - **output:** ``(num_nodes, channels)``
    """
    if path.operator is None or path.layer is None:
        return cotangent
    layer = path.layer
    weight = layer.weight(cotangent.dtype, cotangent.device)[path.place]
    return solve_equilibrium(
        path.operator.adjoint(),
        weight.mT,
        cotangent,
        layer.scales[path.place],
        layer.gamma,
        tol=layer.options.tol,
    ).value
