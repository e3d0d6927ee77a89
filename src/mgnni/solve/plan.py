"""The interface of a plan: equations, the method chosen for them, and all that follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.result import Options, Solution


class Plan(ABC):
    """Equations together with the method chosen for them, ready to solve for any bias.

    A plan owns everything that follows from operator, weights and options: eigenpairs,
    coefficients, degrees, and the device memory that a recorded CUDA graph reads. Make one with
    :func:`mgnni.solve.prepare.prepare`.

    Args:
        equations (Equations): The equations.
        options (Options): How to solve them.
    """

    def __init__(self, equations: Equations, options: Options) -> None:
        self.equations, self.options = equations, options

    @property
    @abstractmethod
    def synchronises(self) -> bool:
        """Whether a solve waits for the device; if not, it can be recorded as a CUDA graph."""

    @abstractmethod
    def solve(self, bias: Tensor, start: Tensor | None = None, deferred: bool = False) -> Solution:
        """Solves the equations. Failure is recorded, not raised.

        Args:
            bias (Tensor): The bias :math:`B`.
            start (Tensor, optional): States close to the solution. Plans that do not synchronise
                ignore them.
            deferred (bool, optional): If set to :obj:`True`, a plan that does not synchronise
                leaves the records on the device. The caller reads them, and solves again what
                missed its tolerance. (default: :obj:`False`)

        Shapes:
            - **bias, start:** ``(equations, num_nodes, channels)``
        """

    @abstractmethod
    def adjoint(self) -> Plan:
        """Returns the plan for the adjoint equations. It shares what both have in common."""


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Disables autocast and reduced-precision float32 products: certificates need both."""
    before = torch.get_float32_matmul_precision()
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda" and before == "highest":
            yield
            return
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
