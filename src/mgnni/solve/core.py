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
from mgnni.graph.csr import SparseMatrix
from mgnni.solve.equation import PANEL, Equations, one_if_shared, products_by_scale
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.products import biased_product


class CoreEquations:
    """The equations of the core, and how the states of all nodes follow from its states.

    Args:
        equations (Equations): Equations over an operator that has a core.
        core (Core): The core.

    Attributes:
        inner: The equations of the core.
    """

    def __init__(self, equations: Equations, core: Core) -> None:
        self.equations, self.core = equations, core
        self.inner = replace(equations, operator=core.inner)

    def restrict(self, bias: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the bias of the core, and what the nodes without incoming entries contribute.

        Args:
            bias (Tensor): The bias of all nodes.

        Shapes:
            - **bias:** ``(equations, num_nodes, channels)``
            - **output:** ``(equations, core_nodes, channels)`` and ``(equations, num_nodes,
              channels)``; :obj:`None` if there are no such nodes
        """
        core, equations = self.core, self.equations
        inner = one_if_shared(bias).index_select(1, core.nodes).expand(len(equations), -1, -1)
        if not core.given.numel():
            return inner, None
        given = bias.index_select(1, core.given)
        hop = products_by_scale(equations.scales, given, bias.size(1), self._from_given)
        part = hop.index_select(1, core.nodes)
        return biased_product(inner, part, equations.weights.tensor, equations.gamma), hop

    def extend(self, bias: Tensor, z: Tensor, given: Tensor | None) -> tuple[Tensor, ...]:
        r"""Returns the states of all nodes, :math:`P^m Z`, and :math:`\gamma P^m Z W + B`.

        Args:
            bias (Tensor): The bias of all nodes.
            z (Tensor): The states of the core.
            given (Tensor, optional): The second output of :meth:`restrict`; overwritten.

        Shapes:
            - **bias, given, output:** ``(equations, num_nodes, channels)``
            - **z:** ``(equations, core_nodes, channels)``
        """
        equations = self.equations
        hop = products_by_scale(equations.scales, z, bias.size(1), self._outward)
        hop = hop if given is None else given.add_(hop)
        image = biased_product(bias, hop, equations.weights.tensor, equations.gamma)
        return image.index_copy(1, self.core.nodes, z), hop, image

    def _from_given(self, x: Tensor, scale: int, out: Tensor) -> Tensor:
        """Writes what the nodes without incoming entries contribute after ``scale`` hops."""
        if scale == 1:
            return _multiply(self.core.from_given, x, out)
        once = _multiply(self.core.from_given, x, torch.empty_like(out))
        return self._outward(once.index_select(0, self.core.nodes), scale - 1, out)

    def _outward(self, x: Tensor, scale: int, out: Tensor) -> Tensor:
        """Writes what the core contributes to all nodes after ``scale`` hops."""
        for _ in range(scale - 1):
            x = _multiply(self.core.inner, x, torch.empty_like(x))
        return _multiply(self.core.outward, x, out)


class OnCore(Method):
    """Solves on the core of a directed graph by another method.

    Args:
        equations (Equations): Equations over an operator that has a core.
        core (Core): The core.
        inner (Method): The method, prepared for the equations of the core.
    """

    def __init__(self, equations: Equations, core: Core, inner: Method) -> None:
        super().__init__(equations, inner.expansions)
        self.part, self.inner = CoreEquations(equations, core), inner
        self.name = inner.name  # type: ignore[misc]

    def prepared_for(self, equations: Equations) -> Method:
        """Returns the method on the core of another operator, which may have none."""
        return on_core(self.inner, equations)

    def budget(self, steps: int) -> int:
        """Returns the budget of the inner method."""
        return self.inner.budget(steps)

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Proposes states of the core, and computes all other nodes from them."""
        inner, given = self.part.restrict(bias)
        found = Proposal(inner, torch.zeros(len(inner), 1, dtype=torch.long), False)
        if inner.size(1):
            found = self.inner.propose(inner, tol, max_iter)
        z, hop, image = self.part.extend(bias, found.z, given)
        return found._replace(z=z, hop=hop, image=image)


def on_core(method: Method, equations: Equations) -> Method:
    """Returns ``method`` for the given equations, on the core of their operator if it has one."""
    core = equations.operator.core
    if core is None:
        return method if method.equations is equations else method.prepared_for(equations)
    inner = method.prepared_for(replace(equations, operator=core.inner))
    return OnCore(equations, core, inner)


def _multiply(matrix: SparseMatrix, x: Tensor, out: Tensor) -> Tensor:
    """Writes a sparse product; on a CPU in panels of columns."""
    width = max(x.size(1), 1) if x.is_cuda else PANEL
    for x_part, part in zip(torch.split(x, width, 1), torch.split(out, width, 1), strict=True):
        matrix.multiply_into(part, x_part)
    return out
