"""Cells are trained once, continued where they stopped, and fail alone."""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mgnni.errors import ConvergenceError
from mgnni.reproduce import kinds
from mgnni.reproduce.run import Pace, run_cell, run_cells
from mgnni.reproduce.store import DONE, copy_of_other, locked, stored
from reproduce.cases import cell, killed, lasting, run, tiny


@contextmanager
def quiet(one):
    yield lambda epoch: None


def report_of(one, output):
    return json.loads((one.folder(output) / "report.json").read_text())


def test_two_runs_give_the_same_report_and_only_reports_are_kept(tmp_path):
    for place in ("a", "b"):
        assert run(cell(), tmp_path / place).error == ""
    a, b = (report_of(cell(), tmp_path / place) for place in ("a", "b"))
    assert lasting(a) == lasting(b)
    files = {path.name for path in cell().folder(tmp_path / "a").iterdir()}
    assert files == {"config.json", "report.json"}
    assert "classification" not in json.loads(
        (cell().folder(tmp_path / "a") / "report.json").read_text()
    )
    assert len((cell().folder(tmp_path / "a") / "report.json").read_bytes()) < 60_000


def test_an_interrupted_cell_ends_in_the_same_report(tmp_path):
    def interrupt(epoch):
        if epoch.epoch == 7:
            raise KeyboardInterrupt

    one, seen = cell("mgnni"), []
    assert run(one, tmp_path / "whole").error == ""
    with pytest.raises(KeyboardInterrupt):
        run(one, tmp_path / "cut", interrupt)
    assert (one.folder(tmp_path / "cut") / "state.pt").exists()
    assert stored(one, tmp_path / "cut").state == "missing"
    run(one, tmp_path / "cut", lambda epoch: seen.append(epoch.epoch))
    assert seen[0] > 1, "it went on"
    assert lasting(report_of(one, tmp_path / "cut")) == lasting(report_of(one, tmp_path / "whole"))


def test_an_interrupted_cell_with_other_settings_is_replaced_only_if_asked(tmp_path):
    def stop(epoch):
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cell(), tmp_path, stop)
    other = replace(cell(), seeds=(5,))
    refused = run(other, tmp_path)
    assert "holds another training" in refused.error
    assert "--replace" in refused.error
    (done,) = run_cells([other], tmp_path, device="cpu", jobs=None, follow=quiet, replaces=True)
    assert done.error == ""
    assert {one["seed"] for one in done.report["runs"]} == {5}


def test_a_cell_that_another_process_trains_is_left_alone(tmp_path):
    folder = cell().folder(tmp_path)
    with locked(cell(), tmp_path):
        before = sorted(folder.iterdir())
        refused = run(cell(), tmp_path)
        assert "another process is training here" in refused.error
        assert sorted(folder.iterdir()) == before, "also no failure is stored"
    assert run(cell(), tmp_path).error == ""
    assert {path.name for path in folder.iterdir()} == {"config.json", "report.json"}


def test_what_is_computed_once_is_told_apart_from_the_usual_epoch(tmp_path, monkeypatch):
    clock = itertools.accumulate([0.0, 9.0, 2.0, 2.0, 8.0, *[2.0] * 2, 8.0, *[2.0] * 5])
    monkeypatch.setattr(kinds, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    one = cell("mgnni", tiny(kind="seconds", measures=["epoch", "once"]))
    assert run(one, tmp_path).error == ""
    report = report_of(one, tmp_path)
    timing = report["timing"]
    assert timing["total"] == report["seconds"] > 0
    assert timing["epoch"] == 2.0
    assert timing["once"] == 7.0 + 6.0 + 6.0, "what three of twelve epochs took longer"


def test_a_stored_cell_is_known_by_its_settings(tmp_path):
    run(cell(), tmp_path)
    assert stored(cell(), tmp_path).state == "done"
    assert stored(cell("mgnni"), tmp_path).state == "missing"
    now = cell("gcn", tiny(rows=[{"name": "gcn", "changes": {"lr": 0.05}}]))
    assert (stored(now, tmp_path).state, stored(now, tmp_path).why) == (
        "other",
        "lr 0.02, now 0.05",
    )
    row = {"name": "gcn", "changes": {"lr": 0.02}}
    assert stored(cell("gcn", tiny(rows=[{**row, "seeds": 1}])), tmp_path).state == "done"
    assert stored(cell("gcn", tiny(rows=[{**row, "seeds": 3}])), tmp_path).why == "2 runs missing"
    longer = tiny(columns=[{**TINY_COLUMN, "options": {"length": 7}}])
    assert "options" in stored(cell("gcn", longer), tmp_path).why
    assert run_cell(now, tmp_path, "cpu", lambda epoch: None, replaces=True).error == ""
    assert stored(now, tmp_path).state == "done", "it was replaced"


def test_a_report_that_another_process_stored_with_other_settings_is_kept(tmp_path):
    run(cell(), tmp_path)
    before = report_of(cell(), tmp_path)
    refused = run(cell(study=tiny(rows=[{"name": "gcn", "changes": {"lr": 0.05}}])), tmp_path)
    assert "lr 0.02, now 0.05" in refused.error
    assert "--replace" in refused.error
    assert report_of(cell(), tmp_path) == before


def test_data_that_cannot_be_read_do_not_cost_the_report(tmp_path):
    run(cell(), tmp_path)
    before = report_of(cell(), tmp_path)
    wrong = cell(study=tiny(columns=[{**TINY_COLUMN, "options": {"length": -1}}]))
    assert stored(wrong, tmp_path).state == "other"
    failed = run_cell(wrong, tmp_path, "cpu", lambda epoch: None, replaces=True)
    assert "'length' must be" in failed.error
    assert report_of(cell(), tmp_path) == before


TINY_COLUMN = {"name": "short", "data": "chains", "changes": {"epochs": 12, "patience": None}}


def test_a_training_can_be_scored_by_another_rule_than_its_own(tmp_path):
    by_test, by_validation = (cell(study=tiny(rule=name)) for name in ("fold-max", "validation"))
    run(by_test, tmp_path)  # records the test curve, and has a validation set
    assert stored(by_validation, tmp_path).state == DONE
    run(replace(by_validation, seeds=(7,)), tmp_path / "without the curve")
    asked = replace(by_test, seeds=(7,))
    assert stored(asked, tmp_path / "without the curve").why == "rule validation, now fold-max"


def test_a_cell_whose_model_embeds_the_nodes_of_its_graph_is_known(tmp_path):
    rows = [{"name": "gmgnni", "changes": {"input_map": "graph"}, "seeds": 1}]
    one = cell("gmgnni", tiny(rows=rows, reference="gmgnni"))
    assert run(one, tmp_path).error == ""
    assert (stored(one, tmp_path).state, stored(one, tmp_path).why) == ("done", "")


def test_a_process_that_died_before_it_kept_its_report_is_finished(tmp_path, monkeypatch):
    def die(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mgnni.reproduce.run.keep", die)
    with pytest.raises(KeyboardInterrupt):
        run(cell(), tmp_path)
    assert (cell().folder(tmp_path) / "report.json").exists()
    assert stored(cell(), tmp_path).state == "missing"
    monkeypatch.undo()
    seen = []
    assert run(cell(), tmp_path, seen.append).error == ""
    assert not seen, "nothing was left to train"
    assert stored(cell(), tmp_path).state == "done"


def test_a_failed_cell_is_recorded_and_the_others_go_on(tmp_path):
    rows = [{"name": "gcn", "preset": "unheard"}, {"name": "mlp"}]
    outcomes = list(
        run_cells(tiny(rows=rows).cells(), tmp_path, device="cpu", jobs=None, follow=quiet)
    )
    assert ["unheard" in one.error for one in outcomes] == [True, False]
    failed = tmp_path / "tiny" / "gcn" / "short" / "failed.json"
    assert "unheard" in json.loads(failed.read_text())["error"]
    cell_again = cell("gcn", tiny(rows=[{"name": "gcn"}]))
    run(cell_again, tmp_path)
    assert not failed.exists()


def test_a_cell_whose_folder_cannot_be_written_does_not_stop_the_others(tmp_path):
    (tmp_path / "tiny" / "gcn").mkdir(parents=True)
    (tmp_path / "tiny" / "gcn" / "short").write_text("a file, not a folder")
    rows = [{"name": "gcn"}, {"name": "mlp"}]
    first, second = run_cells(
        tiny(rows=rows).cells(), tmp_path, device="cpu", jobs=None, follow=quiet
    )
    assert first.error == f"{first.cell.folder(tmp_path)}: cannot be written (file exists)"
    assert second.error == ""


def test_an_error_in_training_is_the_cells_own(tmp_path):
    def fail(epoch):
        raise ConvergenceError("not solved")

    assert run(cell(), tmp_path, fail).error == "not solved"


def test_processes_give_the_same_reports(tmp_path):
    cells = tiny().cells()
    outcomes = list(run_cells(cells, tmp_path / "two", device="cpu", jobs=2, follow=quiet))
    assert {str(one.cell) for one in outcomes} == {str(one) for one in cells}
    assert all(one.cell in cells for one in outcomes)
    for one in cells:
        run(one, tmp_path / "one")
        reports = [lasting(report_of(one, tmp_path / place)) for place in ("one", "two")]
        assert reports[0] == reports[1]


def test_cells_after_a_killed_process_are_trained(tmp_path, monkeypatch):
    monkeypatch.setattr("mgnni.reproduce.run._in_pool", killed)
    cells = tiny().cells()
    outcomes = list(run_cells(cells, tmp_path, device="cpu", jobs=2, follow=quiet))
    assert sorted(one.cell.row.name for one in outcomes) == ["gcn", "gcn-narrow", "mgnni"]
    errors = {one.cell.row.name: one.error for one in outcomes}
    assert "killed" in errors.pop("gcn-narrow")
    assert errors == {"gcn": "", "mgnni": ""}
    assert [stored(one, tmp_path).state for one in cells] == ["done", "done", "missing"]


def test_the_time_left_comes_from_finished_cells():
    pace, one = Pace(jobs=2), cell("gcn")
    assert pace.left([one]) is None
    pace.add(cell("mgnni"), {"seconds": 30.0, "runs": [{"seed": 0}, {"seed": 0}]})
    assert pace.of(one) == 60, "15 seconds per run, and four runs"
    assert pace.left([one, one]) == 60
    pace.add(cell("gcn"), {"seconds": 8.0, "runs": [{"seed": 0}, {"seed": 1}]})
    assert pace.of(one) == 16


def test_a_training_that_another_experiment_has_stored_is_not_repeated(tmp_path):
    first = cell("gcn")
    done = run(first, tmp_path)
    other = cell("gcn", replace(tiny(), name="another"))
    epochs = []
    copied = run(other, tmp_path, epochs.append)
    assert epochs == []
    assert copied.report["runs"] == done.report["runs"]
    assert (copied.report["experiment"], copied.report["copy_of"]) == (str(other), str(first))
    assert stored(other, tmp_path).state == DONE
    changed = cell("gcn", replace(tiny(seeds=3), name="longer"))  # more runs than are stored
    run(changed, tmp_path, epochs.append)
    assert epochs


def test_a_damaged_report_of_another_experiment_does_not_matter(tmp_path):
    first, other = cell("gcn"), cell("gcn", replace(tiny(), name="another"))
    run(first, tmp_path)
    for name in ("report.json", "config.json"):
        file = first.folder(tmp_path) / name
        whole = file.read_text()
        for text in ("[]", "5", "null", "{", '{"dataset": "chains", "quick": false'):
            file.write_text(text)
            assert copy_of_other(other, tmp_path) is None
        file.write_text(whole)
    report = report_of(first, tmp_path)
    wrong = {**report, "protocol": []}
    (first.folder(tmp_path) / "report.json").write_text(json.dumps(wrong))
    assert copy_of_other(other, tmp_path) is None
    (first.folder(tmp_path) / "report.json").write_text(json.dumps(report))
    assert copy_of_other(other, tmp_path) is not None
