"""``mgnni range``: a graph or a training in; a table, a JSON file and a figure out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.raw import expect, write_gin_folds, write_tu
from mgnni.range import sound_range

Call = Callable[..., Any]  # see conftest.py
SMALL = ["--option", "length=12", "num_chains_per_class=5"]
FEW = ["--gamma", "0.5", "0.9", "--scales", "1", "4", "--theta", "1e-4"]


def test_a_graph_in_a_table_and_a_figure_out(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "range"
    ended = call("range", "chains", *SMALL, *FEW, "--undirected", "--output", out)
    assert (ended.status, ended.err) == (0, "")
    assert "undirected, normalization sym; diameter 11 hops" in ended.out
    assert "is enough" in ended.out
    assert (out / "range.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((out / "range.json").read_text())
    assert [(one["gamma"], one["scale"]) for one in found["ranges"]] == [
        *((0.5, 1), (0.5, 4), (0.9, 1), (0.9, 4)),
    ]
    for one in found["ranges"]:
        assert one["measured"] <= one["proven"]
        assert one["proven"] == sound_range(1e-4, one["gamma"], one["scale"], symmetric=True)
        assert f"{one['measured']}" in ended.out
    assert found["is_diameter"]
    assert found["measured_nodes"] == 120


def test_json_goes_to_standard_output_alone(call: Call, tmp_path: Path) -> None:
    args = ["range", "chains", *SMALL, *FEW, "--initial", "--samples", "7", "--json"]
    ended = call(*args, "--output", tmp_path)
    found = json.loads(ended.out)
    assert ended.out == (tmp_path / "range.json").read_text()
    assert found["measured_nodes"] == 7
    assert not found["is_diameter"]
    assert all(0.05 < one["eigenvalue"] < 0.9 for one in found["ranges"])
    again = call(*args, "--output", tmp_path)
    assert again.status == 2
    assert "range.json exists; pass --overwrite" in again.err
    assert call(*args, "--output", tmp_path, "--overwrite").status == 0


@pytest.mark.parametrize("model", ["mgnni", "gcn"])
def test_a_training_is_measured_with_its_weights(call: Call, tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    options = ["--option", "length=12", "num_chains_per_class=5", "train_fraction=0.3"]
    trained = call("train", "chains", *options, "--model", model, "--epochs", "2", "--output", run)
    assert trained.status == 0, trained.err
    out = ["--output", tmp_path / "range", "--samples", "20"]
    ended = call("range", run, *options, *out)
    assert ended.status == 0, ended.err
    found = json.loads((tmp_path / "range" / "range.json").read_text())
    assert found["model"]["architecture"] == model
    assert f"predictions of the trained {model}: range" in " ".join(ended.out.split())
    if model == "gcn":
        config = json.loads((run / "config.json").read_text())["config"]["model"]
        assert found["model"]["range"] <= config["num_layers"]
        assert found["ranges"] == []
    else:
        assert len(found["ranges"]) > 0
        assert all(0 < one["eigenvalue"] <= 1 for one in found["ranges"])
    # Without the options of the training, its data are others.
    ended = call("range", run, *out, "--overwrite")
    assert ended.status == 2
    assert "is not what" in ended.err
    ended = call("range", run, *options, "--gamma", "0.5", *out, "--overwrite")
    assert ended.status == 2
    assert "--gamma is given by the training" in ended.err


def test_a_training_on_files_is_read_as_it_was(call: Call, tmp_path: Path) -> None:
    folder, run = tmp_path / "mine", tmp_path / "run"
    folder.mkdir()
    nodes = "".join(f"{i},{'xy'[i % 2]},{i}\n" for i in range(20))
    (folder / "nodes.csv").write_text("name,topic,age\n" + nodes)
    (folder / "edges.csv").write_text("a,b\n" + "".join(f"{i},{i + 1}\n" for i in range(19)))
    options = ["--id", "name", "--label", "topic", "--source", "a", "--target", "b"]
    quick = ("--model", "mgnni", "--epochs", "2")
    trained = call("train", folder, *options, *quick, "--output", run)
    assert trained.status == 0, trained.err
    ended = call("range", folder, *options, *FEW, "--json", "--output", tmp_path / "data")
    found = json.loads(ended.out)
    assert (found["longest"], found["graph"]["nodes"]) == (19, 20)
    out = tmp_path / "range"
    assert call("range", run, "--output", out).status == 0
    found = json.loads((out / "range.json").read_text())
    assert (found["longest"], found["data"]) == (19, "mine")
    assert found["ranges"][0]["inside"] is not None
    (folder / "edges.csv").write_text("a,b\n0,1\n")
    ended = call("range", run, "--output", out, "--overwrite")
    assert ended.status == 2
    assert "is not what" in ended.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere"], "neither a benchmark"),
        (["chains", "--gamma", "1"], "--gamma must lie in [0, 1)"),
        (["chains", "--scales", "0"], "--scales must hold ints of at least 1"),
        (["chains", "--scales", "1", "1"], "--scales must not repeat a scale"),
        (["chains", "--theta", "0"], "--theta must lie in (0, inf)"),
        (["chains", "--samples", "0"], "--samples must be a positive int"),
        (["chains", "--run-number", "0"], "--run-number is for the output folder"),
        (["chains", "--normalization", "half"], "--normalization must be one of"),
    ],
)
def test_bad_usage_is_one_line(call: Call, tmp_path: Path, args: list[str], said: str) -> None:
    option = SMALL if args[0] == "chains" else []
    ended = call("range", *args, *option, "--output", tmp_path / "new")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("mgnni range: error: ")
    assert said in line
    assert not (tmp_path / "new").exists()


def test_each_layer_is_measured_with_its_norm_and_direction(call: Call, tmp_path: Path) -> None:
    """On a directed chain, a layer along the edges reaches only behind, one against only ahead."""
    folder, run = tmp_path / "mine", tmp_path / "run"
    folder.mkdir()
    nodes = "".join(f"{i},{'xy'[i % 2]},{i % 3}\n" for i in range(12))
    (folder / "nodes.csv").write_text("id,label,a\n" + nodes)
    (folder / "edges.csv").write_text(
        "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(11))
    )
    options = ["--model", "gmgnni", "--scales", "1", "--epochs", "2", "--no-report"]
    trained = call("train", folder, *options, "--blocks", "2", "--output", run)
    assert trained.status == 0, trained.err
    ended = call("range", run, "--json", "--output", tmp_path / "range")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert [one["layer"] for one in found["ranges"]] == ["1", "2", "1-out", "2-out"]
    # The spectral norm divides by the largest eigenvalue, which the Frobenius norm does not.
    assert [one["eigenvalue"] for one in found["ranges"]] == pytest.approx([1] * 4, abs=1e-5)
    counts = [11, 10]  # pairs at one and at two hops, once in each direction
    for one in found["ranges"]:
        assert one["profile"]["pairs"][1:3] == counts
    assert found["model"]["profile"]["pairs"][1:3] == [2 * count for count in counts]


def test_a_training_without_validation_is_measured(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tu(tmp_path, "MUTAG", [3 + graph % 5 for graph in range(43)], node_labels=True)
    write_gin_folds(tmp_path / "gin_folds" / "MUTAG", 43, tested=4)
    expect(monkeypatch, "mutag", graphs=43)
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path))
    run = tmp_path / "run"
    options = ["--rule", "gin", "--split", "0", "--epochs", "1", "--no-report", "--output", run]
    trained = call("train", "mutag", *options)
    assert trained.status == 0, trained.err
    ended = call("range", run, "--samples", "4", "--output", tmp_path / "range")
    assert ended.status == 0, ended.err
