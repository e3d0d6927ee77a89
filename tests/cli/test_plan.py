"""``mgnni plan``, ``mgnni precompute`` and ``mgnni minibatch``."""

import json
import subprocess
import sys

import pytest

from cli.tables import write_graphs
from mgnni.cli.app import main
from mgnni.cli.plan import size, time_of


def test_a_plan_shows_every_way_and_what_does_not_fit(capsys):
    assert main(["plan", "--nodes", "500000000", "--edges", "10000000000", "--devices", "4"]) == 0
    text = capsys.readouterr().out
    assert "columns over 4 devices" in text
    assert "does not fit" in text
    assert "The least that a full-batch step fits on: rows over" in text


def test_a_plan_as_json(capsys):
    arguments = ["--nodes", "1000", "--edges", "5000", "--memory", "4", "--link", "5", "--json"]
    assert main(["plan", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["memory"] == 4e9
    assert found["machine"]["link"] == 5e9
    assert all(one["fits"] for one in found["ways"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan"], "--nodes must be positive"),
        (["plan", "--nodes", "5", "--edges", "5", "--link", "-1"], "--link must be positive"),
        (["plan", "--nodes", "5", "--edges", "5", "--machine", "abacus"], "--machine"),
        (["plan", "--nodes", "5", "--edges", "5", "--gamma", "1.5"], "--gamma"),
        (["precompute", "no-such-data"], "neither a benchmark"),
        (["precompute", "synthetic", "--edges", "7"], "--edges"),
        (["precompute", "synthetic", "--storage", "int8"], "--storage"),
        (["minibatch", "no-such-folder"], "sweep.json: cannot be read"),
    ],
)
def test_bad_input_is_one_line_without_a_traceback(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_terms_are_stored_and_trained_on(tmp_path, capsys):
    terms, model = str(tmp_path / "terms"), str(tmp_path / "model")
    arguments = ["--nodes", "600", "--edges", "3000", "--num-features", "6", "--tol", "1e-3"]
    assert main(["precompute", "synthetic", *arguments, "--output", terms, "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["nodes"] == 600
    options = ["--epochs", "30", "--batch-size", "200", "--lr", "0.03"]
    assert main(["minibatch", terms, "--output", model, *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["accuracy"]["test"] > 0.4, "six classes, of which one was always chosen"
    assert max(report["relative_error_bound"]) < 1e-3
    assert main(["minibatch", terms, "--output", model]) == 2
    assert "finished training" in capsys.readouterr().err
    table = tmp_path / "predictions.csv"
    assert main(["predict", model, terms, "--output", str(table), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], sum(summary["predicted"].values())) == (600, 600)
    header, *rows = table.read_text().splitlines()
    assert header.startswith('"id","prediction","label","split","p_0"')
    assert header.endswith('"scale_1","scale_2"')
    tested = [row.split(",") for row in rows if row.split(",")[3] == '"test"']
    right = sum(row[1] == row[2] for row in tested) / len(tested)
    assert right == pytest.approx(report["accuracy"]["test"])
    # The same training as an option of mgnni train.
    again = ["--output", str(tmp_path / "again"), *options, "--json"]
    assert main(["train", "--precomputed", terms, *again]) == 0
    assert json.loads(capsys.readouterr().out)["history"] == report["history"]


def test_two_trainings_on_terms_do_not_share_a_folder(tmp_path, capsys):
    terms, model = str(tmp_path / "terms"), tmp_path / "model"
    arguments = ["--nodes", "60", "--edges", "200", "--num-features", "2"]
    assert main(["precompute", "synthetic", *arguments, "--output", terms]) == 0
    capsys.readouterr()
    code = "import sys; from filelock import FileLock; l = FileLock(sys.argv[1]); l.acquire()"
    hold = [sys.executable, "-c", f"{code}; print('held', flush=True); sys.stdin.read()"]
    model.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = ["minibatch", terms, "--epochs", "1", "--output", str(model)]
    with subprocess.Popen([*hold, str(model / ".lock")], **pipes) as other:
        assert other.stdout.readline() == "held\n"
        assert main(command) == 1
        error = capsys.readouterr().err
        other.stdin.close()
    assert f"{model}: another process is training here; wait for it, or choose another" in error
    assert [path.name for path in model.iterdir()] == [".lock"]
    assert main(command) == 0  # the other one has ended


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        ("terms", ["--run-number", "0"], "--run-number is for models of mgnni train"),
        ("terms", ["--delimiter", ";"], "--delimiter is for models of mgnni train"),
        ("chains", [], "must be the output folder of mgnni precompute"),
        ("run", [], "sweep.json: cannot be read"),
    ],
)
def test_a_model_of_terms_predicts_for_terms_only(
    graph, options, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    arguments = ["synthetic", "--nodes", "50", "--edges", "100", "--num-features", "2"]
    assert main(["precompute", *arguments, "--output", "terms"]) == 0
    assert main(["minibatch", "terms", "--epochs", "1", "--output", "run"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", graph, *options]) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_refused_command_leaves_no_empty_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_graphs(tmp_path / "many")  # stored terms are for one graph
    assert main(["precompute", "many"]) != 0
    assert main(["minibatch", "many"]) != 0
    assert "give the output folder of mgnni precompute" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_training_on_terms_names_what_it_needs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "no-such-folder", "--precomputed"]) == 1
    assert "give the output folder of mgnni precompute" in capsys.readouterr().err
    arguments = ["synthetic", "--nodes", "50", "--edges", "100", "--num-features", "2"]
    assert main(["precompute", *arguments, "--output", "terms"]) == 0
    capsys.readouterr()
    assert main(["train", "terms"]) == 2  # without the option
    assert "to train on them: mgnni train terms --precomputed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"), [(0, "–"), (999, "999 B"), (1e9, "1 GB"), (1.234e13, "12.3 TB")]
)
def test_sizes_are_readable(value, text):
    assert size(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5 s"), (90, "1.5 min"), (36000, "10 h")])
def test_times_are_readable(value, text):
    assert time_of(value) == text
