"""What a layer keeps from one pass to the next."""

from __future__ import annotations

import secrets
import weakref
from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.solve.equation import Equations, one_if_shared
from mgnni.solve.plan import Plan, Previous
from mgnni.solve.prepare import prepare
from mgnni.solve.result import Options, Solution, SolveLog
from mgnni.solve.weights import Weights

LARGEST = 2**24  # numbers in the states of all equations past which they are not kept

_caches: weakref.WeakValueDictionary[int, Cache] = weakref.WeakValueDictionary()


class Gram(NamedTuple):
    """A factor :math:`F`, its :math:`g(F)`, and the norm of the Gram matrix."""

    factor: Tensor
    settings: tuple[float, str]  # eps, and which norm
    weight: Tensor
    norm: Tensor
    version: int  # of the weight, which the caller holds too


class _Solved(NamedTuple):
    operator: weakref.ref[Propagation]
    settings: tuple[object, ...]  # scales, gamma and options
    weights: Weights
    bias: Tensor
    solution: Solution


class Cache:
    """What the last plan of a layer has left, its last solution, and states for warm starts.

    A validation pass and the following training pass have the same weights, and often the same
    bias. Tensors are compared number by number, so a change is noticed however it was made. States
    are kept as copies. Copies and pickles of a cache are empty.

    Attributes:
        log (SolveLog): How the last pass was solved.
        handle (Tensor): A number on the CPU by which a compiled graph finds the cache. It is a
            tensor, so that layers with other numbers need no other graph, and random, so that a
            graph that another process loads finds no cache of that process.
        pending (Plan, optional): The plan of a compiled forward pass, for its backward pass.
    """

    @torch.inference_mode(False)
    def __init__(self) -> None:
        self.log = SolveLog()
        number = secrets.randbits(63)
        self.handle = torch.tensor(number, device="cpu")
        _caches[number] = self
        self.pending: Plan | None = None
        self.previous: Previous | None = None
        self.gram: Gram | None = None
        self._solved: _Solved | None = None
        self._starts: dict[tuple[int, bool], tuple[weakref.ref[Propagation], Tensor]] = {}

    @staticmethod
    def find(handle: Tensor) -> Cache | None:
        """Returns the cache with this :attr:`handle`, or None if it was freed."""
        return _caches.get(int(handle))

    def prepare(self, equations: Equations, options: Options) -> Plan:
        """Returns a plan for the equations, and keeps what the next pass can reuse."""
        plan = prepare(equations, options, self.previous)
        # Inference tensors cannot be used in training.
        inference = plan.equations.weights.tensor.is_inference()
        self.previous = None if inference else plan.previous()
        return plan

    def solution(self, plan: Plan, bias: Tensor) -> Solution | None:
        """Returns the last solution if it is for this plan and bias."""
        last, equations = self._solved, plan.equations
        if last is None or not (
            last.operator() is equations.operator
            and last.weights is equations.weights
            and last.settings == (equations.scales, equations.gamma, plan.options)
        ):
            return None
        one = one_if_shared(bias)
        changed = last.bias.shape != one.shape or not torch.equal(last.bias, one)
        # All processes must solve if one of them has to.
        if bool(equations.operator.max_over_processes(torch.tensor(float(changed)))):
            return None
        solution = last.solution
        return Solution(solution.z.clone(), solution.hop, solution.records)

    def keep_solution(self, plan: Plan, bias: Tensor, solution: Solution) -> None:
        """Keeps a solution in place of the last one."""
        self._solved = None
        z = solution.z
        operator = plan.equations.operator
        learned = operator.values.requires_grad
        size = len(z) * operator.total_nodes * z.size(-1)
        if self.previous is None or size > LARGEST or z.is_inference() or learned:
            return
        # A copy, as is what is returned later: callers may change their states in place, also
        # through NumPy or DLPack, which no version counter notices.
        kept = Solution(z.detach().clone(), solution.hop, solution.records)
        equations, one = plan.equations, one_if_shared(bias).clone()
        settings = (equations.scales, equations.gamma, plan.options)
        self._solved = _Solved(weakref.ref(operator), settings, equations.weights, one, kept)

    def start(self, kind: tuple[int, bool], operator: Propagation, bias: Tensor) -> Tensor | None:
        """Returns the last states of this kind over the same operator.

        Args:
            kind (tuple[int, bool]): Order of differentiation, and whether gradients are computed.
                Passes with and without gradients differ by dropout, so their states are separate.
            operator (Propagation): The operator.
            bias (Tensor): The bias that states are needed for.
        """
        last = self._starts.get(kind)
        if last is None or last[0]() is not operator:
            return None
        z = last[1]
        return z if (z.shape, z.dtype, z.device) == (bias.shape, bias.dtype, bias.device) else None

    def keep_start(self, kind: tuple[int, bool], operator: Propagation, z: Tensor) -> None:
        """Keeps states in place of the last ones of this kind."""
        if not z.is_inference():
            self._starts[kind] = (weakref.ref(operator), z.detach())

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        return Cache, ()
