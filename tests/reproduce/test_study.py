"""Definitions of experiments can be read, and a cell has the settings of its row and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mgnni.data.catalog import ENTRIES
from mgnni.errors import ArgumentError
from mgnni.models.catalog import MODELS
from mgnni.reproduce.definitions import load_study, make_study, select, study_names
from mgnni.reproduce.kinds import KINDS
from mgnni.train.presets import preset_for
from reproduce.cases import TINY, cell, tiny

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", study_names())
def test_a_definition_names_models_and_data_that_exist(name):
    study = load_study(name)
    assert study.kind in KINDS
    columns = {column.name for column in study.columns}
    for column in study.columns:
        assert column.dataset in ENTRIES
    for row in study.rows:
        assert row.architecture in MODELS
        assert set(row.paper) | set(row.data) | set(row.columns or ()) <= columns
    for chosen, there in (("rows", {row.name for row in study.rows}), ("columns", columns)):
        assert set(study.quick.get(chosen, ())) <= there
    references = {study.reference, *(row.reference for row in study.rows)} - {""}
    assert references <= {row.name for row in study.rows}


def test_published_numbers_are_those_of_the_paper():
    rows = {row.name: row.paper for row in load_study("heterophilic").rows}
    assert rows["mgnni"]["texas"] == [84.86, 5.91]
    assert rows["h2gcn"]["squirrel"] == [40.75, 1.44]
    assert rows["geom-gcn"]["squirrel"] == [33.32, None], "of the variant I, in its own paper"
    rows = {row.name: row.paper for row in load_study("graphs").rows}
    assert rows["mgnni"]["imdb-multi"] == [53.5, 2.8]
    assert "imdb-multi" not in rows["gcn"]


def test_changes_of_the_column_override_those_of_the_row():
    study = tiny(
        columns=[{"name": "chains", "changes": {"lr": 0.3}}],
        rows=[{"name": "gcn", "changes": {"lr": 0.2, "weight_decay": 0.1}}],
    )
    config = cell("gcn", study).config()
    assert (config.lr, config.weight_decay) == (0.3, 0.1)
    assert config.epochs == preset_for("chains", model="gcn").epochs
    study = tiny(rows=[{"name": "gcn", "data": {"short": {"epochs": 3}}}])
    assert cell("gcn", study).config().epochs == 3


def test_a_cell_knows_its_seeds_and_its_folder():
    assert cell("mgnni").chosen_seeds == (0,)
    assert cell("gcn").chosen_seeds == (0, 1)
    assert cell("gcn").folder(Path("out")) == Path("out/tiny/gcn/short")


def test_a_model_selects_the_row_of_its_name_and_else_all_its_rows():
    assert [row.name for row in tiny().only(["gcn"], []).rows] == ["gcn"]
    study = tiny(rows=[{"name": "a", "model": "gcn"}, {"name": "b", "model": "gcn"}])
    assert [row.name for row in study.only(["gcn"], []).rows] == ["a", "b"]
    found = select(["heterophilic"], models=["mgnni"], data=["texas"], seeds=[3], quick=True)
    assert [str(one) for one in found] == ["heterophilic/mgnni/texas"]
    assert (found[0].chosen_seeds, found[0].config().epochs) == ((3,), 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"collumns": []}, "collumns"),
        ({"rows": [{"name": "gcn"}, {"name": "gcn"}]}, "different names"),
        ({"rows": [{"name": "gcn", "seeds": "two"}]}, "seeds"),
    ],
)
def test_a_wrong_definition_is_refused(change, message):
    with pytest.raises(ArgumentError, match=message):
        make_study("tiny", {**TINY, **change})


def test_an_unknown_name_is_refused():
    with pytest.raises(ArgumentError, match="did you mean 'texas'"):
        select(["heterophilic"], data=["texsa"])
    with pytest.raises(ArgumentError, match="did you mean 'graphs'"):
        select(["graph"])


def test_definitions_are_written_one_row_a_line():
    for name in study_names():
        path = ROOT / "src" / "mgnni" / "reproduce" / "experiments" / f"{name}.json"
        lines = path.read_text("utf-8").splitlines()
        for row in json.loads("\n".join(lines))["rows"]:
            assert sum(line.startswith(f'    {{"name": "{row["name"]}"') for line in lines) >= 1
