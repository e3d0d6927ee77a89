"""The contract of every solver: the dense solution, and correct statistics."""

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from mgnni import (
    ArgumentError,
    ConvergenceError,
    Propagation,
    SolveResult,
    Status,
    solve_equilibria,
)
from mgnni import solve_equilibrium as solve
from mgnni.solve.prepare import METHODS
from problems import admits, chain, dense_solution, generator, lopsided_edges, propagation, weight

SCALES = (1, 2, 3, 5, 8)
GAMMAS = (0.0, 0.5, 0.8, 0.99)
WEIGHTS = ("random", "rank-one", "identity", "indefinite", "general")
ITERATIVE = ("picard", "anderson", "cg", "gmres")
NUM_NODES, CHANNELS = 8, 3
EDGELESS = torch.zeros(2, 0, dtype=torch.long)

solvers = pytest.mark.parametrize("solver", [*METHODS, "auto"])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def undirected(normalization: str) -> Propagation:
    edge_index, w = to_undirected(*lopsided_edges(NUM_NODES, 1), num_nodes=NUM_NODES)
    return Propagation.from_edge_index(edge_index, NUM_NODES, w, normalization)


OPERATORS = {
    "chain": lambda: Propagation.from_edge_index(chain(8), 8, dtype=torch.float64),
    "undirected weighted": lambda: undirected("sym"),
    "undirected by out-degree": lambda: undirected("out"),
    "dir": lambda: propagation("dir", NUM_NODES),
    "out": lambda: propagation("out", NUM_NODES),
    "row": lambda: propagation("row", NUM_NODES),
    "none": lambda: propagation("none", NUM_NODES, self_loops=False),
    "undirected none": lambda: Propagation.from_edge_index(
        chain(8), 8, 0.4 * torch.ones(14, dtype=torch.float64), "none", False
    ),
    "without self-loops": lambda: propagation("dir", NUM_NODES, self_loops=False),
    "other flow": lambda: propagation("out", NUM_NODES, flow="target_to_source"),
    "one node": lambda: Propagation.from_edge_index(EDGELESS, 1, dtype=torch.float64),
    "no edges": lambda: Propagation.from_edge_index(
        EDGELESS, 4, self_loops=False, dtype=torch.float64
    ),
}
operators = pytest.mark.parametrize("kind", OPERATORS)


def problems(operator: Propagation, solver: str, gamma: float):
    """One problem per scale, with alternating weights that the solver admits."""
    kinds = [k for k in WEIGHTS if admits(solver, operator, weight(k, CHANNELS))]
    for turn, scale in enumerate(SCALES):
        g = generator(turn)
        bias = torch.randn(operator.num_nodes, CHANNELS, dtype=torch.float64, generator=g)
        # Another weight of the same scale for every gamma.
        kind = kinds[(turn + GAMMAS.index(gamma)) % len(kinds)]
        yield scale, weight(kind, CHANNELS, seed=turn), bias


def relative(value: Tensor, expected: Tensor) -> float:
    size = expected.norm().item()
    return (value.double() - expected).norm().item() / size if size else value.norm().item()


def dense_residual(
    operator: Propagation, w: Tensor, bias: Tensor, scale: int, gamma: float, z: Tensor
) -> Tensor:
    """The residual in float64, by dense products."""
    p = torch.linalg.matrix_power(operator.to_dense().double(), scale)
    return gamma * p @ z.double() @ w.double() + bias.double() - z.double()


def check_result(
    result: SolveResult,
    operator: Propagation,
    w: Tensor,
    bias: Tensor,
    scale: int,
    gamma: float,
    solver: str,
    tol: float,
) -> None:
    """Recomputes every number of the result at the returned value by other means."""
    residual = dense_residual(operator, w, bias, scale, gamma, result.value).norm().item()
    reference = max(bias.double().norm().item(), result.value.double().norm().item())
    unit = torch.finfo(bias.dtype).eps
    # Two evaluations of a residual differ by rounding only.
    growth = 1 + scale * operator.to_dense().double().abs().sum(1).max().item() ** scale
    assert result.residual == pytest.approx(residual, rel=1e-6, abs=4 * unit * growth * reference)
    assert result.relative_residual == pytest.approx(
        result.residual / reference if reference else 0.0, rel=1e-12
    )
    assert result.status is Status.CONVERGED
    assert result.converged
    assert result.relative_residual <= tol == result.tol
    assert result.iterations == int(result.graph_iterations.max())
    assert result.error_bound == float(result.graph_error_bound.max())
    assert result.relative_error_bound == pytest.approx(
        result.error_bound / reference if reference else 0.0, rel=1e-6
    )
    assert result.solver == solver if solver != "auto" else result.solver in METHODS
    assert (result.scale, result.norm) == (scale, operator.norm.kind)
    norm_w = torch.linalg.matrix_norm(w.double(), 2).item()
    proven = gamma * norm_w * operator.norm_bound**scale
    assert result.contraction == pytest.approx(proven, rel=1e-6, abs=1e-300)
    assert result.value.dtype is bias.dtype
    assert result.value.device == bias.device
    assert result.value.shape == bias.shape


@pytest.mark.parametrize("gamma", GAMMAS)
@dtypes
@operators
@solvers
def test_the_solution_is_the_dense_one(solver, kind, dtype, gamma, device):
    operator = OPERATORS[kind]().to(device).to(dtype)
    if solver in ("cg", "chebyshev", "spectral", "wide") and not operator.symmetric:
        pytest.skip("needs a symmetric operator")
    tol, limit = (1e-13, 1e-10) if dtype is torch.float64 else (1e-7, 1e-5)
    for scale, w, bias in problems(operator, solver, gamma):
        w, bias = w.to(device, dtype), bias.to(device, dtype)
        result = solve(operator, w, bias, scale, gamma, solver=solver, tol=tol)
        expected = dense_solution(operator, w, bias, scale, gamma)
        assert relative(result.value, expected) <= limit, (scale, gamma)
        check_result(result, operator, w, bias, scale, gamma, solver, tol)


@pytest.mark.parametrize("kind", ["chain", "dir", "one node", "no edges"])
@solvers
def test_a_zero_bias_has_the_zero_solution(solver, kind, device):
    operator = OPERATORS[kind]().to(device)
    w = weight("random", CHANNELS).to(device)
    if not admits(solver, operator, w):
        pytest.skip("needs a symmetric operator")
    bias = torch.zeros(operator.num_nodes, CHANNELS, dtype=torch.float64, device=device)
    result = solve(operator, w, bias, 2, 0.9, solver=solver)
    assert bool((result.value == 0).all())
    assert (result.residual, result.relative_residual, result.error_bound) == (0.0, 0.0, 0.0)
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("num_nodes", [0, 3])
@pytest.mark.parametrize("channels", [0, 2])
@solvers
def test_empty_problems_have_empty_solutions(solver, channels, num_nodes, device):
    if num_nodes and channels:
        pytest.skip("not empty")
    operator = Propagation.from_edge_index(EDGELESS.to(device), num_nodes, dtype=torch.float64)
    bias = torch.zeros(num_nodes, channels, dtype=torch.float64, device=device)
    w = torch.zeros(channels, channels, dtype=torch.float64, device=device)
    result = solve(operator, w, bias, solver=solver)
    assert result.value.shape == (num_nodes, channels)
    assert (result.residual, result.error_bound, result.iterations) == (0.0, 0.0, 0)
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("memory", ["low", "half"])
@pytest.mark.parametrize(("num_nodes", "channels"), [(3, 0), (0, 0), (0, 2)])
def test_empty_problems_need_no_panels_of_columns(num_nodes, channels, memory, device):
    edge_index = torch.tensor([[0, 1], [1, 2]])[:, :num_nodes].to(device)
    operator = Propagation.from_edge_index(edge_index, num_nodes)
    w = torch.zeros(channels, channels, device=device, requires_grad=True)
    bias = torch.zeros(num_nodes, channels, device=device, requires_grad=True)
    result = solve(operator, w, bias, 2, memory=memory)
    assert result.value.shape == (num_nodes, channels)
    assert (result.residual, result.error_bound, result.iterations) == (0.0, 0.0, 0)
    assert result.status is Status.CONVERGED
    grads = torch.autograd.grad(result.value.sum(), [w, bias])
    assert [grad.shape for grad in grads] == [w.shape, bias.shape]


@pytest.mark.parametrize("gamma", [0.5, 0.99])
@pytest.mark.parametrize("kind", ["chain", "out"])
@solvers
def test_equations_with_one_channel_are_solved(solver, kind, gamma, device):
    operator = OPERATORS[kind]().to(device)
    for factor in (1.0, -1.0, 0.3):
        w = torch.full((1, 1), factor, dtype=torch.float64, device=device)
        if not admits(solver, operator, w):
            pytest.skip("needs a symmetric operator")
        bias = torch.randn(operator.num_nodes, 1, dtype=torch.float64, device=device)
        for scale in (1, 3):
            result = solve(operator, w, bias, scale, gamma, solver=solver, tol=1e-12)
            expected = dense_solution(operator, w, bias, scale, gamma)
            assert relative(result.value, expected) <= 1e-9


SINGULAR = {
    "zero": torch.zeros(3, 3),
    "one direction": torch.diag(torch.tensor([1.0, 0.0, 0.0])),
    "two directions": torch.diag(torch.tensor([0.5, 0.0, -0.5])),
}


@pytest.mark.parametrize("form", SINGULAR)
@pytest.mark.parametrize("kind", ["chain", "dir"])
@solvers
def test_weights_with_zero_eigenvalues_are_solved(solver, kind, form, device):
    operator = OPERATORS[kind]().to(device)
    w = SINGULAR[form].double().to(device)
    if not admits(solver, operator, w):
        pytest.skip("needs a symmetric operator")
    bias = torch.randn(operator.num_nodes, 3, dtype=torch.float64, device=device)
    for scale in (1, 2):
        result = solve(operator, w, bias, scale, 0.8, solver=solver, tol=1e-12)
        assert relative(result.value, dense_solution(operator, w, bias, scale, 0.8)) <= 1e-10


@pytest.mark.parametrize("form", ["columns", "every second row", "expanded"])
@solvers
def test_memory_layout_does_not_matter(solver, form, device):
    operator = OPERATORS["chain"]().to(device)
    w = weight("random", CHANNELS).to(device)
    if form == "columns":
        bias = torch.randn(CHANNELS, 8, dtype=torch.float64, device=device).T
        w = w.T
    elif form == "every second row":
        bias = torch.randn(16, 2 * CHANNELS, dtype=torch.float64, device=device)[::2, ::2]
        w = w.repeat_interleave(2, 0).repeat_interleave(2, 1)[::2, ::2]
    else:
        bias = torch.randn(1, CHANNELS, dtype=torch.float64, device=device).expand(8, -1)
    assert not bias.is_contiguous()
    before = bias.clone()
    result = solve(operator, w, bias, 2, 0.9, solver=solver, tol=1e-12)
    assert relative(result.value, dense_solution(operator, w, bias, 2, 0.9)) <= 1e-10
    assert torch.equal(bias, before), "the bias was written to"


@pytest.mark.parametrize("power", [-60, 60])
@solvers
def test_solutions_scale_with_the_bias(solver, power, device):
    """The equation is linear, so float32 gradients of 1e-18 must be as accurate as those of 1."""
    operator = OPERATORS["undirected weighted"]().to(device).to(torch.float32)
    w = weight("random", CHANNELS).to(device).float()
    bias = torch.randn(operator.num_nodes, CHANNELS, device=device)
    expected = dense_solution(operator, w, bias, 2, 0.9)
    result = solve(operator, w, bias * 2.0**power, 2, 0.9, solver=solver, tol=1e-6)
    value = result.value.double() / 2.0**power
    assert relative(value, expected) <= 1e-4
    assert (value - expected).norm().item() <= result.error_bound / 2.0**power


@pytest.mark.parametrize(
    ("dtype", "power"),
    [
        (torch.float64, -1000),
        (torch.float64, -600),
        (torch.float64, 600),
        (torch.float64, 1000),
        (torch.float64, 1021),
        (torch.float32, -140),
        (torch.float32, -120),
        (torch.float32, 120),
        (torch.float32, 125),
    ],
    ids=str,
)
@solvers
def test_numbers_at_the_end_of_the_range_are_solved_or_refused(solver, dtype, power, device):
    """Squares of these numbers vanish or overflow; the certificate must hold nevertheless."""
    operator = OPERATORS["undirected weighted"]().to(device).to(dtype)
    w = weight("rank-one", CHANNELS).to(device, dtype)
    bias = torch.randn(operator.num_nodes, CHANNELS, dtype=dtype, device=device)
    half, rest = 2.0 ** (power // 2), 2.0 ** (power - power // 2)  # the power itself may overflow
    bias = bias * half * rest
    expected = dense_solution(operator, w, bias.double() / half / rest, 2, 0.9)
    try:
        result = solve(operator, w, bias, 2, 0.9, solver=solver, tol=1e-6)
    except ConvergenceError:
        return
    error = (result.value.double() / half / rest - expected).norm().item()
    assert error <= result.error_bound / half / rest + 1e-13


def one_way(num_nodes: int) -> Tensor:
    nodes = torch.arange(num_nodes)
    return torch.stack([nodes[:-1], nodes[1:]])


def hub(num_nodes: int) -> Tensor:
    leaves = torch.arange(1, num_nodes)
    return torch.stack([leaves, torch.zeros_like(leaves)])


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("shape", [one_way, hub], ids=["one-way chain", "hub"])
@pytest.mark.parametrize("form", ["identity", "turn", "general"])
@pytest.mark.parametrize("solver", ["picard", "anderson", "gmres", "series", "auto"])
def test_operators_far_from_normal_are_solved(solver, form, shape, flow, device):
    """Contractions whose residual grows in the Frobenius norm before it falls."""
    operator = Propagation.from_edge_index(
        shape(30).to(device), 30, normalization="out", flow=flow, dtype=torch.float64
    )
    eye = torch.eye(2, dtype=torch.float64)
    turn = torch.matrix_exp(torch.tensor([[0.0, 0.01], [-0.01, 0.0]], dtype=torch.float64))
    turn = turn / torch.linalg.matrix_norm(turn, 2)
    w = {"identity": eye, "turn": turn, "general": weight("general", 2)}[form].to(device)
    if not admits(solver, operator, w):
        pytest.skip("needs a symmetric weight")
    bias = torch.zeros(30, 2, dtype=torch.float64, device=device)
    bias[0 if flow == "source_to_target" else -1] = 1.0  # enters where the graph begins
    result = solve(operator, w, bias, 1, 0.99, solver=solver, tol=1e-6)
    error = (result.value - dense_solution(operator, w, bias, 1, 0.99)).norm().item()
    assert error <= result.error_bound


@pytest.mark.parametrize(
    ("kind", "form", "refused", "what"),
    [
        ("dir", "random", ["cg", "chebyshev", "spectral", "wide"], "operator"),
        ("out", "random", ["cg", "chebyshev", "spectral", "wide"], "operator"),
        (
            "chain",
            "general",
            ["cg", "chebyshev", "spectral", "wide", "series", "deflated"],
            "weight",
        ),
        ("dir", "general", ["series", "deflated"], "weight"),
    ],
)
def test_a_solver_that_needs_symmetry_refuses_other_problems(kind, form, refused, what, device):
    operator, w = OPERATORS[kind]().to(device), weight(form, CHANNELS).to(device)
    bias = torch.ones(operator.num_nodes, CHANNELS, dtype=torch.float64, device=device)
    for solver in refused:
        message = rf"'solver' must not be '{solver}'.*symmetric {what}.*solver='auto' or 'gmres'"
        with pytest.raises(ArgumentError, match=message):
            solve(operator, w, bias, solver=solver)
    for solver in ("picard", "anderson", "gmres"):
        assert solve(operator, w, bias, solver=solver).converged


def test_an_unknown_solver_is_named(device):
    operator = OPERATORS["chain"]().to(device)
    bias = torch.ones(8, 1, dtype=torch.float64, device=device)
    with pytest.raises(ArgumentError, match=r"'solver' must be one of .*did you mean 'chebyshev'"):
        solve(operator, bias[:1], bias, solver="tchebyshev")


@pytest.mark.parametrize("kind", ["undirected weighted", "out"])
@solvers
def test_scales_solved_together_are_those_solved_alone(solver, kind, device):
    operator = OPERATORS[kind]().to(device)
    forms = ["random", "rank-one", "indefinite"]
    stack = torch.stack([weight(form, 4, seed=i) for i, form in enumerate(forms)]).to(device)
    if not admits(solver, operator, stack[0]):
        pytest.skip("needs a symmetric operator")
    bias = torch.randn(operator.num_nodes, 4, dtype=torch.float64, device=device)
    scales = (3, 1, 5)
    for tol in (1e-3, 1e-12):
        together = solve_equilibria(operator, stack, bias, scales, 0.9, solver=solver, tol=tol)
        for result, scale, w in zip(together, scales, stack, strict=True):
            alone = solve(operator, w, bias, scale, 0.9, solver=solver, tol=tol)
            assert relative(result.value, alone.value) <= 1e-12
            assert (result.scale, result.iterations) == (scale, alone.iterations)
            assert result.error_bound == pytest.approx(alone.error_bound, rel=1e-3, abs=1e-13)
            error = (result.value - dense_solution(operator, w, bias, scale, 0.9)).norm().item()
            assert error <= result.error_bound


@pytest.mark.parametrize("memory", ["fast", "low", "half"])
@pytest.mark.parametrize("solver", ["auto", "series", "deflated", "gmres"])
@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("size", [1e6, 2.0, 1e-6])
@dtypes
def test_operators_of_any_norm_are_solved(dtype, size, channels, solver, memory, device):
    """Along a one-way path of 40 nodes, powers of P grow or fall by this factor 39 times."""
    edge_index = torch.stack([torch.arange(39), torch.arange(1, 40)]).to(device)
    entries = torch.full((39,), size, dtype=dtype, device=device)
    operator = Propagation.from_edge_index(edge_index, 40, entries, "none", False)
    double, limit = dtype is torch.float64, 1e-4 if dtype is torch.float32 else 1e-9
    assert operator.norm_bound == pytest.approx(size)
    for scale in (1, 3):
        values = torch.linspace(1, -1, channels, dtype=torch.float64) / size**scale
        w = values.diag().to(device, dtype).requires_grad_()
        bias = torch.randn(40, channels, dtype=torch.float64, generator=generator()).to(device)
        b = bias.to(dtype).requires_grad_()
        tol = 1e-12 if double else 1e-6
        result = solve(operator, w, b, scale, 0.9, solver=solver, tol=tol, memory=memory)
        exact = [one.detach().double().requires_grad_() for one in (w, b)]
        expected = dense_solution(operator, *exact, scale, 0.9)
        assert relative(result.value.detach().double(), expected.detach()) <= limit
        grads = torch.autograd.grad(result.value.square().sum(), [w, b])
        wanted = torch.autograd.grad(expected.square().sum(), exact)
        for one, other in zip(grads, wanted, strict=True):
            assert relative(one.double(), other) <= limit


@pytest.mark.parametrize("scale", [4, 5])
def test_an_operator_of_norm_two_does_not_overflow(scale, device):
    """A one-way path with self-loops; float32 holds no more than 127 powers of two."""
    edge_index = torch.stack([torch.arange(39), torch.arange(1, 40)]).to(device)
    operator = Propagation.from_edge_index(edge_index, 40, normalization="none")
    assert operator.norm_bound == 2
    w = (torch.linspace(1, -1, 8) / 2**scale).diag().to(device)
    bias = torch.randn(40, 8, generator=generator()).to(device)
    result = solve(operator, w, bias, scale, 0.95, solver="series")
    expected = dense_solution(operator, w, bias, scale, 0.95)
    assert relative(result.value.double(), expected) <= 1e-4
