import shlex

import pytest

from cli.tables import QUICK, write_nodes
from mgnni.cli import main
from mgnni.cli.train import Train
from mgnni.html_report.command import command_line
from mgnni.html_report.results import read_results
from mgnni.train.config import Config, changed
from mgnni.train.presets import preset_for


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--scales", "1", "2", "4", "--no-self-loops", "--undirected", "true", "--clip", "none"),
        ("--model", "gcn", "--lr", "0.003", "--rule", "fold-max", "--metric", "macro_f1"),
        ("--seeds", "0", "3", "--one-by-one", "--deterministic", "--standardize"),
        ("--label", "label", "--ignore", "b", "--directed", "false"),
    ],
)
def test_the_command_repeats_the_training(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    write_nodes(tmp_path / "my graph")
    assert main(["train", "my graph", *QUICK, *options, "--output", "out", "--no-report"]) == 0
    (result,) = read_results([tmp_path / "out"])
    words = shlex.split(command_line(result))
    assert words[:3] == ["mgnni", "train", str(tmp_path / "my graph")]
    again = Train.create(Train.parser(words[2:]).parse(words[2:]))
    first = Train.create(Train.parser(options).parse(["my graph", *QUICK[:6], *options]))
    for name in ("architecture", "rule", "seeds", "tables", "one_by_one", "deterministic"):
        assert getattr(again, name) == getattr(first, name)
    preset = preset_for("", "node", again.preset, again.architecture)
    assert changed(preset, again.changes) == Config.from_dict(result.report["config"])
    assert len(words) <= 3 + 6 + len(options)  # defaults are left out


def test_benchmark_options_and_presets_are_named(tmp_path, capsys):
    options = ["--option", "length=5", "num_chains_per_class=8"]
    args = ["train", "chains", *options, "--epochs", "2", "--split", "0"]
    assert main([*args, "--output", str(tmp_path / "out"), "--no-report"]) == 0
    (result,) = read_results([tmp_path / "out"])
    line = command_line(result)
    assert line.startswith(shlex.join(["mgnni", "train", "chains", *options]))
    assert line.endswith("--epochs 2")
    config = preset_for("texas", preset="authors").to_dict()
    report = {**result.report, "input": {"data": "texas"}, "config": config}
    line = command_line(type(result)(**{**vars(result), "report": report}))
    assert "--preset authors" in line
    assert "--lr" not in line


def test_options_of_another_version_are_all_named(trainings):
    result = next(one for one in read_results([trainings]) if one.label == "gcn")
    config = {**result.report["config"], "model": {"old_option": 3}}
    report = {**result.report, "config": config}
    line = command_line(type(result)(**{**vars(result), "report": report}))
    assert "--old-option 3" in line
    assert "--epochs 6" in line
