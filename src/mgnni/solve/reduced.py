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

from mgnni.solve.dense import biased_product
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.solver import Proposal, Solver


def propose(solver: Solver, equations: Equations, tol: float, max_iter: int) -> Proposal:
    """Propose a solution, by way of the core where the operator has one."""
    core, scales = equations.operator.core, equations.scales
    if core is None:
        return solver.propose(equations, tol, max_iter)
    bias, weight, gamma = equations.bias, equations.weights.tensor, equations.gamma
    hop = torch.empty(bias.shape, dtype=bias.dtype)
    one = bias[:1] if equations.shared_bias else bias
    inner = one.index_select(1, core.nodes).expand(len(scales), -1, -1)
    if core.given.numel():
        for index, scale in enumerate(scales):
            _from_given(core, bias[index], scale, hop[index])
        inner = biased_product(inner, hop.index_select(1, core.nodes), weight, gamma)
    found = Proposal(inner, torch.zeros(len(scales), 1, dtype=torch.long), False)
    if core.nodes.numel():
        part = replace(equations, operator=core.inner, bias=inner)
        found = solver.propose(part, tol, max_iter)
    for index, scale in enumerate(scales):
        _outward(core, found.z[index], scale - 1, hop[index], int(core.given.numel() > 0))
    image = biased_product(bias, hop, weight, gamma)
    z = image.index_copy(1, core.nodes, found.z)
    return found._replace(z=z, hop=hop, image=image)


def _from_given(core: Any, bias: Tensor, scale: int, out: Tensor) -> None:
    """Write what comes from the nodes that read nobody, ``scale`` hops away."""
    given = bias.index_select(0, core.given)
    if scale == 1:
        _multiply(core.from_given, given, out, 0)
    else:
        once = _multiply(core.from_given, given, torch.empty_like(out), 0)
        _outward(core, once.index_select(0, core.nodes), scale - 2, out, 0)


def _outward(core: Any, x: Tensor, hops: int, out: Tensor, beta: int) -> None:
    """Write what comes from the core after so many hops in it and one to all nodes, or add it."""
    for _ in range(hops):
        x = _multiply(core.inner.matrix, x, torch.empty_like(x), 0)
    _multiply(core.outward, x, out, beta)


def _multiply(matrix: Tensor, x: Tensor, out: Tensor, beta: int) -> Tensor:
    """Write a sparse product, or add it, by as many columns as take least time."""
    if matrix.values().numel() == 0:
        return out if beta else out.zero_()
    for x_part, part in zip(torch.split(x, PANEL, 1), torch.split(out, PANEL, 1), strict=True):
        part.addmm_(matrix, x_part, beta=beta)
    return out
