"""The textbook loop solves the equation, and stops when it says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from bench.cases import GAMMA, dense, equation
from mgnni.bench import textbook
from mgnni.bench.measure import distance, errors
from mgnni.bench.row import Errors
from mgnni.solve.textbook import AUTHORS, Stopping, picard


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_states_and_gradients_are_those_of_a_dense_solve(device, directed):
    case = equation(device, directed)
    solve = partial(textbook.equilibria, stopping=Stopping(1e-7, True, 500))
    assert errors(case.solved(solve), dense(case)).within(Errors(1e-5, 1e-4))


def test_the_authors_stop_by_absolute_change(device):
    """A small right-hand side, such as the gradient of a mean, is then hardly solved at all."""
    case = equation(device)
    small = replace(case, bias=1e-4 * case.bias, cotangent=1e-6 * case.cotangent)
    solved = small.solved(textbook.equilibria)
    careful = small.solved(partial(textbook.equilibria, stopping=Stopping(1e-6, True)))
    loose, tight = (errors(found, small.exact) for found in (solved, careful))
    assert loose.gradient > 1e-2
    assert tight.within(Errors(1e-4, 1e-3))


def test_no_more_passes_than_asked_for(device):
    case = equation(device)
    once = Stopping(0.0, False, 1)
    constants = (case.propagation, case.weight[0], case.bias, 1, GAMMA)
    assert torch.equal(picard(*constants, once), case.bias)
    twice = picard(*constants, replace(once, max_iter=2))
    hop = case.propagation.to_dense() @ case.bias
    assert distance(twice, case.bias + GAMMA * hop @ case.weight[0]) < 1e-6
    assert AUTHORS == Stopping(1e-6, relative=False, max_iter=300)
