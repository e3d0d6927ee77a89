"""Warm starts from the last states: fewer iterations, the same certificate."""

import copy
import pickle

import pytest
import torch

from mgnni import Propagation
from mgnni.layers.equilibrium import MultiscaleEquilibrium


def operator(device, seed=0, batch=None):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, 60, (2, 240), generator=generator).to(device)
    return Propagation.from_edge_index(
        index, 60, normalization="dir", dtype=torch.float64, batch=batch
    )


def layer(device, **options):
    torch.manual_seed(3)
    made = MultiscaleEquilibrium(8, (1, 3), tol=1e-10, **options)
    return made.double().to(device)


def passes(made, propagation, biases):
    """Forward and backward for each bias; states, gradients and logs."""
    found = []
    for bias in biases:
        bias = bias.clone().requires_grad_()
        z = made(bias, propagation)
        gradient = torch.autograd.grad(z.square().sum(), [bias, made.factor])
        found.append(([z.detach(), *gradient], made.log))
    return found


def biases(device, change, count=3):
    generator = torch.Generator().manual_seed(1)
    first = torch.randn(60, 8, dtype=torch.float64, generator=generator)
    drift = torch.randn(60, 8, dtype=torch.float64, generator=generator)
    return [(first + change * i * drift).to(device) for i in range(count)]


def steps(log):
    return [stats.iterations for stats in (*log.forward, *log.backward)]


@pytest.mark.parametrize("solver", ["auto", "picard", "gmres", "anderson"])
def test_warm_starts_take_fewer_iterations_to_the_same_states(device, solver):
    propagation, given = operator(device), biases(device, 1e-3)
    cold, warm = (
        passes(layer(device, solver=solver, warm_start=way), propagation, given)
        for way in (False, True)
    )
    for (one, _), (other, log) in zip(cold, warm, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)
        for stats in (*log.forward, *log.backward):
            assert stats.converged
            assert stats.relative_residual <= 1e-10
    assert steps(warm[0][1]) == steps(cold[0][1])
    for _, log in warm[1:]:
        assert all(a < b for a, b in zip(steps(log), steps(cold[0][1]), strict=True))


def test_the_same_equations_take_no_iterations(device):
    # With memory="fast" the last solution itself would be reused, with its records.
    made, propagation = layer(device, warm_start=True, memory="low"), operator(device)
    given = biases(device, 0.0, 2)
    (one, _), (other, log) = passes(made, propagation, given)
    assert steps(log)[:2] == [0, 0]
    torch.testing.assert_close(one[0], other[0])


def test_states_that_are_far_away_are_not_used(device):
    made, propagation = layer(device, warm_start=True), operator(device)
    first, second = passes(made, propagation, biases(device, 50.0, 2))
    assert steps(first[1]) == steps(second[1])
    assert all(stats.converged for stats in second[1].forward)


def test_other_graphs_start_from_zero(device):
    made, given, other = layer(device, warm_start=True), biases(device, 1e-3), operator(device, 5)
    passes(made, operator(device), given[:1])
    ((_, cold),) = passes(layer(device), other, given[1:2])
    ((_, found),) = passes(made, other, given[1:2])
    assert steps(found) == steps(cold)
    ((_, again),) = passes(made, other, given[2:])
    assert all(a < b for a, b in zip(steps(again), steps(cold), strict=True))


def test_batches_of_graphs_start_from_zero(device):
    """The solution of a graph must not depend on what was solved before."""
    index, batch = torch.arange(59, device=device), torch.arange(60, device=device) // 30
    joined = Propagation.from_edge_index(
        torch.stack([index, index + 1])[:, index != 29],
        60,
        normalization="dir",
        dtype=torch.float64,
        batch=batch,
    )
    first, second = passes(layer(device, warm_start=True), joined, biases(device, 1e-3, 2))
    assert steps(first[1]) == steps(second[1])
    ((cold, _),) = passes(layer(device), joined, biases(device, 1e-3, 2)[1:])
    assert torch.equal(second[0][0], cold[0])


def test_validation_does_not_start_from_training_states(device):
    made, propagation = layer(device, warm_start=True), operator(device)
    given = biases(device, 1e-3)
    passes(made, propagation, given[:1])
    with torch.no_grad():
        made(given[1], propagation)
        first = [stats.iterations for stats in made.log.forward]
        made(given[2], propagation)
        second = [stats.iterations for stats in made.log.forward]
    assert all(b < a for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_start_from_zero(device, copied):
    made, propagation = layer(device, warm_start=True), operator(device)
    given = biases(device, 1e-3)
    ((_, log),) = passes(made, propagation, given[:1])
    ((_, other),) = passes(copied(made), propagation, given[1:2])
    assert steps(log) == steps(other)
