"""Memory of implicit layers does not grow with the number of iterations."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch_geometric.utils import to_undirected

from implicit.cases import assert_all_close
from mgnni import Propagation
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options
from problems import generator, weight

NODES, CHANNELS = 3000, 8


def problem(solver, device):
    """A large ring, whose spectrum fills the unit interval; a weight of norm one; a bias."""
    node = torch.arange(NODES)
    edge_index = torch.cat([torch.stack([node, (node + hop) % NODES]) for hop in (1, 7)], dim=1)
    symmetric = solver in ("chebyshev", "cg")
    if symmetric:
        edge_index = to_undirected(edge_index, num_nodes=NODES)
    propagation = Propagation.from_edge_index(
        edge_index.to(device),
        NODES,
        normalization="sym" if symmetric else "dir",
        dtype=torch.float64,
    )
    w = weight("rank-one", CHANNELS)
    assert torch.linalg.matrix_norm(w, 2) == pytest.approx(1, rel=1e-12)
    bias = torch.randn(NODES, CHANNELS, dtype=torch.float64, generator=generator(2))
    return propagation, w[None].to(device).requires_grad_(), bias.to(device).requires_grad_()


def changes_of_memory(device, run):
    """Returns the largest and the last number of bytes allocated since the start of ``run``."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    total = highest = 0
    for event in events:
        total += event.nbytes()
        highest = max(highest, total)
    return highest, total


def measured_pass(solver, gamma, memory, device, tol):
    """Peak bytes, iterations of both passes, and gradients of one forward and backward."""
    propagation, w, bias = problem(solver, device)
    equilibria(propagation, w, bias, (2,), 0.1)[0].sum().backward()  # builds what is cached
    w.grad = bias.grad = None
    logs = []

    def run():
        z, log = equilibria(
            propagation, w, bias, (2,), gamma, options=Options(solver, tol, memory=memory)
        )
        logs.append(log)
        z[:, :100].square().sum().backward()

    # In a new thread, which has no scratch memory from other solves.
    with ThreadPoolExecutor(1) as fresh:
        peak, _ = fresh.submit(changes_of_memory, device, run).result()
    (forward,), (backward,) = logs[0].forward, logs[0].backward
    return peak, (forward.iterations, backward.iterations), (w.grad, bias.grad)


@pytest.mark.parametrize(
    ("solver", "tol", "gamma"),
    [
        ("auto", 1e-6, 0.99),
        ("chebyshev", 1e-6, 0.99),
        ("picard", 1e-2, 0.99),
        ("cg", 1e-6, 0.99),
        ("gmres", 1e-6, 0.95),  # with tolerances that fill the window at gamma = 0.5 too
        ("anderson", 1e-4, 0.95),
    ],
)
def test_peak_memory_does_not_grow_with_the_iterations(solver, tol, gamma, device):
    easy, few, _ = measured_pass(solver, 0.5, "low", device, tol)
    hard, many, _ = measured_pass(solver, gamma, "low", device, tol)
    assert min(many) > 3 * max(few), f"{many} iterations against {few}: not hard enough"
    state = NODES * CHANNELS * 8
    assert easy > 3 * state, "the measurement missed the states"
    assert hard <= 1.1 * easy


@pytest.mark.parametrize("solver", ["auto", "chebyshev", "cg"])
def test_low_memory_takes_no_more_and_gives_the_same_gradients(solver, device):
    fast, _, want = measured_pass(solver, 0.9, "fast", device, 1e-10)
    low, _, ours = measured_pass(solver, 0.9, "low", device, 1e-10)
    assert_all_close(ours, want, rtol=1e-12)
    assert low <= fast


@pytest.mark.parametrize(("memory", "states"), [("low", 1), ("fast", 2)])
def test_the_state_and_with_fast_memory_its_hop_are_kept_for_backward(memory, states, device):
    propagation, w, bias = problem("auto", device)
    equilibria(propagation, w, bias, (2,), 0.5)
    kept = []

    def run():
        kept.append(equilibria(propagation, w, bias, (2,), 0.5, options=Options(memory=memory)))

    _, left = changes_of_memory(device, run)
    assert left == pytest.approx(states * NODES * CHANNELS * 8, rel=0.1)


def live_tensors():
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("solver", ["auto", "picard"])
def test_passes_without_backward_leave_nothing_behind(solver, memory, device):
    propagation, w, bias = problem(solver, device)

    def run(times):
        for _ in range(times):
            equilibria(propagation, w, bias, (1,), 0.5, options=Options(solver, memory=memory))

    run(2)
    before = live_tensors()
    _, left = changes_of_memory(device, lambda: run(10))
    assert live_tensors() <= before
    assert left < NODES * CHANNELS * 8  # less than one state


@pytest.mark.parametrize("order", [1, 2])
def test_learned_edge_weights_need_no_garbage_collector(order, device):
    # A reference cycle would keep a whole pass alive until the garbage collector runs.
    node = torch.arange(NODES, device=device)
    edge_index = torch.stack([node, (node + 1) % NODES])
    edge_weight = torch.rand(NODES, dtype=torch.float64, device=device).requires_grad_()
    _, w, bias = problem("auto", device)

    def run(times=1):
        for _ in range(times):
            propagation = Propagation.from_edge_index(edge_index, NODES, edge_weight, "dir")
            z, _ = equilibria(propagation, w, bias, (2,), 0.5)
            value = z.square().sum()
            for _ in range(order - 1):
                (grad,) = torch.autograd.grad(value, edge_weight, create_graph=True)
                value = grad.square().sum()
            torch.autograd.grad(value, [edge_weight, w, bias])

    run()
    gc.collect()
    gc.disable()
    try:
        _, left = changes_of_memory(device, lambda: run(5))
    finally:
        gc.enable()
    # Autograd's own thread may still hold a state of the last pass; five passes would hold five.
    assert left < 2 * NODES * CHANNELS * 8


def test_a_finished_backward_frees_its_state(device):
    propagation, w, bias = problem("auto", device)
    equilibria(propagation, w, bias, (1,), 0.5)[0].sum().backward()
    w.grad, bias.grad = torch.zeros_like(w), torch.zeros_like(bias)
    kept = []

    def run():
        for _ in range(5):
            z, log = equilibria(propagation, w, bias, (1,), 0.5)
            value = z.square().sum()
            del z
            value.backward()
            kept.append((value, log))  # as a training loop might, to print them later

    _, left = changes_of_memory(device, run)
    assert left < NODES * CHANNELS * 8
