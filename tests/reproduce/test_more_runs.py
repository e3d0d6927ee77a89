"""Runs are added to a stored report, which then equals that of one training with all runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mgnni.cli.reproduce_output import Progress
from mgnni.reproduce import more_runs
from mgnni.reproduce.more_runs import can_add
from mgnni.reproduce.run import run_cell
from mgnni.reproduce.store import stored
from mgnni.train.runs import Run
from reproduce.cases import cell, lasting, run, tiny


def with_seeds(*seeds, row="gcn", study=None):
    return replace(cell(row, study), seeds=seeds)


def report_of(one, output):
    return json.loads((one.folder(output) / "report.json").read_text())


@pytest.mark.parametrize("row", ["gcn", "mgnni"])
def test_added_seeds_end_in_the_report_of_one_training(tmp_path, row):
    whole = with_seeds(0, 1, 2, row=row)
    assert run(whole, tmp_path / "whole").error == ""
    for seeds in ((1,), (0, 1), (0, 1, 2)):
        assert run(with_seeds(*seeds, row=row), tmp_path / "parts").error == ""
    one, other = (report_of(whole, tmp_path / place) for place in ("whole", "parts"))
    parts = other.pop("parts")
    assert [part["seeds"] for part in parts] == [[1], [0], [2]]
    assert sum(part["seconds"] for part in parts) == pytest.approx(other["seconds"])
    for key in ("mean", "std"):
        scores = [(r["score"].pop(key), r["scores"]["validation"].pop(key)) for r in (one, other)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-12)
    # Several runs are trained as one model or one by one, so their solves are counted in groups.
    if row == "gcn":
        assert lasting(one) == lasting(other)
    else:
        for report in (one, other):
            assert (
                report["solver"]["forward"]["failures"] == 0 < report["solver"]["forward"]["solves"]
            )
        assert other["runs"] == one["runs"]
        assert other["confusion"] == one["confusion"]
        assert other["attention"] == one["attention"], "of the best run on validation data"
    assert sorted(path.name for path in whole.folder(tmp_path / "parts").iterdir()) == [
        "config.json",
        "report.json",
    ]
    header = json.loads((whole.folder(tmp_path / "parts") / "config.json").read_text())
    assert header["runs"] == [
        {name: run[name] for name in ("split", "seed")} for run in one["runs"]
    ]
    assert stored(whole, tmp_path / "parts").state == "done"


def test_interrupted_seeds_leave_the_stored_report_and_are_continued(tmp_path):
    def interrupt(epoch):
        if epoch.epoch == 7:
            raise KeyboardInterrupt

    assert run(with_seeds(0), tmp_path).error == ""
    before, both = report_of(cell(), tmp_path), with_seeds(0, 1)
    with pytest.raises(KeyboardInterrupt):
        run(both, tmp_path, interrupt)
    assert report_of(cell(), tmp_path) == before
    seen = []
    assert run(both, tmp_path, lambda epoch: seen.append(epoch.epoch)).error == ""
    assert seen[0] > 1, "it went on"
    assert {one["seed"] for one in report_of(cell(), tmp_path)["runs"]} == {0, 1}


def test_other_seeds_than_the_interrupted_ones_are_trained_only_if_asked(tmp_path):
    def interrupt(epoch):
        raise KeyboardInterrupt

    assert run(with_seeds(0), tmp_path).error == ""
    with pytest.raises(KeyboardInterrupt):
        run(with_seeds(0, 1), tmp_path, interrupt)
    refused = run(with_seeds(0, 2), tmp_path)
    assert "--replace" in refused.error
    done = run_cell(with_seeds(0, 2), tmp_path, "cpu", lambda epoch: None, replaces=True)
    assert done.error == ""
    assert {one["seed"] for one in done.report["runs"]} == {0, 2}


def test_seeds_are_not_added_to_a_report_of_other_data(tmp_path):
    assert run(with_seeds(0), tmp_path).error == ""
    path = cell().folder(tmp_path) / "report.json"
    report = json.loads(path.read_text())
    report["data"]["fingerprint"] = "0" * 16
    path.write_text(json.dumps(report))
    refused = run(with_seeds(0, 1), tmp_path)
    assert "must be trained on the same data" in refused.error
    assert json.loads(path.read_text()) == report


@pytest.mark.parametrize("rule", ["gin", "fold-max"])
def test_rules_that_use_test_data_need_all_seeds_in_one_training(tmp_path, rule):
    study = tiny(rule=rule)
    assert run(with_seeds(0, study=study), tmp_path).error == ""
    asked = with_seeds(0, 1, study=study)
    assert not can_add(asked, stored(asked, tmp_path))
    assert "--replace" in run(asked, tmp_path).error
    honest = with_seeds(0, 1)  # the stored training has test curves, which are not kept
    assert not can_add(honest, stored(honest, tmp_path))


def change(one, output, change_report):
    """Change the stored report of a cell."""
    path = one.folder(output) / "report.json"
    report = json.loads(path.read_text())
    change_report(report)
    path.write_text(json.dumps(report))


@pytest.mark.parametrize("better", [0, 1])
def test_the_attention_shown_is_that_of_the_best_run_of_all_seeds(tmp_path, better):
    one, two = with_seeds(0, row="mgnni"), with_seeds(0, 1, row="mgnni")

    def set_validation(report):
        for entry in report["runs"]:
            shown = entry["split"] == report["attention"]["split"]
            entry["val"]["accuracy"] = 2.0 if better == 0 and shown else -1.0

    assert run(one, tmp_path).error == ""
    change(one, tmp_path, set_validation)
    assert run(two, tmp_path).error == ""
    assert report_of(two, tmp_path)["attention"]["seed"] == better


def test_seeds_are_added_to_a_report_of_an_early_version(tmp_path):
    def make_early(report):
        for name in ("processes", "peak_memory", "commit", "scores"):
            del report[name]

    assert run(with_seeds(0), tmp_path).error == ""
    change(cell(), tmp_path, make_early)
    assert run(with_seeds(0, 1), tmp_path).error == ""
    report = report_of(cell(), tmp_path)
    assert [part["seeds"] for part in report["parts"]] == [[0], [1]]
    assert report["peak_memory"] is None
    assert report["scores"]["validation"]["n"] == report["score"]["n"] == 4


def test_seeds_that_another_experiment_has_are_not_trained_again(tmp_path):
    other = replace(tiny(), name="another")
    assert run(with_seeds(0), tmp_path).error == ""
    assert run(with_seeds(0, study=other), tmp_path).report["copy_of"] == str(cell())
    assert run(with_seeds(0, 1), tmp_path).error == ""
    epochs = []
    copied = run(with_seeds(0, 1, study=other), tmp_path, epochs.append)
    assert (copied.error, epochs) == ("", [])
    assert copied.report["runs"] == report_of(cell(), tmp_path)["runs"]


def test_a_copy_with_more_runs_is_no_copy(tmp_path):
    other = replace(tiny(), name="another")
    assert run(with_seeds(0), tmp_path).error == ""
    assert run(with_seeds(0, study=other), tmp_path).report["copy_of"] == str(cell())
    assert "copy_of" not in run(with_seeds(0, 1, study=other), tmp_path).report


def test_what_a_process_left_that_died_after_adding_seeds_does_not_matter(tmp_path, monkeypatch):
    def die(folder):
        raise KeyboardInterrupt

    assert run(with_seeds(0), tmp_path).error == ""
    monkeypatch.setattr(more_runs, "clear", die)
    with pytest.raises(KeyboardInterrupt):
        run(with_seeds(0, 1), tmp_path)
    monkeypatch.undo()
    assert stored(with_seeds(0, 1), tmp_path).state == "done"
    assert run(with_seeds(0, 1, 2), tmp_path).error == ""
    report = report_of(cell(), tmp_path)
    assert [part["seeds"] for part in report["parts"]] == [[0], [1], [2]]
    assert {path.name for path in cell().folder(tmp_path).iterdir()} == {
        "config.json",
        "report.json",
    }


def test_a_cell_that_is_replaced_keeps_nothing_of_seeds_that_were_being_added(tmp_path):
    def interrupt(epoch):
        raise KeyboardInterrupt

    assert run(with_seeds(0), tmp_path).error == ""
    with pytest.raises(KeyboardInterrupt):
        run(with_seeds(0, 1), tmp_path, interrupt)
    study = tiny(rows=[{"name": "gcn", "changes": {"lr": 0.05}}])
    one = with_seeds(0, study=study)
    assert run_cell(one, tmp_path, "cpu", lambda epoch: None, replaces=True).error == ""
    assert {path.name for path in one.folder(tmp_path).iterdir()} == {"config.json", "report.json"}
    assert run(with_seeds(0, 1, study=study), tmp_path).error == ""


@pytest.mark.parametrize("row", ["gcn", "mgnni"])
def test_added_splits_end_in_the_report_of_one_training(tmp_path, row):
    whole, parts = with_seeds(0, 1, row=row), tmp_path / "parts"
    first = replace(with_seeds(0, row=row), splits=(1,))
    assert run(whole, tmp_path / "whole").error == ""
    assert run(first, parts).error == ""
    there = stored(whole, parts)
    assert (there.state, there.why) == ("other", "3 runs missing")
    assert there.missing == (Run(0, 0), Run(0, 1), Run(1, 1))
    assert run(whole, parts).error == ""
    one, other = (report_of(whole, tmp_path / place) for place in ("whole", "parts"))
    assert other["runs"] == one["runs"]
    assert other["confusion"] == one["confusion"]
    assert other["score"] == pytest.approx(one["score"], rel=1e-12)
    assert [(part["splits"], part["seeds"]) for part in other["parts"]] == [
        ([1], [0]),
        ([0, 1], [0, 1]),
    ]
    for asked in (whole, first):
        assert stored(asked, parts).state == "done"


def test_a_split_that_the_data_do_not_have_is_refused(tmp_path):
    refused = run(replace(cell(), splits=(0, 2)), tmp_path)
    assert "'split' must be at most 1" in refused.error


def test_the_time_left_is_that_of_the_runs_that_are_added(tmp_path):
    assert run(with_seeds(0), tmp_path).error == ""
    change(cell(), tmp_path, lambda report: report.update(seconds=60.0))
    asked = with_seeds(0, 1, 2)
    progress = Progress({asked: stored(asked, tmp_path)}, [asked], None)
    assert progress.pace.left(list(progress.left.values())) == 120
