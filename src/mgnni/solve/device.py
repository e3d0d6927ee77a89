r"""Solving with CUDA kernels, without host-device synchronisation where possible.

For :math:`W = g(F)` it is known in advance that :math:`W` is symmetric, positive semidefinite and
:math:`\|W\|_F \le 1`. So the number of terms that suffices is known too, and nothing that the host
does depends on what the device computes: eigenpairs, coefficients, sweep, residual and certificate
are launched one after another, and the records are read on first access. Columns whose
eigenvalues need fewer terms leave the sweep early, which the device decides by itself. Large graphs
and wide weights synchronise once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from mgnni.graph.memo import memoize
from mgnni.graph.propagation import Propagation
from mgnni.kernels import launches
from mgnni.kernels.nvrtc import enter, why_not
from mgnni.solve.certify import to_frobenius
from mgnni.solve.equation import Equations, one_if_shared, step_bounds
from mgnni.solve.plan import Plan, full_precision
from mgnni.solve.result import Options, Solution
from mgnni.solve.rounding import rounding_factors

LARGEST = 2**25  # numbers in the states of all equations past which launches cost nothing
MOST_ENTRIES = 2**24  # entries of the operator, likewise
SHARE = 0.5  # of the tolerance that the truncation may use; rounding needs the rest


def kernels_available(device: torch.device) -> bool:
    """Whether the kernels of this module can run on a device."""
    return device.type == "cuda" and why_not() is None


def has_kernels(equations: Equations, options: Options) -> bool:
    """Whether the number of terms is known in advance, and the device has kernels."""
    operator, tensor = equations.operator, equations.weights.tensor
    return (
        options.max_iter is None
        and not operator.is_sharded
        and tensor.dtype is torch.float32
        and equations.weights.psd_norm is not None
        and operator.num_nodes * equations.channels > 0
        and kernels_available(tensor.device)
        and equations.gamma * max(equations.step_bounds) < 0.999
        and operator.pattern.nnz > 0
    )


def fits_one_launch(equations: Equations) -> bool:
    """Whether the whole sweep can be a single launch."""
    pattern, channels = equations.operator.pattern, equations.channels
    width = len(equations) * launches.padded(channels)
    return (
        len(equations) * equations.operator.num_nodes * channels <= LARGEST
        and pattern.nnz <= MOST_ENTRIES
        and launches.has_room(pattern.rows, width, equations.weights.tensor.device)
    )


@dataclass(frozen=True, eq=False)
class CertificateConstants:
    """What the certificate kernels read, apart from states and weights."""

    batch: Tensor | None  # shape: (num_nodes,)
    num_graphs: int
    weight: Tensor | None  # shape: (num_nodes,), in a norm other than Frobenius', float64
    largest: bool  # whether that norm is a maximum, else a sum
    to_frobenius: Tensor | None  # shape: (num_graphs,), from that norm to the Frobenius norm
    steps: Tensor  # shape: (equations,), gamma ||P||^m
    factors: Tensor  # shape: (equations,), rounding factors


@memoize
def _certificate_constants(
    operator: Propagation, scales: tuple[int, ...], gamma: float, channels: int, frobenius: float
) -> CertificateConstants:
    weight, powers = operator.norm.weight, step_bounds(operator, scales)
    factors = rounding_factors(operator, scales, gamma, channels, [frobenius] * len(scales))
    numbers = (*(gamma * one for one in powers), *factors)
    return CertificateConstants(
        operator.batch,
        max(operator.num_graphs, 1),
        None if weight is None else weight.double().contiguous(),
        operator.norm.kind == "max",
        to_frobenius(operator, operator.norm),
        *constant(numbers, torch.float64, operator.device).view(2, -1).unbind(),
    )


@lru_cache(maxsize=1024)
def constant(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns a small constant tensor, transferred to its device only once.

    Args:
        numbers (tuple[float, ...]): The entries.
        dtype (torch.dtype): The dtype.
        device (torch.device): The device.

    Shapes:
        - **output:** ``(len(numbers),)``
    """
    with torch.inference_mode(False):
        return torch.tensor(numbers, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _monomials(scales: tuple[int, ...], wide: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Coefficients and degrees of the expansions that are the powers :math:`P^m` themselves."""
    scale = torch.tensor(scales).repeat_interleave(wide)
    coefficient = (torch.arange(max(scales) + 1).unsqueeze(1) == scale).float()
    with torch.inference_mode(False):
        return coefficient.to(device), scale[:: launches.COLUMNS].int().to(device)


@dataclass(frozen=True, eq=False)
class Launched:
    r"""What a device plan computes before it measures the residual.

    Attributes:
        z: The states.
        eigenvalues: Bounds on the eigenvalues of the weights with the largest first.
        iterations: Number of iterations of each equation.
        hop: :math:`P^m Z`, if the solve computed it.
        image: :math:`\gamma P^m Z W + B`, likewise.

    Shapes:
        - **z, hop, image:** ``(equations, num_nodes, channels)``
        - **eigenvalues:** ``(equations, padded)``, float64
        - **iterations:** ``(equations,)``, 32-bit
    """

    z: Tensor
    eigenvalues: Tensor
    iterations: Tensor
    hop: Tensor | None = None
    image: Tensor | None = None


class DevicePlan(Plan):
    """A plan that solves and certifies with CUDA kernels.

    Args:
        equations (Equations): The equations.
        options (Options): How to solve them.
        fallback (Callable): Returns the plan for solves that miss their tolerance, and for initial
            states that a plan which synchronises can start from.
    """

    solver: str  # name of the method in the records

    def __init__(
        self, equations: Equations, options: Options, fallback: Callable[[], Plan]
    ) -> None:
        super().__init__(equations, options)
        self._make_fallback = fallback

    @cached_property
    def fallback(self) -> Plan:
        """The plan for solves that miss their tolerance."""
        return self._make_fallback()

    @cached_property
    def _constants(self) -> CertificateConstants:
        equations = self.equations
        norm = max(equations.weights.frobenius)
        return _certificate_constants(
            equations.operator, equations.scales, equations.gamma, equations.channels, norm
        )

    @cached_property
    def _monomials(self) -> tuple[Tensor, Tensor]:
        wide = launches.padded(self.equations.channels)
        return _monomials(self.equations.scales, wide, self.equations.operator.device)

    @abstractmethod
    def _launch(self, bias: Tensor) -> Launched:
        """Launches the solve for one shared bias or one per equation."""

    @torch.no_grad()
    def solve(self, bias: Tensor, start: Tensor | None = None, deferred: bool = False) -> Solution:
        """Solves the equations; see :meth:`Plan.solve`."""
        if self.synchronises and start is not None and self.equations.operator.batch is None:
            return self.fallback.solve(bias, start)
        with full_precision(bias.device):
            enter(bias.device)
            one = one_if_shared(bias).contiguous()
            solution = self._certify(one, self._launch(one))
        if deferred and not self.synchronises:
            return solution
        if solution.records.converged:
            return solution
        if not bool(self.equations.weights.tensor.isfinite().all()):
            return solution  # there are no eigenvalues to find
        return self.fallback.solve(bias, start)

    def _certify(self, bias: Tensor, found: Launched) -> Solution:
        """Measures the residual at the states, on the device."""
        z, hop, image = found.z, found.hop, found.image
        if hop is None or image is None:
            weight, gamma = self.equations.weights.tensor, self.equations.gamma
            hop = self._hop(z)
            image = torch.baddbmm(bias.expand(z.shape), hop, weight, alpha=gamma)
        residual = image.sub_(z)
        constants = self._constants
        numbers = launches.certificates(
            residual,
            z,
            bias,
            found.eigenvalues,
            found.iterations,
            batch=constants.batch,
            num_graphs=constants.num_graphs,
            weight=constants.weight,
            largest=constants.largest,
            to_frobenius=constants.to_frobenius,
            steps=constants.steps,
            factors=constants.factors,
        )
        # A recorded CUDA graph reads the memory of its plan as long as it is replayed.
        owner = self if z.is_cuda and torch.cuda.is_current_stream_capturing() else None
        return Solution(z, hop, self.records(z, numbers, self.solver, owner=owner))

    def _hop(self, z: Tensor) -> Tensor:
        """As :meth:`Equations.hop`; in a single launch where separate products are slower."""
        equations, pattern = self.equations, self.equations.operator.pattern
        # Separate products pay off if every equation has its own scale and aligned columns.
        separate = len(set(equations.scales)) == len(equations) and equations.channels % 4 == 0
        if (separate and pattern.lines.usable) or not fits_one_launch(equations):
            return equations.hop(z)
        count, nodes, h = z.shape
        wide = launches.padded(h)
        values = equations.operator.values.detach()
        side = torch.nn.functional.pad(z, (0, wide - h)) if wide > h else z
        columns = side.permute(1, 0, 2).reshape(nodes, -1)
        hop = launches.sweep(pattern.rows, pattern.col, values, columns, *self._monomials)
        return hop.view(nodes, count, wide).permute(1, 0, 2)[..., :h]
