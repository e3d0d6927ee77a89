"""The study of errors on the lattice: no model beats the bound of its range."""

from __future__ import annotations

import io

import pytest
import torch

from mgnni.data.lattice import lattice_error
from mgnni.models.gcn import GCN
from mgnni.reproduce.definitions import load_study, make_study
from mgnni.reproduce.kinds import KINDS
from mgnni.reproduce.lattice_error import measured, needed
from mgnni.reproduce.store import DONE, MISSING, OTHER, Stored
from mgnni.reproduce.study import Study
from reproduce.cases import cell, run

SIZE = {"side": 6, "decay": 2.0}


def study() -> Study:
    """An experiment of a few seconds."""
    column = {"name": "2", "label": "decay 2", "data": "lattice", "options": {**SIZE}}
    column["changes"] = {"epochs": 60, "patience": None, "dropout": 0.0}
    rows = [{"name": "gcn", "changes": {"num_layers": 2}}, {"name": "mgnni"}]
    shape = {"title": "Lattice", "paper": "none", "kind": "lattice", "columns": [column]}
    return make_study("tiny", {**shape, "rows": rows})


def test_a_trained_model_has_an_error_and_a_range(tmp_path):
    one = cell("gcn", study())
    report = run(one, tmp_path).report
    found = report["lattice"]
    assert found["range"] == [2], "as many hops as layers"
    assert found["best"] == pytest.approx([lattice_error(hops, **SIZE) for hops in range(7)])
    assert found["best"][2] - 0.02 <= found["error"][0] < 0.45
    cells = one.study.cells()
    stored = {other: Stored(MISSING) for other in cells}
    png = io.BytesIO()
    kind = KINDS["lattice"]
    assert not kind.draw(one.study, stored, png), "nothing is stored"
    stored[cells[0]] = Stored(DONE, report)
    assert kind.draw(one.study, stored, png)
    assert png.getvalue().startswith(b"\x89PNG")
    lines = kind.tables(one.study, stored, "do")[0].rows
    error = 100 * found["error"][0]
    assert lines[0] == ["gcn", f"{error:.1f}", f"2, {needed(error / 100, found['best'])}"]
    assert lines[1] == ["mgnni", "", ""]
    stored[cells[0]] = Stored(OTHER, report, "lr")
    assert kind.tables(one.study, stored, "do")[0].rows[0][1] == f"{error:.1f}*"


def test_a_constant_model_has_no_range():
    model = GCN(1, 4, 2)
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    error, hops = measured(model.eval(), SIZE)
    assert hops == 0
    assert error == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("error", "hops"), [(0.6, 0), (0.3, 1), (0.29, 2), (0.05, 3), (0.0, 3)])
def test_an_error_needs_hops(error, hops):
    assert needed(error, [0.5, 0.3, 0.1, 0.0]) == hops


def test_all_rows_have_the_same_budget():
    configs = [one.config() for one in load_study("lattice").cells()]
    for name in ("epochs", "patience", "weight_decay", "schedule"):
        assert len({getattr(one, name) for one in configs}) == 1, name
    assert {one.lr for one in configs} == {0.01}
    assert {one.model.dropout for one in configs} == {0.0}
