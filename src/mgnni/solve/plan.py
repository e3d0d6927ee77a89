"""The interfaces of a solution method, and of a plan to solve equations by it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.expansion import Expansion
from mgnni.solve.result import Options, Records, Solution
from mgnni.solve.weights import Weights

if TYPE_CHECKING:
    from mgnni.solve.device_sweep import DeviceExpansion

Expansions: TypeAlias = dict[tuple[float, int], Expansion]


class Proposal(NamedTuple):
    """States that a method believes to be accurate enough; the measured residual decides."""

    z: Tensor  # shape: (equations, nodes, channels)
    iterations: Tensor  # shape: (equations, graphs)
    exhausted: bool  # whether max_iter was too low
    hop: Tensor | None = None  # P^m z, if the method computed it
    image: Tensor | None = None  # gamma P^m z W + B, if the method computed it


class Method(ABC):
    """A method prepared for given equations. It proposes solutions and does not measure them.

    The method owns everything that follows from the equations: expansions, divisors and the like.

    Args:
        equations (Equations): The equations to solve.
        expansions (dict, optional): Expansions by tolerance and iteration budget. Equations with
            the same weights, scales, gamma and norm bound share them.
    """

    name: ClassVar[str]
    needs_symmetric_operator: ClassVar[bool] = False
    needs_symmetric_weight: ClassVar[bool] = False

    def __init__(self, equations: Equations, expansions: Expansions | None = None) -> None:
        self.equations = equations
        self.expansions: Expansions = {} if expansions is None else expansions

    @abstractmethod
    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Returns states whose relative residual should be at most ``tol``.

        Args:
            bias (Tensor): The bias :math:`B`, shape ``(equations, num_nodes, channels)``.
            tol (float): Relative residual.
            max_iter (int): Largest number of iterations.
        """

    def budget(self, steps: int) -> int:
        """Returns how many iterations of this method take the place of some Picard steps.

        A Picard step takes as many products as the scale, and so do the iterations of most methods.

        Args:
            steps (int): The number of Picard steps.
        """
        return steps

    def prepared_for(self, equations: Equations) -> Method:
        """Returns this method for related equations, and shares what both have in common.

        Args:
            equations (Equations): The adjoint equations, or the equations on a part of the graph.
        """
        return type(self)(equations, self.expansions)


@dataclass(frozen=True, eq=False)
class Previous:
    """What a plan leaves for the next pass of its layer. It does not keep the operator alive.

    Args:
        weights (Weights): The weights, with the eigenpairs that were found.
        version (int): Version counter of the weights, which the caller may change in place.
        settings (tuple): What the expansions depend on besides the weights.
        expansions (dict): The expansions of the method.
        device (DeviceExpansion, optional): Eigenpairs and coefficients on a CUDA device.
    """

    weights: Weights
    version: int
    settings: tuple[object, ...]
    expansions: Expansions
    device: DeviceExpansion | None

    def has_weights(self, weights: Weights) -> bool:
        """Whether the weights are the same; compares them number by number."""
        mine, other = self.weights.tensor, weights.tensor
        return (
            self.weights.psd_norm == weights.psd_norm
            and (mine.shape, mine.dtype, mine.device) == (other.shape, other.dtype, other.device)
            and mine._version == self.version
            and torch.equal(mine, other)
        )

    @staticmethod
    def settings_of(equations: Equations, options: Options) -> tuple[object, ...]:
        """Returns what the expansions depend on besides the weights."""
        operator = equations.operator
        graph = (operator.norm_bound, operator.symmetric, operator.device)
        return (*graph, equations.scales, equations.gamma, options)


class Plan(ABC):
    """Equations together with the method chosen for them, ready to solve for any bias.

    A plan owns everything that follows from operator, weights and options: eigenpairs,
    coefficients, degrees, and the device memory that a recorded CUDA graph reads. Make one with
    :func:`mgnni.solve.prepare.prepare`.

    Args:
        equations (Equations): The equations.
        options (Options): How to solve them.
    """

    device_expansion: DeviceExpansion | None = None

    def __init__(self, equations: Equations, options: Options) -> None:
        self.equations, self.options = equations, options
        self.expansions: Expansions = {}

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
                use them only where they have to solve again.
            deferred (bool, optional): If set to :obj:`True`, a plan that does not synchronise
                leaves the records on the device. The caller reads them, and solves again what
                missed its tolerance. (default: :obj:`False`)

        Shapes:
            - **bias, start:** ``(equations, num_nodes, channels)``
        """

    @abstractmethod
    def adjoint(self) -> Plan:
        """Returns the plan for the adjoint equations. It shares what both have in common."""

    def records(
        self,
        z: Tensor,
        numbers: Tensor,
        solver: str,
        exhausted: tuple[bool, ...] | None = None,
        owner: object = None,
    ) -> Records:
        """Returns the records of a solve.

        Args:
            z (Tensor): The states.
            numbers (Tensor): What was measured, see :class:`~mgnni.solve.result.Records`.
            solver (str): The solver that was used.
            exhausted (tuple[bool, ...], optional): Per equation, whether the budget ran out.
            owner (object, optional): Kept alive with the numbers.

        Shapes:
            - **z:** ``(equations, num_nodes, channels)``
            - **numbers:** ``(5, equations, num_graphs)``
        """
        operator, info = self.equations.operator, torch.finfo(z.dtype)
        entries = operator.total_nodes * z.size(-1)
        floor = 4 * info.smallest_normal * info.eps * math.sqrt(entries)
        how = (operator.norm.kind, self.options.tol, solver)
        return Records(numbers, self.equations.scales, *how, floor, exhausted, owner)

    def empty(self, bias: Tensor, solver: str) -> Solution | None:
        """Returns the empty solution if there are no nodes or no channels, else None.

        Args:
            bias (Tensor): The bias.
            solver (str): The solver that would be used.

        Shapes:
            - **bias:** ``(equations, num_nodes, channels)``
        """
        equations = self.equations
        if equations.operator.total_nodes * equations.channels:
            return None
        graphs = max(equations.operator.num_graphs, 1)
        numbers = torch.zeros(5, len(bias), graphs, dtype=torch.float64)
        numbers[3] = torch.tensor(equations.contractions, dtype=torch.float64).unsqueeze(1)
        z = torch.zeros_like(bias)
        return Solution(z, z, self.records(z, numbers, solver))

    def previous(self) -> Previous:
        """Returns what the next pass can reuse."""
        weights = self.equations.weights
        settings = Previous.settings_of(self.equations, self.options)
        version = weights.tensor._version
        return Previous(weights, version, settings, self.expansions, self.device_expansion)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Disables autocast and reduced-precision float32 products: certificates need both."""
    with torch.autocast(device.type, enabled=False), precision_restored() as chosen:
        if device.type == "cuda" or chosen != "highest":
            torch.set_float32_matmul_precision("highest")
        yield


@contextmanager
def precision_restored() -> Iterator[str | None]:
    """Restores the precision of float32 products, whichever of torch's settings was used.

    Yields:
        The precision, or :obj:`None` if ``torch.backends`` (torch 2.9) has one that
        ``torch.get_float32_matmul_precision`` has no name for.
    """
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        with _backends_restored():
            yield None
        return
    try:
        yield before
    finally:
        if torch.get_float32_matmul_precision() != before:
            torch.set_float32_matmul_precision(before)


@contextmanager
def _backends_restored() -> Iterator[None]:
    libraries = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    before = [library.fp32_precision for library in libraries]
    try:
        yield
    finally:
        for library, choice in zip(libraries, before, strict=True):
            library.fp32_precision = "none"  # follows torch.backends.fp32_precision again
            if library.fp32_precision != choice:
                library.fp32_precision = choice
