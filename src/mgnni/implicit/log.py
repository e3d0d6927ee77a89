"""How the equations of a pass were solved."""

from __future__ import annotations

from dataclasses import dataclass

from mgnni.solve.planned import Pending
from mgnni.solve.result import SolveStats


@dataclass
class SolveLog:
    """How the equations of one pass were solved, one record a scale."""

    _forward: tuple[SolveStats, ...] | Pending = ()
    _backward: tuple[SolveStats, ...] | Pending = ()

    @property
    def forward(self) -> tuple[SolveStats, ...]:
        """How the equations were solved."""
        if isinstance(self._forward, Pending):
            self._forward = self._forward.records()
        return self._forward

    @property
    def backward(self) -> tuple[SolveStats, ...]:
        """How the adjoint equations were solved; empty until gradients have been computed."""
        if isinstance(self._backward, Pending):
            self._backward = self._backward.records()
        return self._backward

    @property
    def pending(self) -> list[Pending]:
        """The records that are still on an accelerator."""
        return [one for one in (self._forward, self._backward) if isinstance(one, Pending)]

    @property
    def worst_error_bound(self) -> float:
        """The largest certified error over both passes and all scales."""
        bounds = [stats.error_bound for stats in (*self.forward, *self.backward)]
        return max(bounds, default=0.0)
