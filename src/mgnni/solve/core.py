r"""Directed graphs: solve on the core, then compute all other nodes from it.

The core :math:`C` are the nodes that have both incoming and outgoing entries of :math:`P`. Nodes
:math:`S` without incoming entries have :math:`Z_S = B_S`, and no node depends on the remaining
ones. Hence

.. math::  P^m Z = P_{:C} P_{CC}^{m-1} Z_C + (P^m)_{:S} B_S,

and the core has an equation of the same form. Once it is solved, one evaluation of
:math:`Z = \gamma P^m Z W + B` gives all other nodes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mgnni.graph.core import Core
from mgnni.solve.equation import PANEL, Equations, one_if_shared
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.products import biased_product


class OnCore(Method):
    """Solves on the core of a directed graph by another method.

    Args:
        equations (Equations): Equations over an operator that has a core.
        core (Core): The core.
        inner (Method): The method, prepared for the equations of the core.
    """

    def __init__(self, equations: Equations, core: Core, inner: Method) -> None:
        super().__init__(equations, inner.expansions)
        self.core, self.inner = core, inner
        self.name = inner.name  # type: ignore[misc]

    def prepared_for(self, equations: Equations) -> Method:
        """Returns the method on the core of another operator, which may have none."""
        return on_core(self.inner, equations)

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Proposes states of the core, and computes all other nodes from them."""
        core, equations = self.core, self.equations
        scales, gamma, weight = equations.scales, equations.gamma, equations.weights.tensor
        hop = torch.empty(bias.shape, dtype=bias.dtype)
        inner = one_if_shared(bias).index_select(1, core.nodes).expand(len(scales), -1, -1)
        if core.given.numel():
            for index, scale in enumerate(scales):
                self._from_given(bias[index], scale, hop[index])
            inner = biased_product(inner, hop.index_select(1, core.nodes), weight, gamma)
        found = Proposal(inner, torch.zeros(len(scales), 1, dtype=torch.long), False)
        if core.nodes.numel():
            found = self.inner.propose(inner, tol, max_iter)
        for index, scale in enumerate(scales):
            self._outward(found.z[index], scale - 1, hop[index], int(core.given.numel() > 0))
        image = biased_product(bias, hop, weight, gamma)
        z = image.index_copy(1, core.nodes, found.z)
        return found._replace(z=z, hop=hop, image=image)

    def _from_given(self, bias: Tensor, scale: int, out: Tensor) -> None:
        """Writes the contribution of the nodes without incoming entries, after ``scale`` hops."""
        given = bias.index_select(0, self.core.given)
        if scale == 1:
            _multiply(self.core.from_given, given, out, 0)
        else:
            once = _multiply(self.core.from_given, given, torch.empty_like(out), 0)
            self._outward(once.index_select(0, self.core.nodes), scale - 2, out, 0)

    def _outward(self, x: Tensor, hops: int, out: Tensor, beta: int) -> None:
        """Writes (or adds) states of the core after ``hops`` hops in it and one to all nodes."""
        for _ in range(hops):
            x = _multiply(self.core.inner.matrix, x, torch.empty_like(x), 0)
        _multiply(self.core.outward, x, out, beta)


def on_core(method: Method, equations: Equations) -> Method:
    """Returns ``method`` for the given equations, on the core of their operator if it has one."""
    core = equations.operator.core
    if core is None:
        return method if method.equations is equations else method.prepared_for(equations)
    inner = method.prepared_for(replace(equations, operator=core.inner))
    return OnCore(equations, core, inner)


def _multiply(matrix: Tensor, x: Tensor, out: Tensor, beta: int) -> Tensor:
    """Writes (or adds) a sparse product, in panels of columns."""
    if matrix.values().numel() == 0:
        return out if beta else out.zero_()
    for x_part, part in zip(torch.split(x, PANEL, 1), torch.split(out, PANEL, 1), strict=True):
        part.addmm_(matrix, x_part, beta=beta)
    return out
