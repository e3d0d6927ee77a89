"""Synthetic studies: how far a label travels, and how far a masked node is seen."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
import torch

from mgnni import EIGNN, Propagation, fit
from mgnni.data.chains import class_chains, color_chains
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.range import chain_influence
from mgnni.reproduce.chain_length import reach, weighted_majority
from mgnni.reproduce.chain_response import chain_response
from mgnni.reproduce.definitions import make_study, select
from mgnni.reproduce.kinds import KINDS
from mgnni.reproduce.store import DONE, MISSING, OTHER, Stored
from mgnni.reproduce.study import Study
from reproduce.cases import cell, run

OPTIONS = {"length": 12, "num_splits": 1, "num_chains_per_class": 6, "num_features": 4}
SHORT = {"train_fraction": 0.3, "val_fraction": 0.2}


def study(kind: str, *rows: dict) -> Study:
    """An experiment of a few seconds."""
    column = {"name": "12", "data": "chains", "options": {**OPTIONS, **SHORT}}
    column["changes"] = {"epochs": 30, "patience": None}
    shape = {"title": "Chains", "paper": "no figure", "kind": kind, "columns": [column]}
    return make_study("tiny", {**shape, "rows": list(rows)})


@pytest.mark.parametrize(
    ("share", "far"),
    [([1, 1, 1, 0.95], 7), ([1, 1, 0.9, 1], 2), ([0.5, 1, 1, 1], None)],
)
def test_the_reach_ends_at_the_first_distance_that_is_not_known(share, far):
    assert reach([0, 2, 5, 7], share) == far


def test_exact_solves_show_that_the_solver_limited_the_distance(tmp_path):
    loose = {"scales": [1], "gamma": 0.3, "tol": 1e-2, "solver": "picard", "precision": "64"}
    one = cell("mgnni", study("distance", {"name": "mgnni", "changes": {**loose, "dropout": 0.0}}))
    report = run(one, tmp_path).report
    found = report["distance"]
    # Picard iteration from zero is at 1e-2 after at most ln(0.01) / ln(0.3) < 4 steps.
    assert 0 < found["reach"] <= 4
    assert found["exact"]["reach"] == 11
    assert found["exact"]["score"] == 1
    graph = class_chains(**OPTIONS, **SHORT)
    count = torch.bincount(graph.hop[graph.test_mask], minlength=12).double()
    right = (count * torch.tensor(found["right"], dtype=torch.float64)).sum() / count.sum()
    assert float(right) == pytest.approx(report["score"]["mean"], abs=1e-3)


def test_an_explicit_model_is_evaluated_once(tmp_path):
    one = cell("gcn", study("distance", {"name": "gcn"}))
    report = run(one, tmp_path).report
    assert report["distance"]["exact"] is None
    assert report["distance"]["hops"] == list(range(12))


@pytest.mark.parametrize("gamma", [0.8, 0.99])
def test_the_weighted_majority_is_that_of_a_dense_inverse(gamma):
    options = {"length": 40, "self_loops": True, "num_features": 4}
    changes = {"scales": (1, 8), "gamma": gamma, "epochs": 1}
    graph = color_chains(**options)
    found = weighted_majority(fit("colors", options=options, **changes), graph)
    # One self-loop of the data and one of the model.
    path = torch.diag(torch.ones(39), 1).double()
    path = path + path.T + 2 * torch.eye(40).double()
    path = path / path.sum(1).sqrt() / path.sum(1).sqrt().unsqueeze(1)
    sign = (graph.x[:, 1] - graph.x[:, 0]).double().view(40, 40).T
    shares = []
    for scale in (1, 8):
        z = torch.linalg.inv(torch.eye(40) - gamma * path.matrix_power(scale)) @ sign
        right = (z > 0) == (graph.y.view(40, 40).T == 1)
        shares.append(right.double().mean().item())
    assert found == max(shares)
    assert (found == 1) == (gamma == 0.99)


def test_the_weighted_majority_is_of_colours_and_mgnni_only():
    options = {**OPTIONS, **SHORT}
    fitted = fit("chains", options=options, epochs=1)
    assert weighted_majority(fitted, class_chains(**options)) is None
    fitted = fit("colors", model="gcn", options={"length": 20}, epochs=1)
    assert weighted_majority(fitted, color_chains(length=20)) is None


def test_the_response_is_that_of_a_dense_solve_and_bounded():
    torch.manual_seed(0)
    graph = class_chains(2, 9, 3, **SHORT)
    model = EIGNN(3, 3, 2, gamma=0.7, normalization="out")
    found = chain_response(model, graph.x, graph.edge_index, 9)
    chain = torch.stack([torch.arange(8), torch.arange(1, 9)])
    operator = Propagation.from_edge_index(chain, 9, normalization="out").to_dense().double()
    weight = normalized_gram(model.equilibrium.factor.detach().double())[0]
    change = torch.zeros(9, 3, dtype=torch.float64)
    change[0, 0] = 1.0
    # vec(P Z W) = (P x W') vec(Z), with rows of Z one after another.
    system = torch.eye(27, dtype=torch.float64) - 0.7 * torch.kron(operator, weight.T.contiguous())
    dense = torch.linalg.solve(system, change.flatten()).view(9, 3).norm(dim=1)
    for name, accuracy in (("exact", 1e-9), ("float64", 1e-9), ("float32", 1e-4)):
        curve = torch.tensor(found[name], dtype=torch.float64)
        assert torch.allclose(curve, dense, rtol=0, atol=accuracy), name
    assert all(high >= low for high, low in zip(found["sound"], found["exact"], strict=True))
    assert found["limit"] == chain_influence(0.7, 9, directed=True, normalization="out").tolist()
    over = [hop for hop in range(9) if found["exact"][hop] > found["printed"][hop]]
    assert found["ranges"]["exceeded"] == (over[0] if over else None)


def test_the_response_of_a_rank_one_weight_ends_with_the_steps_of_the_solver():
    graph = class_chains(2, 60, 3, **SHORT)
    model = EIGNN(3, 3, 2, gamma=0.5, normalization="out")
    with torch.no_grad():
        model.equilibrium.factor.zero_()[..., 0, 0] = 1.0  # g(F) has the eigenvalue one
    found = chain_response(model, graph.x, graph.edge_index, 60)
    assert found["eigenvalue"] == pytest.approx(1)
    assert found["exact"] == pytest.approx(found["limit"])
    assert found["decay"] == pytest.approx(1 / 3)  # 1 / (2 / 0.5 - 1)
    steps = math.log(1e-6) / math.log(0.5)
    assert abs(found["ranges"]["float32"] - steps) <= 3
    assert found["ranges"]["exact"] == max(
        hop for hop, value in enumerate(found["limit"]) if value > 1e-6
    )


def test_tables_and_figures_show_what_is_stored(tmp_path):
    rows = {"name": "eignn", "paper": {"12": [25, None]}, "paper_hops": {"12": 25}}
    rows["changes"] = {"tol": 1e-6, "precision": "32"}
    for kind in ("distance", "response"):
        tiny = study(kind, rows, {"name": "gcn"}) if kind == "distance" else study(kind, rows)
        cells = tiny.cells()
        outcome = run(cells[0], tmp_path / kind)
        assert outcome.error == ""
        found = {one: Stored(MISSING) for one in cells}
        png = io.BytesIO()
        assert not KINDS[kind].draw(tiny, found, png), "nothing is stored"
        assert KINDS[kind].tables(tiny, found, "do")[0].rows
        found[cells[0]] = Stored(DONE, outcome.report)
        assert KINDS[kind].draw(tiny, found, png)
        assert png.getvalue().startswith(b"\x89PNG")
        sheets = KINDS[kind].tables(tiny, found, "do")
        lines = {line[1]: line[2] for line in sheets[0].rows if line[2]}
        if kind == "distance":
            assert lines["paper"] == "25.00"
            assert float(lines["ours"].split()[0]) == round(
                100 * outcome.report["score"]["mean"], 2
            )
            assert [sheet.title for sheet in sheets] == ["", "Reach in hops"]
        else:
            assert lines["last hop above 0, float32"] == "all 11"
            assert lines["numerically 0, paper"] == "25"
            found[cells[0]] = Stored(OTHER, outcome.report, "lr")
            lines = {line[1]: line[2] for line in KINDS[kind].tables(tiny, found, "do")[0].rows}
            assert lines["last hop above 0, float32"] == "all 11*"


def test_a_shared_training_must_have_measured_distances(tmp_path):
    tiny, epochs = study("distance", {"name": "gcn"}), []
    plain = cell("gcn", replace(tiny, kind="accuracy"))
    run(plain, tmp_path)
    one = cell("gcn", replace(tiny, name="distances"))
    assert "copy_of" not in run(one, tmp_path, epochs.append).report
    assert epochs, "the stored report has no distances"
    again = cell("gcn", replace(tiny, name="again"))
    assert run(again, tmp_path).report["copy_of"] == "distances/gcn/12"


def test_both_studies_of_colours_have_the_same_mgnni():
    cells = [select([name], models=["mgnni"]) for name in ("colors", "colors-explicit")]
    assert len(cells[0]) == len(cells[1]) == 40
    for one, other in zip(*cells, strict=True):
        assert one.config() == other.config()
        assert (one.column, one.row) == (other.column, other.row)


def test_the_studies_have_twenty_runs():
    for one in select(["chains", "colors", "colors-explicit"]):
        assert one.options["num_splits"] * len(one.chosen_seeds) == 20
