"""Worst solver statistics of a whole training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgnni.solve.result import Records, SolveLog, SolveStats

BOUNDS = ("error_bound", "relative_error_bound")


def _worse(a: float, b: float) -> float:
    """The larger number; nan counts as infinite."""
    return math.inf if math.isnan(b) else max(a, b)


@dataclass
class Certificate:
    """The worst statistics of many solves.

    Attributes:
        solves: Number of equations solved.
        failures: Number of equations that missed their tolerance.
        solvers: Names of the solvers used.
        iterations: Largest number of iterations.
        relative_residual: Largest residual, relative to the larger norm of state and bias.
        error_bound: Largest certified error, in the Frobenius norm.
        relative_error_bound: Largest certified error, relative to the larger norm of state and
            bias.
    """

    solves: int = 0
    failures: int = 0
    solvers: set[str] = field(default_factory=set)
    iterations: int = 0
    relative_residual: float = 0.0
    error_bound: float = 0.0
    relative_error_bound: float = 0.0

    def add(self, records: Sequence[SolveStats]) -> None:
        """Add the solver statistics of one pass."""
        for stats in records:
            self.solves += 1
            self.failures += not stats.converged
            self.solvers.add(stats.solver)
            self.iterations = max(self.iterations, stats.iterations)
            self.relative_residual = _worse(self.relative_residual, stats.relative_residual)
            self.error_bound = _worse(self.error_bound, stats.error_bound)
            worst = _worse(self.relative_error_bound, stats.relative_error_bound)
            self.relative_error_bound = worst

    def add_deferred(self, records: Records, numbers: NDArray[np.float64]) -> bool:
        """Add records whose numbers were read from a device; return whether all converged.

        If one did not, nothing is added.
        """
        relative, relative_bound, met = records.accept(numbers)
        if not bool(met.all()):
            return False
        self.solves += len(records.scales)
        self.solvers.add(records.solver)
        self.iterations = max(self.iterations, int(numbers[4].max()))
        self.relative_residual = max(self.relative_residual, float(relative.max()))
        self.error_bound = max(self.error_bound, float(numbers[2].max()))
        self.relative_error_bound = max(self.relative_error_bound, float(relative_bound.max()))
        return True

    def merge(self, other: Certificate) -> None:
        """Add the statistics of another certificate."""
        self.solves += other.solves
        self.failures += other.failures
        self.solvers |= other.solvers
        for name in ("iterations", "relative_residual", "error_bound", "relative_error_bound"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; an unproven bound is ``None``."""
        data = {**asdict(self), "solvers": sorted(self.solvers)}
        for name in BOUNDS:
            data[name] = data[name] if math.isfinite(data[name]) else None
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Certificate:
        """Return the inverse of :meth:`to_dict`."""
        bounds = {name: math.inf if data[name] is None else data[name] for name in BOUNDS}
        return cls(**{**data, **bounds, "solvers": set(data["solvers"])})


@dataclass
class Certificates:
    """Certificates of the equations (forward) and of their adjoints (backward)."""

    forward: Certificate = field(default_factory=Certificate)
    backward: Certificate = field(default_factory=Certificate)

    def record(self, log: SolveLog) -> None:
        """Add the solver statistics of a pass."""
        self.forward.add(log.forward)
        self.backward.add(log.backward)

    def record_all(self, logs: Sequence[SolveLog]) -> bool:
        """Add the solver statistics of several passes, with one transfer from an accelerator.

        Returns:
            Whether all solves on the accelerator converged; if not, nothing is added.
        """
        made = Certificates()
        waiting = []
        for log in logs:
            for certificate, found in (
                (made.forward, log.forward_records),
                (made.backward, log.backward_records),
            ):
                for records in found:
                    if records.deferred:
                        waiting.append((certificate, records))
                    else:
                        certificate.add(records.stats)
        if waiting:
            numbers = torch.cat([records.numbers.flatten() for _, records in waiting]).cpu()
            if not add_all(waiting, numbers):
                return False
        self.merge(made)
        return True

    def merge(self, other: Certificates) -> None:
        """Add the statistics of other certificates."""
        self.forward.merge(other.forward)
        self.backward.merge(other.backward)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"forward": self.forward.to_dict(), "backward": self.backward.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Certificates:
        """Return the inverse of :meth:`to_dict`."""
        return cls(*(Certificate.from_dict(data[key]) for key in ("forward", "backward")))


def add_all(waiting: Sequence[tuple[Certificate, Records]], numbers: Tensor) -> bool:
    """Add numbers read from an accelerator, one record after another, to their certificates.

    Args:
        waiting (Sequence[tuple[Certificate, Records]]): The records and their certificates.
        numbers (Tensor): The numbers of all records, flattened and concatenated, on the CPU.

    Shapes:
        - **numbers:** ``(total,)``, float64

    Returns:
        Whether all solves converged; records after the first failure are not added.
    """
    parts = torch.split(numbers, [records.numbers.numel() for _, records in waiting])
    return all(
        certificate.add_deferred(records, part.view_as(records.numbers).numpy())
        for (certificate, records), part in zip(waiting, parts, strict=True)
    )
