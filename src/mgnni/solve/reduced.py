r"""A directed graph by its core: solve for the nodes that read and are read, and let others follow.

With columns of :math:`P` for the core :math:`C` and for the nodes :math:`S` that read nobody,

.. math::  P^m Z = P_{:C} P_{CC}^{m-1} Z_C + (P^m)_{:S} B_S,

because nobody reads the others, and :math:`Z_S = B_S`. So the core has an equation of its own, of
the same kind, and once it is solved :math:`Z = \gamma P^m Z W + B` gives the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.scratch import scratch
from mgnni.solve.solver import Proposal, Solver


def propose(solver: Solver, equations: Equations, tol: float, max_iter: int) -> Proposal:
    """Propose a solution, by way of the core where the operator has one."""
    core, scales = equations.operator.core, equations.scales
    if core is None:
        return solver.propose(equations, tol, max_iter)
    bias, weight, gamma = equations.bias, equations.weights.tensor, equations.gamma
    hop = bias.new_zeros(bias.shape)
    one = bias[:1] if equations.shared_bias else bias
    inner = one.index_select(1, core.nodes).expand(len(scales), -1, -1)
    if core.given.numel():
        for index, scale in enumerate(scales):
            _from_given(core, bias[index], scale, hop[index])
        inner = torch.baddbmm(inner, hop[:, core.nodes], weight, alpha=gamma)
    found = Proposal(inner, torch.zeros(len(scales), 1, dtype=torch.long), False)
    if core.nodes.numel():
        part = replace(equations, operator=core.inner, bias=inner)
        found = solver.propose(part, tol, max_iter)
        for index, scale in enumerate(scales):
            _outward(core, found.z[index], scale - 1, hop[index])
    z = bias.clone(memory_format=torch.contiguous_format)
    z.index_copy_(1, core.nodes, found.z)
    if core.led.numel():
        led = torch.baddbmm(bias[:, core.led], hop[:, core.led], weight, alpha=gamma)
        z.index_copy_(1, core.led, led)
    return found._replace(z=z, hop=hop)


def _from_given(core: Any, bias: Tensor, scale: int, out: Tensor) -> None:
    """Add what comes from the nodes that read nobody, ``scale`` hops away."""
    if scale == 1:
        out.addmm_(core.from_given, bias[core.given])
    else:
        once = core.from_given @ bias[core.given]
        _outward(core, once[core.nodes], scale - 2, out)


def _outward(core: Any, x: Tensor, hops: int, out: Tensor) -> None:
    """Add what comes from the core after so many hops in it and one to all nodes."""
    rows, channels = x.shape
    with scratch(x) as take:
        memory = [take(rows * PANEL) for _ in range(2)]
        for start in range(0, channels, PANEL):
            part = x[:, start : start + PANEL]
            a, b = (one[: part.numel()].view(part.shape) for one in memory)
            a.copy_(part)
            for _ in range(hops):
                a, b = core.inner.multiply_into(b, a), a
            out[:, start : start + PANEL].addmm_(core.outward, a)
