"""No error exceeds its certificate, on random problems."""

import math
import os
import statistics
import warnings
from dataclasses import dataclass

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import to_undirected

from mgnni import ConvergenceWarning, Propagation, SolveResult, solve_equilibrium
from mgnni.solve.prepare import METHODS
from problems import admits, dense_solution, generator, state_norm, weight

# Fewer examples on a GPU, where these small problems are slow.
EXAMPLES = 2000 if os.environ.get("MGNNI_TEST_DEVICE", "cpu") == "cpu" else 300
FORMS = ("random", "rank-one", "identity", "indefinite", "general", "small", "one column")


@dataclass(frozen=True)
class Problem:
    """One random equation; its ``repr`` is enough to rebuild it."""

    seed: int
    sizes: tuple[int, ...]  # of the graphs; more than one makes a batch
    density: float
    directed: bool
    normalization: str
    flow: str
    self_loops: bool
    form: str
    channels: int
    gamma: float
    scale: int
    tol: float
    single: bool
    solver: int  # index among the solvers that admit the problem

    def build(self, device: torch.device) -> tuple[Propagation, Tensor, Tensor, str]:
        g = generator(self.seed)
        edges, batch, first = [], [], 0
        for number, size in enumerate(self.sizes):
            found = (torch.rand(size, size, generator=g) < self.density).nonzero().T
            edges.append(found + first)
            batch += [number] * size
            first += size
        edge_index = torch.cat(edges, dim=1)
        if not self.directed:
            edge_index = to_undirected(edge_index, num_nodes=first)
        edge_weight = 0.05 + torch.rand(edge_index.size(1), dtype=torch.float64, generator=g)
        if not self.directed:  # one weight for both directions
            low, high = edge_index.min(0).values, edge_index.max(0).values
            edge_weight = 0.05 + torch.frac((low * 0.618 + high * 0.414).double()).abs()
        kind = self.normalization
        if kind == "sym" and self.directed:
            kind = "dir"
        if kind == "none":
            sign = torch.sign(torch.rand(first, first, generator=g) - 0.3)
            sign = torch.triu(sign) + torch.triu(sign, 1).T
            edge_weight = edge_weight * sign[edge_index[0], edge_index[1]]
            total = torch.zeros(first, dtype=torch.float64)
            total = total.index_add(0, edge_index[0], edge_weight.abs())
            edge_weight = edge_weight / (total.max() if edge_weight.numel() else 1)
        operator = Propagation.from_edge_index(
            edge_index,
            first,
            edge_weight,
            kind,
            self.self_loops and kind != "none",
            flow=self.flow,
            batch=torch.tensor(batch) if len(self.sizes) > 1 else None,
        )
        if self.form == "small":
            w = 1e-3 * weight("random", self.channels, self.seed)
        elif self.form == "one column":
            w = torch.zeros(self.channels, self.channels, dtype=torch.float64)
            w[:, 0] = self.channels**-0.5
        else:
            w = weight(self.form, self.channels, self.seed)
        bias = torch.randn(first, self.channels, dtype=torch.float64, generator=g)
        bias = bias * torch.exp(3 * torch.randn(first, 1, dtype=torch.float64, generator=g))
        dtype = torch.float32 if self.single else torch.float64
        operator = operator.to(device).to(dtype)
        w, bias = w.to(device, dtype), bias.to(device, dtype)
        names = [name for name in (*METHODS, "auto") if admits(name, operator, w)]
        return operator, w, bias, names[self.solver % len(names)]

    def solve(self, device: torch.device) -> tuple[SolveResult, Tensor, Propagation]:
        """The result and the dense solution. A solve that failed must be certified as well."""
        operator, w, bias, solver = self.build(device)
        gamma = self.gamma
        lipschitz = torch.linalg.matrix_norm(w.double(), 2).item() * operator.norm_bound**self.scale
        if gamma * lipschitz >= 0.995:
            gamma = 0.99 / lipschitz
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = solve_equilibrium(
                operator,
                w,
                bias,
                self.scale,
                gamma,
                solver=solver,
                tol=self.tol,
                on_failure="warn",
            )
        return result, dense_solution(operator, w, bias, self.scale, gamma), operator


def check(problem: Problem, device: torch.device) -> list[float]:
    """Compare every graph with its certificate; returns bound over error where there is one."""
    result, expected, operator = problem.solve(device)
    graph = operator.graph_of_node()
    ratios = []
    for number in range(operator.num_graphs):
        mine = graph == number
        error = (result.value.double() - expected)[mine].norm().item()
        reference = 1e-13 * expected[mine].norm().item()  # the rounding of the dense solution
        bound = result.graph_error_bound[number].item()
        assert error <= bound + reference, f"graph {number}: error {error}, certified {bound}"
        if error > 10 * reference:
            ratios.append(bound / error)
    assert result.error_bound == result.graph_error_bound.max().item()
    return ratios


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)


@st.composite
def problems(draw, batch: bool = False) -> Problem:
    single = draw(st.booleans())
    sizes = st.lists(st.integers(1, 8), min_size=2, max_size=6) if batch else None
    return Problem(
        seed=draw(st.integers(0, 2**20)),
        sizes=tuple(draw(sizes)) if sizes is not None else (draw(st.integers(1, 25)),),
        density=draw(st.floats(0.0, 1.0)),
        directed=draw(st.booleans()),
        normalization=draw(st.sampled_from(["sym", "dir", "out", "row", "none"])),
        flow=draw(st.sampled_from(["source_to_target", "target_to_source"])),
        self_loops=draw(st.booleans()),
        form=draw(st.sampled_from(FORMS)),
        channels=draw(st.integers(1, 4)),
        gamma=draw(st.floats(0.0, 0.99)),
        scale=draw(st.integers(1, 8)),
        tol=draw(log_uniform(1e-6 if single else 1e-12, 1e-2)),
        single=single,
        solver=draw(st.integers(0, len(METHODS))),
    )


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_no_error_exceeds_its_certificate(problem, device):
    check(problem, device)


@settings(max_examples=EXAMPLES // 3, suppress_health_check=list(HealthCheck))
@given(problem=problems(batch=True))
def test_no_graph_of_a_batch_exceeds_its_certificate(problem, device):
    check(problem, device)


def random_problem(seed: int) -> Problem:
    """A problem for every seed, distributed as those of the strategies."""
    g = generator(seed)

    def pick(options):
        return options[int(torch.randint(len(options), (), generator=g))]

    def between(low, high):
        return low + (high - low) * torch.rand((), dtype=torch.float64, generator=g).item()

    single = pick([True, False])
    return Problem(
        seed=seed,
        sizes=(pick(range(2, 26)),),
        density=between(0.05, 0.6),
        directed=pick([True, False]),
        normalization=pick(["sym", "dir", "out", "row", "none"]),
        flow=pick(["source_to_target", "target_to_source"]),
        self_loops=pick([True, False]),
        form=pick(FORMS),
        channels=pick(range(1, 5)),
        gamma=between(0.1, 0.99),
        scale=pick(range(1, 9)),
        tol=10.0 ** between(-6 if single else -12, -2),
        single=single,
        solver=pick(range(len(METHODS) + 1)),
    )


def test_the_certificate_is_not_vacuous(device):
    """The bounds are within an order of magnitude of the errors."""
    ratios = [ratio for seed in range(400) for ratio in check(random_problem(seed), device)]
    assert len(ratios) >= 300
    assert statistics.median(ratios) <= 10


def test_the_certificate_is_sharp_where_it_can_be(device):
    """One node, one channel: the error is the residual over 1 - L, and nothing else."""
    edge_index = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(edge_index, 1, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    for gamma in (0.5, 0.9, 0.99):
        result = solve_equilibrium(operator, one, one, gamma=gamma, solver="picard", tol=1e-3)
        error = abs(result.value.item() - 1 / (1 - gamma))
        assert error <= result.error_bound <= error * (1 + 1e-9)


def test_the_certificate_allows_for_a_rounded_operator(device):
    """Entries of 1/3 in float32 sum to a little more than one, and so does their norm."""
    edge_index = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]], device=device)
    for dtype in (torch.float32, torch.float64):
        operator = Propagation.from_edge_index(edge_index, 3, dtype=dtype)
        one = torch.ones(1, 1, dtype=dtype, device=device)
        bias = torch.ones(3, 1, dtype=dtype, device=device)
        for gamma in (0.99, 0.999, 0.9999):
            for tol in (1e-2, 0.1, 0.3):
                result = solve_equilibrium(
                    operator, one, bias, gamma=gamma, solver="picard", tol=tol
                )
                error = (
                    result.value.double() - dense_solution(operator, one, bias, 1, gamma)
                ).norm()
                assert error.item() <= result.error_bound, (dtype, gamma, tol)


def test_the_bound_is_that_of_the_named_norm(device):
    """A directed hub: residual over 1 - L in the sum norm, converted to the Frobenius norm."""
    leaves = torch.arange(1, 21, device=device)
    operator = Propagation.from_edge_index(
        torch.stack([leaves, torch.zeros_like(leaves)]),
        21,
        normalization="out",
        dtype=torch.float64,
    )
    w = weight("random", 2).to(device)
    bias = torch.randn(21, 2, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9, solver="picard", tol=1e-4)
    residual = 0.9 * operator.to_dense() @ result.value @ w + bias - result.value
    proven = state_norm(operator, residual) / (1 - result.contraction)
    proven *= (1 / operator.norm.weight).max().item()
    assert result.norm == "sum"
    assert result.error_bound >= proven * (1 - 1e-12)
    assert result.error_bound <= proven * (1 + 1e-6) + 1e-12
