"""Fixed points of any map: against unrolled iteration, dense algebra and closed forms."""

import math

import pytest
import torch

from mgnni import (
    ArgumentError,
    ConvergenceError,
    ConvergenceWarning,
    NotContractiveError,
    Propagation,
    SolveLog,
    Status,
)
from mgnni.graph.normalize import NodeNorm
from mgnni.implicit.nonlinear import implicit_fixed_point
from problems import dense_solution, generator, lopsided_edges, propagation, weight

NODES, CHANNELS = 8, 3
SOLVERS = ("anderson", "picard")


def normal(*shape, device, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed)).to(device)


def operator(device):
    """A directed graph; no row or column of P sums to more than one."""
    return propagation("dir", NODES).to(device)


def tanh_map(p):
    return lambda z, w, b: torch.tanh(p.apply(z) @ w + b)


def inputs(device):
    w = 0.9 * weight("general", CHANNELS).to(device)
    return w, normal(NODES, CHANNELS, device=device)


def unrolled(p, w, b, steps=300):
    dense, z = p.to_dense(), torch.zeros_like(b)
    for _ in range(steps):
        z = torch.tanh(dense @ z @ w + b)
    return z


def zeros(device, nodes=NODES, channels=CHANNELS):
    return torch.zeros(nodes, channels, dtype=torch.float64, device=device)


@pytest.mark.parametrize("solver", SOLVERS)
def test_value_and_gradients_are_those_of_unrolled_iteration(solver, device):
    p = operator(device)
    leaves = [leaf.requires_grad_() for leaf in inputs(device)]
    found = implicit_fixed_point(
        tanh_map(p), zeros(device), leaves, contraction=0.9, solver=solver, tol=1e-13
    )
    want = unrolled(p, *leaves)
    torch.testing.assert_close(found.value, want, rtol=1e-11, atol=1e-12)
    assert found.status is Status.CONVERGED
    assert found.solver == solver
    ours, known = (torch.autograd.grad(z[2].pow(2).sum(), leaves) for z in (found.value, want))
    for got, expected in zip(ours, known, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_affine_map_has_the_solution_of_a_linear_system(solver, device):
    p, (w, b) = operator(device), inputs(device)
    found = implicit_fixed_point(
        lambda z, w, b: p.apply(z) @ w + b, zeros(device), (w, b), solver=solver, tol=1e-13
    )
    want = dense_solution(p, w, b, 1, 1.0)
    torch.testing.assert_close(found.value, want, rtol=1e-11, atol=1e-12)


def test_the_solution_does_not_depend_on_the_initial_states(device):
    p, (w, b) = operator(device), inputs(device)
    far = 10 * normal(NODES, CHANNELS, device=device, seed=3)
    starts = (zeros(device), far)
    values = [implicit_fixed_point(tanh_map(p), z, (w, b), tol=1e-13).value for z in starts]
    torch.testing.assert_close(*values, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_first_and_second_derivatives_match_finite_differences(solver, device):
    p = propagation("dir", 4).to(device)

    def value(w, b):
        start = torch.zeros_like(b)
        return implicit_fixed_point(tanh_map(p), start, (w, b), solver=solver, tol=1e-13).value[:2]

    w, b = 0.9 * weight("general", 2).to(device), normal(4, 2, device=device)
    leaves = w.requires_grad_(), b.requires_grad_()
    assert torch.autograd.gradcheck(value, leaves, nondet_tol=1e-9)
    assert torch.autograd.gradgradcheck(value, leaves, nondet_tol=1e-9, fast_mode=True)


def test_a_cotangent_that_is_not_finite_is_named(device):
    p, (w, b) = operator(device), inputs(device)
    z = implicit_fixed_point(tanh_map(p), zeros(device), (w, b.requires_grad_())).value
    with pytest.raises(ArgumentError, match="gradient that reached"):
        (z * math.nan).sum().backward()


def test_only_parameters_that_require_grad_get_one(device):
    p, (w, b) = operator(device), inputs(device)
    w.requires_grad_()
    found = implicit_fixed_point(tanh_map(p), zeros(device), (w, b), tol=1e-13)
    (want,) = torch.autograd.grad(unrolled(p, w, b)[5].sum(), w)
    found.value[5].sum().backward()
    torch.testing.assert_close(w.grad, want, rtol=1e-10, atol=1e-12)
    assert b.grad is None


def test_parameters_may_be_integers(device):
    shift = torch.tensor([1, 2, 0], device=device)
    half = torch.tensor(0.5, dtype=torch.float64, device=device, requires_grad=True)
    found = implicit_fixed_point(
        lambda z, shift, half: half * z[shift] + 1, zeros(device, 3, 1), (shift, half), tol=1e-13
    )
    torch.testing.assert_close(found.value, torch.full_like(found.value, 2.0))  # 1 / (1 - half)
    found.value[0].sum().backward()
    assert half.grad.item() == pytest.approx(4.0)  # 1 / (1 - half)^2


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["frobenius", "max", "node max", "node sum"])
def test_the_true_error_is_within_the_bound(kind, solver, tol, device):
    # Linear in z with a matrix of known norm; Z W with the rows of |W|^T summing to 0.9 at most.
    a = torch.rand(NODES, NODES, dtype=torch.float64, generator=generator(1)).to(device)
    v = 0.1 + torch.rand(NODES, dtype=torch.float64, generator=generator(2)).to(device)
    w = normal(CHANNELS, CHANNELS, device=device, seed=4)
    if kind == "frobenius":
        a, w, norm = a / torch.linalg.matrix_norm(a, 2), w / torch.linalg.matrix_norm(w, 2), kind
    else:
        w = w / w.abs().sum(0)
        norm = NodeNorm("sum" if kind == "node sum" else "max", v)
        if kind == "max":
            a, norm = a / a.sum(1, keepdim=True), kind
        elif kind == "node max":  # |A| v <= v
            a = a * (v / (a @ v)).unsqueeze(1)
        else:  # |A|^T v <= v
            a = a * (v / (a.T @ v)).unsqueeze(0)
    b = normal(NODES, CHANNELS, device=device).requires_grad_()
    log = SolveLog()
    found = implicit_fixed_point(
        lambda z, b: 0.9 * a @ z @ w + b,
        zeros(device),
        (b,),
        contraction=0.9,
        norm=norm,
        solver=solver,
        tol=tol,
        log=log,
    )
    identity = torch.eye(NODES * CHANNELS, dtype=torch.float64, device=device)
    system = identity - 0.9 * torch.kron(a, w.T.contiguous())
    want = torch.linalg.solve(system, b.detach().flatten()).view_as(b)
    error = torch.linalg.matrix_norm(found.value.detach() - want).item()
    assert 0 < error <= found.error_bound < math.inf
    assert found.relative_error_bound >= error / torch.linalg.matrix_norm(found.value).item()
    assert found.relative_residual <= tol

    cotangent = torch.zeros_like(b)
    cotangent[1, 2] = 3.0
    (u,) = torch.autograd.grad(found.value, b, cotangent)
    want = torch.linalg.solve(system.T, cotangent.flatten()).view_as(b)
    (backward,) = log.backward
    duals = {"frobenius": "frobenius", "max": "sum", "node max": "sum", "node sum": "max"}
    assert backward.norm == duals[kind]
    assert 0 < torch.linalg.matrix_norm(u - want).item() <= backward.error_bound < math.inf


def test_the_residual_is_that_of_the_returned_point(device):
    p, (w, b) = operator(device), inputs(device)
    found = implicit_fixed_point(tanh_map(p), zeros(device), (w, b), tol=1e-3)
    image = tanh_map(p)(found.value, w, b)
    residual = torch.linalg.matrix_norm(image - found.value).item()
    reference = max(torch.linalg.matrix_norm(x).item() for x in (image, found.value))
    assert found.residual == pytest.approx(residual, rel=1e-12)
    assert found.relative_residual == pytest.approx(residual / reference, rel=1e-12)
    assert found.error_bound == math.inf  # without a contraction constant


@pytest.mark.parametrize("solver", SOLVERS)
def test_graphs_of_a_batch_are_separate_problems(solver, device):
    # Not sorted, of different difficulty, and the third without nodes.
    batch = torch.tensor([0, 1, 0, 3, 1, 0, 1, 3, 3], device=device)
    rate = torch.tensor([0.1, 0.95, 0.5, 0.0], dtype=torch.float64, device=device)
    b = normal(9, CHANNELS, device=device)
    pairs = (batch.unsqueeze(0) == batch.unsqueeze(1)).double() / 3
    leaves = [normal(9, CHANNELS, device=device).requires_grad_(), rate.clone().requires_grad_()]
    log = SolveLog()

    def step(z, b, rate):
        return rate[batch].unsqueeze(1) * torch.sin(pairs @ z + z) / 2 + b

    found = implicit_fixed_point(
        step, torch.zeros_like(b), leaves, batch=batch, num_graphs=4, solver=solver, log=log
    )
    found.value.pow(2).sum().backward()
    for graph in (0, 1, 3):
        rows = batch == graph
        alone_b, alone_rate = (
            leaf.detach().clone().requires_grad_() for leaf in (leaves[0][rows], rate[graph])
        )
        inner = pairs[rows][:, rows]
        alone = implicit_fixed_point(
            lambda z, b, r, inner=inner: r * torch.sin(inner @ z + z) / 2 + b,
            torch.zeros_like(alone_b),
            (alone_b, alone_rate),
            solver=solver,
            log=SolveLog(),
        )
        assert found.graph_iterations[graph] == alone.iterations
        torch.testing.assert_close(found.value[rows], alone.value, rtol=1e-9, atol=1e-12)
        alone.value.pow(2).sum().backward()
        torch.testing.assert_close(leaves[0].grad[rows], alone_b.grad, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(leaves[1].grad[graph], alone_rate.grad, rtol=1e-9, atol=1e-12)
    assert found.graph_iterations[2] == 0
    assert found.graph_iterations[1] > found.graph_iterations[0]
    assert found.converged
    assert log.backward[0].converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_map_far_from_normal_is_solved(solver, device):
    # Along a directed path states grow before they fall; mixing in the Frobenius norm misleads.
    nodes = 40
    path = torch.diag(torch.full((nodes - 1,), 0.9, dtype=torch.float64), -1).to(device)
    path += 0.3 * torch.eye(nodes, dtype=torch.float64, device=device)
    b = zeros(device, nodes, 1)
    b[0] = 1.0
    found = implicit_fixed_point(
        lambda z, b: (path @ z + b).relu(), torch.zeros_like(b), (b,), solver=solver, tol=1e-12
    )
    want = (1 / 0.7) * (0.9 / 0.7) ** torch.arange(nodes, dtype=torch.float64, device=device)
    torch.testing.assert_close(found.value.squeeze(1), want, rtol=1e-8, atol=0)


def test_mixing_needs_fewer_steps(device):
    p, b = operator(device), normal(NODES, CHANNELS, device=device)
    steps = {
        solver: implicit_fixed_point(
            lambda z, w, b: torch.tanh(1.05 * p.apply(z) @ w + 0.1 * b),
            zeros(device),
            (weight("identity", CHANNELS).to(device) * 3**0.5 * 0.9, b),
            solver=solver,
            tol=1e-9,
        ).iterations
        for solver in SOLVERS
    }
    assert 2 * steps["anderson"] < steps["picard"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("step", "status"),
    [
        (lambda z: z + 1, Status.MAX_ITER),
        (lambda z: z.square() + 1e200, Status.NOT_FINITE),
        (lambda z: (z / 2 + 1).cumsum(1) / 4 + 1e-12 * torch.sin(1e15 * z), Status.STAGNATED),
    ],
    ids=["budget", "not finite", "stagnated"],
)
def test_a_failure_is_reported(step, status, solver, device):
    options = {"max_iter": 200, "solver": solver, "tol": 1e-14}
    with pytest.raises(ConvergenceError, match="fixed point equation"):
        implicit_fixed_point(step, zeros(device), **options)
    with pytest.warns(ConvergenceWarning, match="fixed point equation"):
        found = implicit_fixed_point(step, zeros(device), on_failure="warn", **options)
    assert found.status is status
    assert not found.converged


def test_a_failure_of_the_adjoint_equation_is_reported(device):
    p, (w, b) = operator(device), inputs(device)
    start = unrolled(p, w, b)
    b.requires_grad_()
    found = implicit_fixed_point(tanh_map(p), start, (w, b), max_iter=1)
    assert found.iterations == 0
    with pytest.raises(ConvergenceError, match="adjoint equation"):
        found.value.sum().backward()
    found = implicit_fixed_point(tanh_map(p), start, (w, b), max_iter=1, on_failure="warn")
    with pytest.warns(ConvergenceWarning, match="adjoint equation"):
        found.value.sum().backward()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e-40, 1e-25, 1e25])
def test_gradients_are_linear_in_the_cotangent_however_small(size, solver, device):
    p, (w, b) = operator(device).to(torch.float32), (x.float() for x in inputs(device))
    b.requires_grad_()
    z = implicit_fixed_point(tanh_map(p), torch.zeros_like(b), (w, b), solver=solver).value
    cotangent = torch.zeros_like(b)
    cotangent[2, 1] = 1.0
    (want,) = torch.autograd.grad(z, b, cotangent, retain_graph=True)
    log = SolveLog()
    z = implicit_fixed_point(tanh_map(p), torch.zeros_like(b), (w, b), solver=solver, log=log).value
    (got,) = torch.autograd.grad(z, b, size * cotangent)
    digits = 1e-3 if size < 1e-38 else 1e-5  # numbers at the end of the range have few
    torch.testing.assert_close(got.double() / size, want.double(), rtol=digits, atol=digits)
    assert log.backward[0].residual <= 2e-6 * size * 10


def test_a_zero_cotangent_has_a_zero_gradient(device):
    p, (w, b) = operator(device), inputs(device)
    b.requires_grad_()
    (0 * implicit_fixed_point(tanh_map(p), zeros(device), (w, b)).value).sum().backward()
    assert b.grad.abs().max() == 0


@pytest.mark.parametrize(("nodes", "channels"), [(0, 3), (1, 1), (4, 0)])
def test_empty_and_single_states_are_solved(nodes, channels, device):
    b = normal(nodes, channels, device=device).requires_grad_()
    found = implicit_fixed_point(
        lambda z, b: z / 2 + b, torch.zeros_like(b), (b,), contraction=0.5, norm="max", tol=1e-12
    )
    torch.testing.assert_close(found.value, 2 * b.detach(), rtol=1e-11, atol=0)
    found.value.sum().backward()
    torch.testing.assert_close(b.grad, torch.full_like(b, 2.0), rtol=1e-11, atol=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_problems_under_vmap_are_solved_separately(solver, device):
    w, b = inputs(device)
    stack = torch.stack([0.2 * w, w.T, 0.9 * w]).requires_grad_()
    log, norm = SolveLog(), NodeNorm("max", torch.ones(NODES, dtype=torch.float64, device=device))
    batch = torch.arange(NODES, device=device) % 2
    half = Propagation.from_edge_index(
        torch.tensor([[0, 2, 1], [2, 4, 3]], device=device),
        NODES,
        normalization="dir",
        dtype=torch.float64,
    )

    def value(w, b, log):
        return implicit_fixed_point(
            tanh_map(half),
            torch.zeros_like(b),
            (w, b),
            contraction=0.99,
            norm=norm,
            batch=batch,
            num_graphs=2,
            tol=1e-12,
            solver=solver,
            log=log,
        ).value

    together = torch.func.vmap(value, in_dims=(0, None, None))(stack, b, log)
    logs = [SolveLog() for _ in stack]
    alone = torch.stack([value(w, b, log) for w, log in zip(stack, logs, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-13)
    ours, want = (torch.autograd.grad(z[:, 2].pow(2).sum(), stack)[0] for z in (together, alone))
    torch.testing.assert_close(ours, want, rtol=1e-10, atol=1e-12)
    for records in ("forward", "backward"):
        for one, other in zip(getattr(log, records), logs, strict=True):
            (want_record,) = getattr(other, records)
            assert one.iterations == want_record.iterations
            assert one.graph_iterations.tolist() == want_record.graph_iterations.tolist()
            assert one.error_bound == pytest.approx(want_record.error_bound, rel=0.1)


def test_transforms_of_torch_give_exact_derivatives(device):
    p, (w, b) = operator(device), inputs(device)

    def value(b):
        return implicit_fixed_point(tanh_map(p), torch.zeros_like(b), (w, b), tol=1e-13).value

    def loss(b):
        return value(b)[2].pow(2).sum()

    want = torch.autograd.functional.jacobian(lambda b: unrolled(p, w, b), b)
    close = {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(torch.func.jacrev(value)(b), want, **close)
    vectorised = torch.autograd.functional.jacobian(value, b, vectorize=True)
    torch.testing.assert_close(vectorised, want, **close)
    hessian = torch.autograd.functional.hessian(lambda b: unrolled(p, w, b)[2].pow(2).sum(), b)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(loss))(b), hessian, **close)


def test_tensors_that_no_gradient_would_reach_are_refused(device):
    p, (w, b) = operator(device), inputs(device)
    w.requires_grad_()

    def solve():
        step = tanh_map(p)
        return implicit_fixed_point(lambda z, b: step(z, w, b), zeros(device), (b,))

    with pytest.raises(ArgumentError, match="params"):
        solve()
    with torch.no_grad():
        assert not solve().value.requires_grad
    with torch.inference_mode():
        assert solve().converged


def test_edge_weights_that_require_grad_are_refused_too(device):
    edge_index, edge_weight = (t.to(device) for t in lopsided_edges(NODES))
    p = Propagation.from_edge_index(edge_index, NODES, edge_weight.requires_grad_(), "dir")
    with pytest.raises(ArgumentError, match="params"):
        implicit_fixed_point(tanh_map(p), zeros(device), inputs(device))


def test_a_log_takes_the_records_of_several_solves(device):
    p, (w, b) = operator(device), inputs(device)
    b.requires_grad_()
    log = SolveLog()
    first = implicit_fixed_point(tanh_map(p), zeros(device), (w, b), log=log).value
    second = implicit_fixed_point(tanh_map(p), zeros(device), (w, first), log=log).value
    assert len(log.forward) == 2
    assert log.backward == ()
    second.sum().backward()
    assert len(log.backward) == 2
    assert all(stats.converged for stats in (*log.forward, *log.backward))


def test_float32_is_solved_as_float32(device):
    p, (w, b) = operator(device), inputs(device)
    found = implicit_fixed_point(
        tanh_map(p.to(torch.float32)), zeros(device).float(), (w.float(), b.float())
    )
    assert found.value.dtype is torch.float32
    torch.testing.assert_close(found.value.double(), unrolled(p, w, b), rtol=1e-5, atol=1e-5)


GOOD = {"map": lambda z: z / 2, "z0": torch.zeros(2, 3)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"contraction": 1.0}, NotContractiveError, "below 1"),
        ({"contraction": -0.5}, ArgumentError, "contraction"),
        ({"contraction": math.nan}, ArgumentError, "contraction"),
        ({"solver": "andersen"}, ArgumentError, "did you mean 'anderson'"),
        ({"norm": "maximum"}, ArgumentError, "norm"),
        ({"on_failure": "ignore"}, ArgumentError, "on_failure"),
        ({"tol": 0.0}, ArgumentError, "tol"),
        ({"max_iter": 0}, ArgumentError, "max_iter"),
        ({"z0": torch.zeros(3)}, ArgumentError, "z0"),
        ({"z0": torch.zeros(2, 3, dtype=torch.long)}, ArgumentError, "z0"),
        ({"z0": [[0.0]]}, ArgumentError, "z0"),
        ({"batch": torch.zeros(3, dtype=torch.long)}, ArgumentError, "batch"),
        ({"batch": torch.tensor([0, 1])}, ArgumentError, r"in \[0, 1\).*got 1"),
        ({"batch": torch.tensor([-1, 0])}, ArgumentError, r"in \[0, 1\).*got -1"),
        ({"num_graphs": 3}, ArgumentError, "'num_graphs' must be 1"),
        ({"map": lambda z: z.sum()}, ArgumentError, "like z0"),
        ({"map": lambda z: z.double()}, ArgumentError, "like z0"),
        ({"map": lambda z: [z]}, ArgumentError, "like z0"),
    ],
)
def test_bad_arguments_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        implicit_fixed_point(**{**GOOD, **change})


def test_a_map_that_changes_the_states_in_place_is_refused(device):
    start = zeros(device)
    with pytest.raises(ArgumentError, match="'map' must not change the states in place"):
        implicit_fixed_point(lambda z: z.mul_(0.5).add_(1), start, contraction=0.5)
    assert not bool(start.any())


@pytest.mark.parametrize("params", [torch.ones(3), 2.0, (2.0,), None])
def test_params_must_be_a_sequence_of_tensors(params, device):
    with pytest.raises(ArgumentError, match="'params' must be a sequence of tensors"):
        implicit_fixed_point(lambda z, *_: z / 2, zeros(device), params)


def test_a_fixed_point_is_found_in_inference_mode(device):
    with torch.inference_mode():
        found = implicit_fixed_point(lambda z: z / 2 + 1, zeros(device), contraction=0.5)
    torch.testing.assert_close(found.value, torch.full_like(found.value, 2.0), rtol=1e-5, atol=0)


def test_edge_weights_are_learned_through_a_map(device):
    edge_index, edge_weight = (one.to(device) for one in lopsided_edges(NODES))
    w, b = inputs(device)

    def solved(edge_weight, w):
        p = Propagation.from_edge_index(edge_index, NODES, edge_weight, dtype=torch.float64)
        return implicit_fixed_point(
            lambda z, w, values: torch.tanh(p.apply(z, values=values) @ w + b),
            zeros(device),
            (w, p.values),
            tol=1e-14,
        ).value[2]  # a loss on one node

    leaves = edge_weight.double().requires_grad_(), w.requires_grad_()
    assert torch.autograd.gradcheck(solved, leaves)
    assert torch.autograd.gradgradcheck(solved, leaves, atol=1e-4)
