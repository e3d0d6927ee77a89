"""``mgnni models`` from the outside, and the model options of ``mgnni train``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cli.tables import QUICK, write_nodes
from mgnni.models.catalog import MODELS
from mgnni.train.config import ModelConfig, options_class

Call = Callable[..., Any]  # see conftest.py


def words(text: str) -> str:
    return " ".join(text.replace("│", "").split())


def shown_options(text: str) -> set[str]:
    """The options that a help has below its examples, as fields call them."""
    found = (word.rstrip(",") for word in text.partition("positional arguments")[2].split())
    return {word[2:].replace("-", "_") for word in found if word.startswith("--")}


def one_error(ended: Any) -> str:
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    return str(line)


def test_every_model_has_its_row(call: Call) -> None:
    ended = call("models")
    assert (ended.status, ended.err) == (0, "")
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert max(map(len, lines)) <= 100
    said = words(ended.out)
    at = [said.index(f" {one.name} {one.equation}") for one in MODELS.values()]
    assert at == sorted(at), "in the order of the catalog"
    titles = ("Implicit: ", "Explicit: ", "Baselines without a graph ")
    kinds = [said.index(title) for title in titles]
    assert kinds == sorted(kinds)
    assert kinds[1] < said.index(" gcn ") < kinds[2] < said.index(" mlp ")


def test_all_about_one(call: Call) -> None:
    ended = call("models", "gcnii")
    assert (ended.status, ended.err) == (0, "")
    entry, said = MODELS["gcnii"], words(ended.out)
    for text in (entry.title, entry.equation, entry.paper, entry.differs):
        assert text in said
    assert "MGNNI paper heterophilic, chains" in said
    assert "class mgnni.models.gcnii.GCNII" in said
    assert "options hidden_channels=64, num_layers=" in said
    assert "shared_weights=true" in said
    assert "num_layers: 4, 8, 16, 32, 64" in said, "as its paper searched"


def test_json_says_everything(call: Call) -> None:
    ended = call("models", "--json")
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(ended.out)["models"]
    assert [one["name"] for one in found] == list(MODELS)
    for one, entry in zip(found, MODELS.values(), strict=True):
        changed = {"defaults": dict(entry.defaults), "trained": dict(entry.trained)}
        assert one == {**vars(entry), "tables": list(entry.tables), **changed}


@pytest.mark.parametrize("name", MODELS)
def test_json_of_each(call: Call, name: str) -> None:
    found = json.loads(call("models", name, "--json").out)
    assert (found["name"], found["paper"]) == (name, MODELS[name].paper)
    given = {one.name: one.default for one in fields(options_class(name))}
    assert found["options"] == json.loads(json.dumps(given))
    trained = {"lr", "weight_decay", "undirected", "batch_size", "epochs", "patience"}
    assert set(found["search"]) <= set(given) | trained
    assert all(found["search"].values())


def test_a_wrong_name_is_bad_usage(call: Call) -> None:
    line = one_error(call("models", "gcni"))
    assert line.startswith("mgnni models: error: NAME must be one of [")
    assert line.endswith("(got 'gcni'); did you mean 'gcnii'?")


def test_help_has_an_example_and_every_option(call: Call) -> None:
    ended = call("models", "--help")
    assert ended.status == 0
    assert "mgnni models gcnii" in ended.out
    assert "[NAME]" in ended.out
    assert all(option in ended.out for option in ("--json", "--debug"))


@pytest.mark.parametrize("args", [["models"], ["models", "--json"]], ids=" ".join)
def test_the_list_is_shown_without_torch(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from mgnni.cli import main\n"
        f"status = main({args})\n"
        "slow = [name for name in ('torch', 'numpy', 'torch_geometric') if name in sys.modules]\n"
        "sys.exit(f'imports {slow}' if slow else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gcnii" in done.stdout


def test_help_of_a_training_has_the_options_of_its_model(call: Call) -> None:
    ours = shown_options(call("train", "--help").out)
    theirs = shown_options(call("train", "texas", "--model", "gcnii", "--help").out)
    own = {one.name for one in fields(options_class("gcnii"))}
    mgnni = {one.name for one in fields(ModelConfig)}
    assert own <= theirs
    assert mgnni <= ours
    assert not theirs & (mgnni - own)
    assert not ours & (own - mgnni)
    assert {"scales", "gamma"} <= mgnni - own
    assert {"num_layers", "theta"} <= own - mgnni
    assert call("train", "--model=gcnii", "texas", "--help").out == (
        call("train", "texas", "--model", "gcnii", "--help").out
    )


@pytest.mark.parametrize("name", MODELS)
def test_help_of_every_model(call: Call, name: str) -> None:
    ended = call("train", "--model", name, "--help")
    assert (ended.status, ended.err) == (0, "")
    assert {one.name for one in fields(options_class(name))} <= shown_options(ended.out)


def test_help_has_the_docstrings_of_the_model(call: Call) -> None:
    said = words(call("train", "texas", "--model", "gcnii", "--help").out)
    assert f"model options: {MODELS['gcnii'].title}." in said
    assert re.search(r"--alpha FLOAT [A-Z].*? \(default: ", said)
    assert "(default: gcnii)" in said


@pytest.mark.parametrize("option", [["--scales", "1", "2"], ["--gamma=0.5"], ["--fusion", "mean"]])
def test_an_option_of_another_model_is_refused(
    call: Call, option: list[str], tmp_path: Path
) -> None:
    folder, output = write_nodes(tmp_path / "mine"), tmp_path / "out"
    line = one_error(call("train", folder, "--model", "gcn", *option, "--output", output))
    assert line.startswith("mgnni train: error: ")
    assert option[0].partition("=")[0] in line
    assert "unrecognized" in line
    assert not output.exists()


@pytest.mark.parametrize("args", [[], ["--help"]], ids=["run", "help"])
@pytest.mark.parametrize(
    ("name", "near"), [("gnc", "gcn"), ("gcni", "gcnii"), ("GCN", "gcn"), ("xyz", None)]
)
def test_an_unknown_model_is_bad_usage(
    call: Call, name: str, near: str | None, args: list[str]
) -> None:
    line = one_error(call("train", "texas", "--model", name, *args))
    assert line.startswith("mgnni train: error: --model must be one of [")
    assert f"(got {name!r})" in line
    assert ("did you mean" in line) == (near is not None)
    assert near is None or f"did you mean {near!r}?" in line


def test_a_wrong_value_is_named_by_its_option(call: Call, tmp_path: Path) -> None:
    folder, output = write_nodes(tmp_path / "mine"), tmp_path / "out"
    args = ("train", folder, "--model", "gcn", "--output", output)
    line = one_error(call(*args, "--num-layers", "0"))
    assert line.startswith("mgnni train: error: --num-layers must be ")
    line = one_error(call(*args, "--normalization", "symm"))
    assert line.startswith("mgnni train: error: --normalization must be one of [")
    assert line.endswith("did you mean 'sym'?")
    assert not output.exists()


def test_another_model_is_trained_and_used(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_nodes(tmp_path / "mine")
    ended = call("train", folder, *QUICK, "--model", "gcn", "--num-layers", "1")
    assert (ended.status, ended.err) == (0, "")
    output = tmp_path / "runs" / "mine-gcn"
    report = json.loads((output / "report.json").read_text("utf-8"))
    assert report["model"] == report["config"]["architecture"] == "gcn"
    # One layer from two features and the degree to two classes.
    assert report["parameters"] == 3 * 2 + 2
    ended = call("predict", output, folder, "--output", "out.csv")
    assert (ended.status, ended.err) == (0, "")
    assert len((tmp_path / "out.csv").read_text("utf-8").splitlines()) == 1 + 24
