"""The equations through TorchDEQ, and what happens without it."""

from __future__ import annotations

from functools import partial

import pytest

from bench.cases import dense, equation
from mgnni.bench import deq
from mgnni.bench.measure import errors
from mgnni.bench.row import ABSENT, Errors
from mgnni.bench.settings import Settings
from mgnni.errors import MgnniError


@pytest.mark.skipif(not deq.installed(), reason="needs TorchDEQ: pip install 'mgnni[bench]'")
@pytest.mark.parametrize("solver", deq.SOLVERS)
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_states_and_gradients_are_those_of_a_dense_solve(device, solver, directed):
    case = equation(device, directed)
    found = case.solved(partial(deq.equilibria, solver=solver, tol=1e-6))
    assert errors(found, dense(case)).within(Errors(1e-4, 1e-3))


def test_without_it_the_row_says_so(device, monkeypatch):
    monkeypatch.setattr(deq, "installed", lambda: False)
    case = equation(device)
    (entrant,) = case.torchdeq(Settings(device, quick=True))
    assert entrant.verdict == ABSENT
    assert entrant.run is None
    assert "mgnni[bench]" in entrant.note
    with pytest.raises(MgnniError, match=r"mgnni\[bench\]"):
        case.solved(partial(deq.equilibria, solver="anderson", tol=0.123))
