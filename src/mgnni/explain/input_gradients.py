r"""Mean gradients of input maps, in closed form where there is one.

On the line from a baseline to the features, the inputs of the first ReLU move on a line as well,
from :math:`u'` to :math:`u`. The mean derivative of a ReLU there is the secant
:math:`(\mathrm{ReLU}(u) - \mathrm{ReLU}(u')) / (u - u')`, so integrated gradients of an MLP with
one hidden layer are known exactly. Behind further ReLUs, a quadrature is needed; it runs on
:math:`u`, which has fewer columns than the features.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from mgnni.explain.gradients import mean_gradients
from mgnni.graph.propagation import Propagation
from mgnni.layers.input_map import GraphInput
from mgnni.layers.mlp import MLP


def input_gradients(
    input_map: nn.Module,
    x: Tensor,
    baseline: Tensor,
    propagation: Propagation,
    cotangent: Tensor,
    steps: int,
) -> Tensor:
    r"""Return mean gradients of :math:`\langle C, f(X) \rangle` from a baseline to the features.

    Args:
        input_map (torch.nn.Module): The map :math:`f`, which maps every node on its own.
        x (Tensor): Node features :math:`X`.
        baseline (Tensor): Node features of the baseline.
        propagation (Propagation): The operator of the graph.
        cotangent (Tensor): The cotangent :math:`C`.
        steps (int): Number of points of the quadrature, if there is no closed form.

    Shapes:
        - **x, baseline, output:** ``(num_nodes, in_channels)``
        - **cotangent:** ``(num_nodes, channels)``
    """
    if isinstance(input_map, GraphInput):
        first, last = cast(nn.Linear, input_map.features.linear[0]), input_map.linear
        end, start = input_map.embedded(x, propagation), input_map.embedded(baseline, propagation)
        hidden = cotangent @ last.weight * _secant(start, end)
        return hidden @ first.weight
    if not isinstance(input_map, MLP):  # the identity
        return cotangent
    first, *rest = cast(list[nn.Linear], list(input_map.linear))
    end, start = first(x), first(baseline)
    if not rest:
        hidden = cotangent * _secant(start, end) if input_map.activate_last else cotangent
    elif len(rest) == 1 and not input_map.activate_last:
        hidden = cotangent @ rest[0].weight * _secant(start, end)
    else:

        def remaining(u: Tensor) -> Tensor:
            for linear in rest:
                u = linear(u.relu())
            return (cotangent * (u.relu() if input_map.activate_last else u)).sum()

        hidden = mean_gradients(remaining, [start], [end], steps)[0][0]
    return hidden @ first.weight


def _secant(start: Tensor, end: Tensor) -> Tensor:
    """Return the mean derivative of a ReLU between two points."""
    change = end - start
    still = change == 0
    slope = (end.relu() - start.relu()) / torch.where(still, 1.0, change)
    return torch.where(still, (start > 0).to(slope.dtype), slope)
