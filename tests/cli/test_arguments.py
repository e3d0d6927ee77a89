"""Options: how values are written and read, and that the help is complete."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.tables import write_nodes
from mgnni.cli.app import COMMANDS
from mgnni.cli.arguments import Parser, UsageError, layout, plain_text
from mgnni.cli.explain import Explain
from mgnni.cli.train import CHOICES, Train
from mgnni.data.metric_names import METRICS
from mgnni.data.rules import RULES
from mgnni.data.tables.schema import TableOptions
from mgnni.distributed.partition import PARTITIONS
from mgnni.graph.build import FLOWS
from mgnni.graph.normalize import NORMALIZATIONS
from mgnni.layers.blocks import DIRECTIONS
from mgnni.layers.equilibrium import CONTRACTIONS
from mgnni.layers.fusion import FUSIONS
from mgnni.layers.heads import HEADS
from mgnni.layers.input_map import INPUT_MAPS
from mgnni.solve.prepare import METHODS
from mgnni.solve.result import MEMORY
from mgnni.train.config import CLASS_WEIGHTS, PRECISIONS, SCHEDULES, STOPPING
from mgnni.train.device import DEVICES
from mgnni.train.presets import PRESETS
from mgnni.train.trackers import TRACKERS

Call = Callable[..., Any]  # see conftest.py

DOC = """Do a thing.

    Words enough to fill a line, and then some more of them, because they must be wrapped between
    words at the end of a terminal and never in the middle of one of them.

    More.

    Example: mgnni do this
    Example: mgnni do that --with everything
    """


def train(*words: str) -> Train:
    args = ["mine", *words]
    return Train.create(Train.parser(args).parse(args))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_choices_shown_are_those_of_the_library() -> None:
    known = {
        **{"metric": METRICS, "device": DEVICES, "rule": RULES, "preset": PRESETS},
        **{"schedule": SCHEDULES, "stopping": STOPPING, "precision": PRECISIONS},
        "class_weight": CLASS_WEIGHTS,
        **{"input_map": INPUT_MAPS, "fusion": FUSIONS, "head": HEADS, "memory": MEMORY},
        **{"contraction": CONTRACTIONS, "directions": DIRECTIONS},
        **{"normalization": (*NORMALIZATIONS, "auto"), "flow": FLOWS},
        **{"solver": (*METHODS, "auto"), "log": TRACKERS, "partition": PARTITIONS},
    }
    assert {name: set(values) for name, values in CHOICES.items()} == {
        name: set(values) for name, values in known.items()
    }


def test_every_value_has_the_right_type() -> None:
    command = train(
        *("--epochs", "7", "--lr", "1e-2", "--scales", "1", "4", "--gamma", "0.5"),
        *("--normalization", "none", "--patience", "none", "--hidden-channels", "None"),
        *("--undirected", "TRUE", "--no-shuffle", "--batch-norm", "--input-widths", "8", "4"),
        *("--label", "a", "b", "--directed", "false", "--id", "key", "--degree"),
        *("--output", "there", "--split", "0", "2", "--seeds", "3", "--one-by-one"),
    )
    assert command.changes == {
        **{"epochs": 7, "lr": 0.01, "scales": (1, 4), "gamma": 0.5, "normalization": "none"},
        **{"patience": None, "hidden_channels": None, "undirected": True, "shuffle": False},
        **{"batch_norm": True, "input_widths": (8, 4)},
    }
    assert command.tables == TableOptions(label=("a", "b"), directed=False, id="key", degree=True)
    assert (command.output, command.split, command.seeds) == (Path("there"), ("0", "2"), (3,))
    assert (command.one_by_one, command.resume, command.data) == (True, False, "mine")


def test_options_may_be_written_in_several_ways() -> None:
    assert train("--lr=3", "--no-self_loops", "--weight_decay", "0").changes == {
        **{"lr": 3.0, "self_loops": False, "weight_decay": 0.0},
    }
    assert train("--scales", "1,2,4").changes == train("--scales", "1", "2", "4").changes
    assert train("--input-widths", "none").changes == {"input_widths": None}
    assert train("--label", "a,b").tables.label == ("a,b",), "a name may contain a comma"
    with pytest.raises(UsageError, match="--input-widths"):
        train("--input-widths", "none", "3")


def test_values_of_a_repeated_option_are_added() -> None:
    command = train(
        *("--label", "price", "--label", "rent", "--ignore", "a", "b", "--ignore", "c"),
        *("--features=-x", "--features=-y", "--categorical", "k", "--categorical", "l"),
        *("--seeds", "0", "--seeds", "1,2", "--split", "0", "--split", "2", "--scales", "1"),
        *("--scales", "4", "--option", "a=1", "--option", "b=2"),
    )
    tables = command.tables
    assert (tables.label, tables.ignore) == (("price", "rent"), ("a", "b", "c"))
    assert (tables.features, tables.categorical) == (("-x", "-y"), ("k", "l"))
    assert (command.seeds, command.split, command.option) == ((0, 1, 2), ("0", "2"), ("a=1", "b=2"))
    assert command.changes == {"scales": (1, 4)}
    for words in (["none", "8"], ["8", "none"]):
        with pytest.raises(UsageError, match="--input-widths"):
            train(*(part for word in words for part in ("--input-widths", word)))


def test_none_may_be_a_name() -> None:
    given = ("--weight", "none", "--id", "None", "--source", "None")
    tables = train(*given, "--metric", "none").tables
    assert (tables.weight, tables.id, tables.source) == ("none", "None", "None")
    args = ["run", "n1", "--class", "None", "--against", "none", "--run-number", "none"]
    found = Explain.parser(args).parse(args)
    assert (found["class_name"], found["against"]) == ("None", "none")
    assert found["run_number"] is None


def test_a_path_that_an_option_has_taken_is_missed() -> None:
    with pytest.raises(UsageError, match="required: DATA; write DATA before --label, which takes"):
        Train.parser([]).parse(["--epochs", "3", "--label", "topic", "mine"])
    with pytest.raises(UsageError, match="required: DATA; see mgnni train --help"):
        Train.parser([]).parse(["--epochs", "3"])


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_help_of_train_is_complete(
    call: Call, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    ended = call("train", "--help")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(len(line) for line in lines if "mgnni train " not in line) <= int(width)
    assert lines[0] == "usage: mgnni train [options] DATA"
    titles = ["options:", "training options:", "model options:", "file options:"]
    assert [line for line in lines if line in titles] == titles
    text = flat(ended.out)
    assert not any(word in text for word in ("None", "``", ":obj:", "(default: )", "True"))
    for name, choices in CHOICES.items():
        option = re.escape(f"--{name.replace('_', '-')} NAME")
        listed = re.escape(", ".join(choices)).replace("-", "-[ ]?")  # may be wrapped at a hyphen
        listed = listed.replace(chr(92) + "-", "-")
        assert re.search(rf"{option} (?:(?!--).)*One of {listed}", text), name
    assert "--patience INT|none" in text
    assert "(default: runs/DATA)" in text
    assert "(default: column source, src, from or u)" in text
    assert "--shuffle, --no-shuffle" in text


def test_help_shows_the_settings_of_a_benchmark(call: Call, tmp_path: Path) -> None:
    shown = {
        name: flat(call("train", *name.split(), "--help").out)
        for name in ("", "texas", "texas --preset authors", "mutag", "mutag --preset authors")
    }
    assert len(set(shown.values())) == len(shown)
    assert re.search(r"--lr FLOAT [^(]*\(default: 0\.5\)", shown["texas --preset authors"])
    head = r"--head NAME [^(]*\(default: (\w+)\)"
    assert re.search(head, shown["mutag"])[1] == "linear"
    assert re.search(head, shown["mutag --preset authors"])[1] == "graph"
    assert flat(call("train", "--seeds", "0", "mutag", "--help").out) == shown["mutag"]
    folder = write_nodes(tmp_path / "mine")
    assert re.search(head, flat(call("train", folder, "--help").out))[1] == "linear"
    (folder / "graphs.csv").touch()
    assert re.search(head, flat(call("train", folder, "--help").out))[1] == "graph"


@dataclass(frozen=True)
class Settings:
    """Some settings."""

    size: int | None = None
    """Size of ``x``,
    in all; ``None``: as it is."""
    words: tuple[str, ...] = ("a",)
    """Said."""


def test_a_dataclass_becomes_a_group_of_options() -> None:
    parser = Parser("do")
    parser.add_fields(parser.group("settings", "About."), Settings)
    assert parser.parse([]) == {}, "only given options have a value"
    assert parser.parse(["--size", "3", "--words"]) == {"size": 3, "words": ()}
    assert parser.option_names()["size"] == "--size"
    text = flat(parser.format_help())
    assert "--size INT|none Size of x, in all; none: as it is. (default: none)" in text
    assert "--words [NAME ...] Said. (default: a)" in text


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        ("dropout\n  probability. (default: :obj:`0.5`)", "Dropout probability."),
        ("The :class:`~torch.nn.Dropout`. (default: :obj:`(1, 2)`)", "The torch.nn.Dropout."),
        ("factor :math:`\\gamma`, or :obj:`None`", "Factor gamma, or none"),
        ("``True``: as listed", "true: as listed"),
    ],
)
def test_argument_descriptions_lose_their_markup(doc: str, text: str) -> None:
    assert plain_text(doc) == text


def test_paragraphs_are_wrapped_and_examples_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text, _, examples = layout(DOC).partition("examples:\n")
    assert max(map(len, text.splitlines())) <= 60
    assert flat(text) == flat(DOC[: DOC.index("Example")])
    assert examples.splitlines() == ["  mgnni do this", "  mgnni do that --with everything"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_help_is_wider_than_the_terminal(
    call: Call, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = call(*command.split(), "--help")
    assert ended.status == 0
    wide = [line for line in ended.out.splitlines() if len(line) > width]
    assert not [line for line in wide if "mgnni " not in line], "only a command is not broken"
    assert "examples:\n  mgnni " in ended.out
