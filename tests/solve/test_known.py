"""The last solution is given out for the very same equations, and for no others."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from mgnni.solve import known as module
from mgnni.solve.equation import Equations
from mgnni.solve.known import Known, KnownBases, KnownSolution
from mgnni.solve.solve import Options, solve
from mgnni.solve.weights import Weights
from problems import propagation, weight

OPTIONS = Options(tol=1e-10)


def problem(device):
    w = torch.stack([weight("random", 4, seed) for seed in (0, 1)]).to(device)
    bias = torch.randn(12, 4, dtype=torch.float64, device=device)
    operator = propagation("sym").to(device)
    return Equations(operator, (1, 2), 0.9, Weights(w), bias.expand(2, 12, 4))


def kept(equations):
    known = KnownSolution()
    solution = solve(equations, OPTIONS)
    known.keep(equations, OPTIONS, solution)
    return known, solution


def test_the_same_equations_are_not_solved_again(device):
    equations = problem(device)
    known, solution = kept(equations)
    again = known.of(equations.with_bias(equations.bias[0].clone().expand(2, 12, 4)), OPTIONS)
    assert again.z.data_ptr() == solution.z.data_ptr()
    assert again.z is not solution.z  # a tensor of its own for the autograd of this pass
    assert again.stats is solution.stats


CHANGES = {
    "operator": lambda e: replace(e, operator=propagation("sym").to(e.bias.device)),
    "weights": lambda e: replace(e, weights=Weights(e.weights.tensor.clone())),
    "bias": lambda e: e.with_bias((e.bias[0] + 1e-15).expand(2, 12, 4)),
    "biases": lambda e: e.with_bias(e.bias.clone()),
    "scales": lambda e: replace(e, scales=(1, 3)),
    "gamma": lambda e: replace(e, gamma=0.8),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_other_equations_are(change, device):
    equations = problem(device)
    known, _ = kept(equations)
    assert known.of(equations, OPTIONS) is not None
    assert known.of(CHANGES[change](equations), OPTIONS) is None
    assert known.of(equations, Options(tol=1e-11)) is None


def test_a_bias_changed_in_place_is_noticed(device):
    equations = problem(device)
    known, _ = kept(equations)
    equations.bias[0, 3, 2] += 1e-12
    assert known.of(equations, OPTIONS) is None


def test_states_changed_in_place_are_not_given_out(device):
    equations = problem(device)
    known, _ = kept(equations)
    known.of(equations, OPTIONS).z.zero_()
    assert known.of(equations, OPTIONS) is None


def test_it_does_not_keep_the_operator(device):
    equations = problem(device)
    known, _ = kept(equations)
    operator = known._last.operator
    del equations
    assert operator() is None


def test_it_does_not_keep_the_pass_alive(device):
    equations = problem(device)
    known, solution = kept(equations)
    solution.z.requires_grad_()  # as autograd does to what a function returns
    assert not known._last.solution.z.requires_grad


def test_what_is_large_or_made_for_inference_is_not_kept(device, monkeypatch):
    equations = problem(device)
    with torch.inference_mode():
        known, _ = kept(equations)
    assert known._last is None
    monkeypatch.setattr(module, "LARGEST", 95)
    known, _ = kept(equations)
    assert known._last is None
    monkeypatch.setattr(module, "LARGEST", 96)
    known, _ = kept(equations)
    assert known._last is not None


def test_copies_and_pickles_are_empty(device):
    equations = problem(device)
    known = Known()
    known.weights.of(equations.weights.tensor)
    known.solution.keep(equations, OPTIONS, solve(equations, OPTIONS))
    for copied in (copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
        assert copied.weights._last is None
        assert copied.solution._last is None


def test_eigenvectors_of_every_shape_have_their_room_for_good(device):
    known = KnownBases()
    one, other = (torch.zeros(count, 3, 3, device=device) for count in (1, 2))
    rooms = known.of(one), known.of(other)
    assert [len(room) for room in rooms] == [1, 2]
    assert known.of(one) is rooms[0], "a recorded pass may still write there"
    assert known.of(other) is rooms[1]
    assert copy.deepcopy(known).of(one) is not rooms[0]
