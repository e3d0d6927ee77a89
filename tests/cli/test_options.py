"""Options: how values are written and read, and that no choice is forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from cli.tables import write_nodes
from mgnni.cli.app import parse
from mgnni.cli.options import options_of
from mgnni.cli.train_options import CHOICES, SPOKEN, given
from mgnni.data.metrics import METRICS
from mgnni.data.rules import RULES
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.build import FLOWS
from mgnni.graph.normalize import NORMALIZATIONS
from mgnni.implicit.linear import MEMORY
from mgnni.layers.fusion import FUSIONS
from mgnni.layers.heads import HEADS
from mgnni.layers.inputs import INPUT_MAPS
from mgnni.solve.prepare import METHODS
from mgnni.train.config import PRECISIONS, SCHEDULES, STOPPING
from mgnni.train.device import DEVICES
from mgnni.train.presets import PRESETS

Call = Callable[..., Any]  # see conftest.py


def train(*words: str) -> Any:
    return parse(["train", "mine", *words])


def test_the_choices_shown_are_those_there_are() -> None:
    known = {
        **{"metric": METRICS, "device": DEVICES, "rule": RULES, "preset": PRESETS},
        **{"schedule": SCHEDULES, "stopping": STOPPING, "precision": PRECISIONS},
        **{"input_map": INPUT_MAPS, "fusion": FUSIONS, "head": HEADS, "memory": MEMORY},
        **{"normalization": (*NORMALIZATIONS, "auto"), "flow": FLOWS},
        "solver": (*METHODS, "auto"),
    }
    assert {name: set(values) for name, values in CHOICES.items()} == {
        name: set(values) for name, values in known.items()
    }


def test_every_value_is_read_as_what_it_is() -> None:
    command = train(
        *("--epochs", "7", "--lr", "1e-2", "--scales", "1", "4", "--gamma", "0.5"),
        *("--normalization", "none", "--patience", "none", "--hidden-channels", "None"),
        *("--undirected", "TRUE", "--no-shuffle", "--batch-norm", "--input-widths", "8", "4"),
        *("--label", "a", "b", "--directed", "false", "--id", "key", "--degree"),
        *("--output", "there", "--split", "0", "2", "--seeds", "3", "--one-by-one"),
    )
    training, model, file = command.training, command.model, command.file
    assert (training.epochs, training.lr, training.patience) == (7, 0.01, None)
    assert (training.undirected, training.shuffle) == (True, False)
    assert (model.scales, model.gamma, model.input_widths) == ((1, 4), 0.5, (8, 4))
    assert (model.normalization, model.hidden_channels, model.batch_norm) == ("none", None, True)
    assert TableOptions(**vars(file)) == TableOptions(
        label=("a", "b"), directed=False, id="key", degree=True
    )
    assert (command.output, command.split, command.seeds) == (Path("there"), ("0", "2"), (3,))
    assert (command.one_by_one, command.resume, command.data) == (True, False, "mine")


def test_what_is_given_is_known_by_name() -> None:
    names = given(["mine", "--lr=3", "--no-self-loops", "--weight_decay", "0", "--scales", "1"])
    assert {"lr", "self_loops", "weight_decay", "scales"} <= names
    assert not {"mine", "0", "gamma", "shuffle"} & names


@pytest.mark.parametrize("width", ["80", "120"])
def test_help_is_for_people(call: Call, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    ended = call("train", "--help")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert lines[0] == "usage: mgnni train [-h] [OPTIONS] DATA"
    examples = [line.strip().removeprefix("Example: ") for line in lines if "mgnni train " in line]
    assert sum(example.startswith("mgnni train ") for example in examples) >= 3
    titles = ["options", "training options", "model options", "file options"]
    bare = [line.strip("╭╮─- ") for line in lines]  # the frame depends on what can be shown
    assert [line for line in bare if line in titles] == titles
    text = " ".join(" ".join(line.strip("│ ") for line in lines).split())
    assert not any(word in text for word in ("None", "``", ":class:", "(default: )", "True"))
    for name in CHOICES:
        assert f"--{name.replace('_', '-')} {'|'.join(CHOICES[name])}" in text
    assert "--patience INT|none" in text
    assert "(default: runs/DATA)" in text
    assert "(default: the one called source, src, from or u)" in text
    assert "--shuffle, --no-shuffle" in text
    for name, option in SPOKEN.items():
        assert re.search(rf"{option}[ ,]", text), name


def test_help_shows_the_settings_of_a_benchmark(call: Call) -> None:
    shown = {
        name: " ".join(call("train", *name.split(), "--help").out.replace("│", "").split())
        for name in ("", "texas", "texas --preset authors", "mutag")
    }
    assert len(set(shown.values())) == len(shown)
    assert all("usage: mgnni train [-h] [OPTIONS] DATA" in text for text in shown.values())
    assert "in the input map and the head. (default: 0.5)" in shown[""]
    assert "Learning rate of Adam. (default: 0.5)" in shown["texas --preset authors"]
    assert "residual a deep one. (default: graph)" in shown["mutag"]


def test_help_knows_a_folder_of_graphs(call: Call, tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "mine")
    assert "residual a deep one. (default: linear)" in _flat(call("train", folder, "--help").out)
    (folder / "graphs.csv").touch()
    assert "residual a deep one. (default: graph)" in _flat(call("train", folder, "--help").out)


def _flat(text: str) -> str:
    return " ".join(text.replace("│", "").split())


@dataclass(frozen=True)
class Settings:
    """Some."""

    size: int | None = None
    """Of ``x``,
    in all; ``None``: as it is."""
    words: tuple[str, ...] = ("a",)
    """Said."""


def test_a_group_has_the_fields_of_its_class() -> None:
    group = options_of(Settings, "About.")
    assert group.__doc__ == "About."
    assert [(one.name, one.default) for one in fields(group)] == [("size", None), ("words", ("a",))]
    assert vars(group()) == vars(Settings())


@pytest.mark.parametrize("name", ["solver", "head"])
def test_a_wrong_choice_is_left_to_the_library(name: str) -> None:
    """It knows the nearest; here any word is read."""
    assert getattr(train(f"--{name}", "lineal").model, name) == "lineal"
    with pytest.raises(ArgumentError):
        check_choice(name, "lineal", CHOICES[name])
