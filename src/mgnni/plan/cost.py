r"""Cost model: time and memory of a training step, before anything is computed.

The work of a solve is counted in *column products*: one column of one product with the operator.
After decoupling, column :math:`j` of scale :math:`m` needs as many as the degree of its expansion,
which follows from :math:`\gamma \lambda_j`, :math:`m` and the tolerance. Memory is read in units of
32 bytes, so fewer than eight columns cost as much as eight. A machine is described by a few rates,
given or measured by :func:`mgnni.plan.calibrate.calibrate`. With :math:`n` nodes,
:math:`e` entries, :math:`h` channels, :math:`M` scales and :math:`c` column products,

.. math::  \mathrm{seconds} = \frac{e\,c}{\mathrm{rate}} + \frac{24\, M n h^2}{\mathrm{flops}} +
           \mathrm{eigen}\, M h^3 + \mathrm{fixed}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.bench.problems import FALL
from mgnni.errors import ArgumentError
from mgnni.solve.columns import COLUMNS
from mgnni.solve.expansion import resolvent
from mgnni.solve.stored_terms import StoredTerms

SHARE = 0.6  # of the tolerance that the truncation gets: 0.5 with CUDA kernels, otherwise 0.7
STACKS = 5.4  # states of all scales that a fast step holds besides the graph
HALF = 6.0  # time of a product with float16 vectors, by cuSPARSE, over that of our kernels
SWEEPS = 3  # of a solve with float16 vectors, each with a certificate
PASSES = 24  # operations per node, channel and channel of all dense products of a scale


@dataclass(frozen=True)
class Machine:
    """What a device can do.

    Args:
        name (str): Its name.
        rate (float): Entries times columns per second of a sparse product.
        flops (float): Operations per second of a dense float32 product.
        memory (float): Bytes of its memory.
        fixed (float, optional): Seconds of a step besides the work. (default: :obj:`1e-3`)
        eigen (float, optional): Seconds of an eigendecomposition over the cube of its channels.
            (default: :obj:`3e-10`)
        far_rate (float, optional): As ``rate``, if a column does not fit into the caches; the same
            if :obj:`None`. (default: :obj:`None`)
        cache (float, optional): Bytes of columns up to which ``rate`` holds.
            (default: :obj:`5e7`)
        link (float, optional): Bytes per second between two devices. (default: :obj:`2e10`)
        host (float, optional): Bytes per second from pageable memory of the host to the device.
            (default: :obj:`3e9`)
        disk (float, optional): Bytes per second that the disk reads. (default: :obj:`1e9`)
    """

    name: str
    rate: float
    flops: float
    memory: float
    fixed: float = 1e-3
    eigen: float = 3e-10
    far_rate: float | None = None
    cache: float = 5e7
    link: float = 2e10
    host: float = 3e9
    disk: float = 1e9


# Rates from the stored benchmarks of these machines, see docs/scale.md.
MACHINES = {
    "h200": Machine("NVIDIA H200", 6e11, 4e13, 141e9, 5e-4, link=2e11),
    "cpu": Machine("2 CPU cores", 6e9, 1.2e11, 16e9, 2e-3, far_rate=8e8, host=1e18),
}


@dataclass(frozen=True)
class Problem:
    r"""A graph and a model.

    Args:
        nodes (int): Number of nodes.
        edges (int): Number of edges, counted in both directions.
        channels (int, optional): Channels of the states. (default: :obj:`64`)
        features (int, optional): Features of a node. (default: :obj:`128`)
        scales (tuple[int, ...], optional): The scales. (default: :obj:`(1, 2)`)
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        tol (float, optional): The tolerance. (default: :obj:`1e-5`)
        largest (float, optional): Largest eigenvalue of the weights; the others fall as after
            training. (default: :obj:`0.93`)
        directed (bool, optional): Whether the graph is directed. (default: :obj:`False`)
    """

    nodes: int
    edges: int
    channels: int = 64
    features: int = 128
    scales: tuple[int, ...] = (1, 2)
    gamma: float = 0.8
    tol: float = 1e-5
    largest: float = 0.93
    directed: bool = False

    def __post_init__(self) -> None:
        for name in ("nodes", "edges", "channels", "features"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"'{name}' must be positive (got {getattr(self, name)})")

    @property
    def entries(self) -> int:
        """Entries of the operator, with self-loops."""
        return self.nodes + self.edges

    @property
    def graph_bytes(self) -> float:
        """Bytes of the operator: 32-bit columns and entries, and row pointers."""
        wide = 8 if self.entries >= 2**31 or self.nodes >= 2**31 else 4
        copies = 2 if self.directed else 1  # the transpose
        return copies * (self.entries * (wide + 4.0) + wide * self.nodes)

    @property
    def state_bytes(self) -> float:
        """Bytes of the states of one scale."""
        return 4.0 * self.nodes * self.channels

    @cached_property
    def _columns(self) -> list[Tensor]:
        """Degree of every column of every scale, falling."""
        h = self.channels
        rank = torch.arange(h, dtype=torch.float64)
        values = torch.exp(-rank / FALL)
        if h > 1:
            rest = values[:-1] * (1 - self.largest**2) ** 0.5 / values[:-1].norm()
            values = torch.cat([torch.tensor([self.largest]).double(), rest])
        return [self._degrees(values, scale).sort(descending=True)[0] for scale in self.scales]

    @cached_property
    def column_products(self) -> float:
        """Column products of the solves of both passes, without those of certificates.

        Of all columns side by side, sorted by degree, those that are left fill whole groups.
        """
        return 2.0 * _in_groups(torch.cat(self._columns).sort(descending=True)[0])

    @cached_property
    def panel_products(self) -> float:
        """As :attr:`column_products`, if the columns of each scale are solved group by group."""
        return 2.0 * sum(_in_groups(degrees) for degrees in self._columns)

    def _degrees(self, values: Tensor, scale: int) -> Tensor:
        tol = SHARE * self.tol
        rate = (self.gamma * values).clamp(min=1e-300)
        if self.directed:
            return scale * torch.ceil(torch.log(torch.tensor(tol)) / torch.log(rate)).clamp(min=0)
        front, rho = resolvent(rate, scale)
        slowest = rho.abs().amax(-1)
        tail = (front.abs() / (1 - rho.abs())).sum(-1)
        needed = torch.log(tol / 2 / tail) / torch.log(slowest.clamp(min=1e-300)) - 1
        return torch.ceil(needed).clamp(min=0)

    @property
    def certificate_products(self) -> float:
        """Column products that measure the residuals of both passes."""
        return 2.0 * self.channels * sum(self.scales)

    @property
    def stored_terms(self) -> int:
        """Number of terms that a precomputed sweep stores."""
        return len(self._terms.index)

    @property
    def computed_terms(self) -> int:
        """Number of terms that are computed for it; not all of them are stored."""
        return self._terms.index[-1] + 1

    @property
    def _terms(self) -> StoredTerms:
        return StoredTerms.needed(self.scales, self.gamma, self.tol, not self.directed)


def _in_groups(degrees: Tensor) -> float:
    """Return the sum of falling degrees, each raised to the largest of its group."""
    return float(COLUMNS * degrees[::COLUMNS].sum())


@dataclass(frozen=True)
class Estimate:
    """What a way to train takes.

    Args:
        way (str): What is done.
        seconds (float): Seconds of a full-batch step, or of the whole precomputation.
        memory (float): Bytes per device; of the host for a precomputed sweep.
        fits (bool): Whether that fits the device.
        traffic (float, optional): Bytes that every device sends in a step. (default: :obj:`0.0`)
        disk (float, optional): Bytes on disk. (default: :obj:`0.0`)
    """

    way: str
    seconds: float
    memory: float
    fits: bool
    traffic: float = 0.0
    disk: float = 0.0


def product_rate(problem: Problem, machine: Machine, width: int) -> float:
    """Return the rate of products with this many columns."""
    far = 4.0 * problem.nodes * width > machine.cache
    return machine.far_rate if far and machine.far_rate is not None else machine.rate


def solve_seconds(problem: Problem, machine: Machine, memory: str = "fast") -> float:
    """Return the time of a forward and a backward solve on one device."""
    h, scales = problem.channels, len(problem.scales)
    sweeps, certificates = problem.column_products, problem.certificate_products
    if memory == "half":
        sweeps, certificates = HALF * problem.panel_products, SWEEPS * certificates
    if memory == "low":
        sweeps = problem.panel_products
    if memory != "fast":  # the gradient repeats P^m Z
        certificates += h * sum(problem.scales)
    width = min(h, 32) if memory == "fast" else COLUMNS
    work = problem.entries * (sweeps + certificates) / product_rate(problem, machine, width)
    dense = PASSES * scales * problem.nodes * h**2 / machine.flops
    return work + dense + machine.eigen * scales * h**3 + machine.fixed


def solve_bytes(problem: Problem, memory: str = "fast") -> float:
    """Return the memory of both solves, besides graph, bias and gradient of the states."""
    stack = len(problem.scales) * problem.state_bytes
    if memory == "fast":
        return STACKS * stack
    panel = 4.0 * COLUMNS * problem.nodes
    # A sweep needs three panels; its certificate two, and the residual.
    largest = max(3 * panel, 2 * panel + problem.state_bytes)
    copy = 2.0 * problem.entries if memory == "half" else 0.0  # of the entries, as float16
    return 2 * stack + largest + copy


def step_bytes(problem: Problem, memory: str) -> float:
    """Return the memory of a training step on one device."""
    stack = len(problem.scales) * problem.state_bytes
    inputs = 0.0
    if memory == "fast":  # features, two activations of the input map, bias, and the head
        inputs = 4.0 * problem.nodes * (problem.features + 3 * problem.channels) + 2 * stack
    return problem.graph_bytes + solve_bytes(problem, memory) + stack + inputs


def step_seconds(problem: Problem, machine: Machine, memory: str) -> float:
    """Return the time of a training step: solves, input map and head, and transfers."""
    h, scales = problem.channels, len(problem.scales)
    maps = 6.0 * problem.nodes * h * (problem.features + h + 16 * scales) / machine.flops
    seconds = solve_seconds(problem, machine, memory) + maps
    if memory != "fast":  # computed again, with features from the host
        seconds += maps / 2 + 2 * 4.0 * problem.nodes * problem.features / machine.host
    return seconds
