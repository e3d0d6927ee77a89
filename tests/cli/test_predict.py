"""``mgnni predict`` from the outside: one row per node, in the order of the file."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from cli.tables import (
    PARTS,
    QUICK,
    changed,
    edge_rows,
    node_rows,
    write,
    write_graphs,
    write_nodes,
)
from mgnni.train.fitted import Fitted
from mgnni.train.source import find_source

Call = Callable[..., Any]  # see conftest.py


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on nodes, one on graphs, one on a benchmark."""
    folder = tmp_path_factory.mktemp("trained")
    write_nodes(folder / "mine", node_rows(splits=False))
    write_graphs(folder / "many")
    for data, *options in (
        (
            folder / "mine",
            "--num-splits",
            "2",
            "--epochs",
            "100",
            "--lr",
            "0.05",
            "--scales",
            "1",
            "3",
        ),
        (folder / "many",),
        ("chains", "--option", "length=12", "--hidden-channels", "none"),
    ):
        output = folder / f"{Path(data).name}-run"
        assert call("train", data, *QUICK, *options, "--output", output).status == 0
    return folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path: str | Path) -> dict[str, list[Any]]:
    parquet = str(path).endswith(".parquet")
    read = pyarrow.parquet.read_table if parquet else pyarrow.csv.read_csv
    found: dict[str, list[Any]] = read(path).to_pydict()
    return found


def checked(
    rows: Mapping[str, list[Any]], classes: list[str], scales: list[int], *known: str
) -> None:
    """Columns, and that parts of a whole sum to one."""
    p, m = [f"p_{name}" for name in classes], [f"scale_{scale}" for scale in scales]
    assert list(rows) == ["id", "prediction", *known, *p, *m]
    for names in (p, m):
        parts = np.array([rows[name] for name in names])
        assert (parts >= 0).all()
        assert parts.sum(0) == pytest.approx(1, abs=1e-5)
    best = np.array([rows[name] for name in p]).argmax(0)
    assert rows["prediction"] == [classes[index] for index in best]


def test_the_nodes_it_was_trained_on(call: Call, trained: Path) -> None:
    ended = call("predict", trained / "mine-run", trained / "mine")
    assert (ended.status, ended.err) == (0, "")
    rows = table(trained / "mine-run" / "predictions.csv")
    assert rows["id"] == [f"n{i:02d}" for i in range(24)]
    checked(rows, ["blue", "red"], [1, 3], "label", "split")
    assert rows["label"] == ["red"] * 12 + ["blue"] * 12
    fitted = Fitted.load(trained / "mine-run")
    split = find_source(trained / "mine", num_splits=2).task.splits[fitted.runs[fitted.best].split]
    for part in ("train", "val", "test"):
        assert [i for i, word in enumerate(rows["split"]) if word == part] == (
            split.part(part).tolist()
        )
    expected = fitted.predict_proba(trained / "mine")
    assert torch.tensor([rows["p_blue"], rows["p_red"]]).T == pytest.approx(expected, abs=1e-6)
    # A hundred epochs suffice for two colours that a feature gives away.
    right = [a == b for a, b in zip(rows["prediction"], ["red"] * 12 + ["blue"] * 12, strict=True)]
    assert sum(right) >= 20

    shown = " ".join(ended.out.split())
    run = fitted.runs[fitted.best]
    assert f"24 rows by the model of split {run.split}, seed 0, best of 2 on validation" in shown
    count = Counter(rows["prediction"])
    assert all(f"{count[name]} {name}" in shown for name in ("red", "blue"))
    assert "note: 24 nodes, 48 edges" in shown


def test_the_data_of_the_training_are_known_wherever_they_are(
    call: Call, trained: Path, place: Path
) -> None:
    shutil.copytree(trained / "mine", place / "copy")
    for data, output in ((trained / "mine", "old.csv"), ("copy", "new.csv")):
        ended = call("predict", trained / "mine-run", data, "--output", output)
        assert (ended.status, ended.err) == (0, "")
    assert table("new.csv") == table("old.csv")
    assert set(table("new.csv")["split"]) == {"train", "val", "test"}
    nodes = (place / "copy" / "nodes.csv").read_text().splitlines()
    (place / "copy" / "nodes.csv").write_text("\n".join(changed(nodes, 3, 1, "0.77")))
    assert call("predict", trained / "mine-run", "copy", "--output", "other.csv").status == 0
    assert "split" not in table("other.csv")


def test_a_model_of_one_graph_says_which_model_predicts_others(
    call: Call, trained: Path, place: Path
) -> None:
    quick = ("--model", "gmgnni", "--input-map", "graph", "--epochs", "2", "--no-report")
    assert call("train", trained / "mine", *quick, "--output", "bound").status == 0
    new = write_nodes(place / "new", node_rows(20), edge_rows(20))
    for command in (("predict", "bound", new), ("explain", "bound", "n07", "--data", new)):
        ended = call(*command)
        assert ended.status == 2
        assert "for other graphs, train with --model gmgnni --input-map mlp (in" in ended.err


def test_other_nodes_without_labels_in_any_order(call: Call, trained: Path, place: Path) -> None:
    """The same nodes upside down and unlabelled have the same predictions."""
    header, *rows = node_rows(labels=False, splits=False)
    write(place / "new", nodes=[header, *reversed(rows)], edges=edge_rows())
    for data, output in ((trained / "mine", "old.csv"), ("new", "new.parquet")):
        assert call("predict", trained / "mine-run", data, "--output", output).status == 0
    old, new = table("old.csv"), table("new.parquet")
    checked(new, ["blue", "red"], [1, 3])
    assert new["id"] == [f"n{i:02d}" for i in reversed(range(24))]
    for name in ("prediction", "p_red", "scale_3"):
        expected = old[name] if name == "prediction" else pytest.approx(old[name], abs=1e-5)
        assert new[name][::-1] == expected


def test_whole_graphs_without_labels(call: Call, trained: Path, place: Path) -> None:
    write_graphs(place / "new", labels=False)
    for data, output in ((trained / "many", "old.csv"), ("new", "new.csv")):
        assert call("predict", trained / "many-run", data, "--output", output).status == 0
    old, new = table("old.csv"), table("new.csv")
    checked(new, ["path", "ring"], [1, 2])
    checked(old, ["path", "ring"], [1, 2], "label", "split")
    assert new["id"] == [f"g{index}" for index in range(16)]
    assert old["label"] == ["path", "ring"] * 8
    assert old["split"] == [PARTS[index // 2 % 4] for index in range(16)]
    assert new == {name: old[name] for name in new}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_keep_their_type(call: Call, place: Path, suffix: str) -> None:
    """Whole numbers stay whole numbers, and leading zeros stay text."""
    for name, make in (("numbers", lambda i: str(3 * i)), ("codes", lambda i: f"{i:03d}")):
        header, *rows = node_rows()
        nodes = [header, *(f"{make(i)},{row.split(',', 1)[1]}" for i, row in enumerate(rows))]
        head, *pairs = edge_rows()
        ends = ((int(a[1:]), int(b[1:])) for a, b in (pair.split(",") for pair in pairs))
        edges = [head, *(f"{make(a)},{make(b)}" for a, b in ends)]
        write(place / name, nodes=nodes, edges=edges)
        assert call("train", name, *QUICK).status == 0
        output = f"{name}{suffix}"
        assert call("predict", f"runs/{name}", name, "--output", output).status == 0
    assert table(f"numbers{suffix}")["id"] == [3 * i for i in range(24)]
    if suffix == ".parquet":  # a CSV file says nothing of types, but quotes what is text
        assert table("codes.parquet")["id"] == [f"{i:03d}" for i in range(24)]
    else:
        first = (place / "codes.csv").read_text().splitlines()[1].split(",")[0]
        assert first == '"000"'


def test_json_is_alone_on_standard_output(call: Call, trained: Path) -> None:
    ended = call("predict", trained / "mine-run", trained / "mine", "--json")
    assert (ended.status, ended.err) == (0, "")
    summary = json.loads(ended.out)
    output = trained / "mine-run" / "predictions.csv"
    count = Counter(table(output)["prediction"])
    assert summary["predicted"] == {name: count[name] for name in ("blue", "red")}
    assert (summary["rows"], summary["output"]) == (24, str(output))


def test_a_run_is_chosen_by_its_number(call: Call, trained: Path) -> None:
    # After three epochs the probabilities of the runs are neither zero nor one.
    assert call("train", trained / "mine", *QUICK, "--num-splits", "2").status == 0
    fitted = Fitted.load("runs/mine")
    number = 1 - fitted.best  # not the run that is used by default
    expected = fitted.predict_proba(trained / "mine", run=number)
    assert (expected - fitted.predict_proba(trained / "mine")).abs().max() > 1e-3
    command = ("predict", "runs/mine", trained / "mine", "--json", "--run-number", str(number))
    summary = json.loads(call(*command).out)
    assert (summary["split"], summary["seed"], summary["best_of"]) == (number, 0, 1)
    found = table("runs/mine/predictions.csv")["p_red"]
    assert found == pytest.approx(expected[:, 1].tolist(), abs=1e-6)


def test_a_table_is_replaced_only_if_asked(call: Call, trained: Path, place: Path) -> None:
    command = ("predict", trained / "mine-run", trained / "mine")
    (place / "own.csv").write_text("mine")
    assert call(*command, "--output", "own.csv").status == 1
    assert (place / "own.csv").read_text() == "mine"
    assert call(*command, "--output", "own.csv", "--overwrite").status == 0
    assert len(table("own.csv")["id"]) == 24
    for _ in range(2):  # the table beside the model does not block the next prediction
        assert call(*command).status == 0
    assert [path.name for path in place.iterdir()] == ["own.csv"]


def test_changed_data_have_labels_and_no_split(call: Call, trained: Path, place: Path) -> None:
    """The column of splits is that of the training, or there is none."""
    write_nodes(place / "mine", node_rows(splits=False))
    assert call("train", "mine", *QUICK, "--no-report").status == 0
    (place / "mine" / "edges.csv").write_text("\n".join(edge_rows()[:-1]) + "\n")
    assert call("predict", "runs/mine", "mine", "--threshold", "0.5").status == 0
    checked(table("runs/mine/predictions.csv"), ["blue", "red"], [1, 2], "label")
    assert call("predict", "runs/mine", trained / "mine", "--threshold", "0.5").status == 0
    rows = table("runs/mine/predictions.csv")  # those of the training, at another place
    checked(rows, ["blue", "red"], [1, 2], "label", "split")


def test_another_delimiter_than_in_training(call: Call, trained: Path, place: Path) -> None:
    """The same nodes between semicolons have the same predictions."""
    rows = [row.replace(",", ";") for row in node_rows(splits=False)]
    write(place / "new", nodes=rows, edges=[row.replace(",", ";") for row in edge_rows()])
    ended = call("predict", trained / "mine-run", "new")
    assert ended.status == 1
    assert "is the delimiter ';'? then pass --delimiter ';' to mgnni predict" in ended.err
    command = ("predict", trained / "mine-run", "new", "--delimiter", ";", "--output", "new.csv")
    assert call(*command).status == 0
    assert call("predict", trained / "mine-run", trained / "mine", "--output", "a.csv").status == 0
    assert table("new.csv")["p_red"] == table("a.csv")["p_red"]
    ended = call("predict", trained / "chains-run", "chains", "--delimiter", ";")
    assert (ended.status, "--delimiter is for files" in ended.err) == (2, True)


NODES, EDGES = node_rows(splits=False), edge_rows()


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([NODES[0].replace("id", "key"), *NODES[1:]], EDGES),
        ([*NODES, NODES[1]], EDGES),
        ([*NODES, NODES[1].replace("n00", "")], EDGES),
        (NODES, [EDGES[0].replace("source", "src"), *EDGES[1:]]),
        (NODES, [EDGES[0].replace("target", "to"), *EDGES[1:]]),
        (NODES, [row + (",2" if i else ",weight") for i, row in enumerate(EDGES)]),
        ([row.rsplit(",", 2)[0] for row in NODES], EDGES),
        ([NODES[0], *(row.replace(".", ",", 1) for row in NODES[1:])], EDGES),
    ],
    ids=["id", "twice", "no-id", "source", "target", "weight", "feature", "comma"],
)
def test_advice_names_options_that_it_has(
    call: Call, trained: Path, place: Path, nodes: list[str], edges: list[str]
) -> None:
    """Options that give columns another meaning belong to a training."""
    own = set(re.findall(r"--[a-z-]+", call("predict", "--help").out))
    assert "--output" in own
    assert "--id" not in own
    write(place / "new", nodes=nodes, edges=edges)
    ended = call("predict", trained / "mine-run", "new", "--output", "new.csv")
    named = set(re.findall(r"--[a-z-]+", ended.out + ended.err))
    assert named <= own, ended


def test_edges_listed_once_after_an_undirected_training(call: Call, place: Path) -> None:
    header, *rows = edge_rows()
    both = [header, *rows, *(",".join(reversed(row.split(","))) for row in rows)]
    write_nodes(place / "both", edges=both)
    write_nodes(place / "once")
    assert call("train", "both", *QUICK, "--no-report", "--output", "run").status == 0
    warning = "the training graph was undirected, but not every edge of this one has its reverse"
    ended = call("predict", "run", "once", "--output", "once.csv")
    assert ended.status == 0
    assert f"warning: {warning}" in " ".join(ended.out.split())
    summary = json.loads(call("predict", "run", "once", "--json", "--output", "json.csv").out)
    assert [text[: len(warning)] for text in summary["warnings"]] == [warning]
    ended = call("predict", "run", "both", "--output", "both.csv")
    assert (ended.status, "warning" in ended.out) == (0, False)
    assert table("once.csv")["p_red"] != pytest.approx(table("both.csv")["p_red"], abs=1e-3)
    # As the warning advises: trained again, the model reads both alike.
    again = ("train", "both", *QUICK, "--no-report", "--directed", "false", "--output", "again")
    assert call(*again).status == 0
    for name in ("both", "once"):
        ended = call("predict", "again", name, "--output", f"{name}.csv", "--overwrite")
        assert (ended.status, "warning" in ended.out) == (0, False)
    assert table("once.csv")["p_red"] == pytest.approx(table("both.csv")["p_red"], abs=1e-5)


def test_a_single_row(call: Call, trained: Path, place: Path) -> None:
    header, *rows = node_rows(labels=False, splits=False)
    write(place / "one", nodes=[header, rows[0]], edges=["source,target"])
    ended = call("predict", trained / "mine-run", "one", "--output", "one.csv")
    assert ended.status == 0
    assert "\n  1 row by the model" in ended.out


def test_a_negative_weight(call: Call, place: Path) -> None:
    header, *rows = edge_rows()
    for name, weight in (("good", 2), ("bad", -2)):
        edges = [f"{header},weight", *(f"{row},1" for row in rows[1:]), f"{rows[0]},{weight}"]
        write_nodes(place / name, edges=edges)
    sign = "encode the sign as a feature"
    assert sign in call("train", "bad", *QUICK).err
    assert call("train", "good", *QUICK, "--no-report").status == 0
    ended = call("predict", "runs/good", "bad")
    assert "must not be negative (got '-2')" in ended.err
    assert "; remove the edge" in ended.err
    assert sign not in ended.err


def test_a_threshold_is_for_classes(call: Call, place: Path) -> None:
    write_nodes(place / "mine")
    train = ("train", "mine", *QUICK, "--task", "regression", "--label", "b", "--no-report")
    assert call(*train).status == 0
    ended = call("predict", "runs/mine", "mine", "--threshold", "0.3")
    assert ended.status == 2
    assert "--threshold is for two classes (got a model of numbers); leave it out" in ended.err


def test_swapped_arguments_are_noticed(call: Call, trained: Path) -> None:
    ended = call("predict", trained / "mine", trained / "mine-run")
    assert (ended.status, ended.out) == (2, "")
    assert (
        f"swap the arguments: mgnni predict {trained / 'mine-run'} {trained / 'mine'}" in ended.err
    )


def test_a_benchmark_with_the_options_of_its_training(call: Call, trained: Path) -> None:
    command = ("predict", trained / "chains-run", "Chains", "--option", "length=12")
    assert call(*command).status == 0
    rows = table(trained / "chains-run" / "predictions.csv")
    assert len(rows["id"]) % 12 == 0
    assert rows["id"] == list(range(len(rows["id"])))
    assert set(rows["split"]) >= {"train", "val", "test"}
    assert call("predict", trained / "chains-run", "chains", "--option", "length=9").status == 0
    assert "split" not in table(trained / "chains-run" / "predictions.csv")


def test_the_model_file_is_as_good_as_its_folder(call: Call, trained: Path) -> None:
    data = trained / "many"
    for model, output in (("many-run", "a.csv"), ("many-run/model.pt", "b.csv")):
        assert call("predict", trained / model, data, "--output", output).status == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_many_classes_are_summed_up(call: Call, place: Path) -> None:
    header, *rows = node_rows(60)
    named = [f"{row.rsplit(',', 2)[0]},c{i % 30:02d},train" for i, row in enumerate(rows)]
    for i in (0, 1):
        named[i] = named[i].replace("train", "val" if i else "test")
    write(place / "mine", nodes=[header, *named], edges=edge_rows(60))
    assert call("train", "mine", *QUICK, "--epochs", "1").status == 0
    ended = call("predict", "runs/mine", "mine")
    assert ended.status == 0
    found = [re.fullmatch(r" +(\d+)  c\d\d", line) for line in ended.out.splitlines()]
    counts = [int(match[1]) for match in found if match]
    assert len(counts) == 20
    assert counts == sorted(counts, reverse=True)
    assert "and 10 less frequent classes\n" in ended.out


def test_the_generalised_model_predicts_with_a_weight_for_each_state(
    call: Call, trained: Path
) -> None:
    data = trained / "mine"
    train = ("train", data, *QUICK, "--model", "gmgnni", "--scales", "1", "3", "--no-report")
    assert call(*train, "--output", "concat").status == 0
    ended = call("predict", "concat", data, "--output", "concat.csv")
    assert ended.status == 0, ended.err
    assert not any(name.startswith("scale") for name in table("concat.csv"))  # it weighs nothing
    assert call(*train, "--fusion", "attention", "--output", "weighs").status == 0
    assert call("predict", "weighs", data, "--output", "weighs.csv").status == 0
    found = {k: v for k, v in table("weighs.csv").items() if k.startswith("scale_")}
    assert [name[6:] for name in found] == ["1", "3", "1-out", "3-out", "bias"]
    assert np.allclose(sum(np.array(column) for column in found.values()), 1, atol=1e-5)
    ended = call("report", "weighs", "--output", "weighs.html")
    assert ended.status == 0, ended.err


def test_a_model_of_one_graph_refuses_another_of_the_same_size(call: Call, trained: Path) -> None:
    options = (*QUICK, "--model", "gmgnni", "--input-map", "graph", "--no-report")
    assert call("train", trained / "mine", *options, "--output", "bound").status == 0
    ended = call("predict", "bound", trained / "mine", "--output", "same.csv")
    assert ended.status == 0, ended.err
    other = write_nodes(Path("other").resolve(), edges=[*edge_rows()[:-1], "n00,n20"])
    ended = call("predict", "bound", other, "--output", "other.csv")
    assert ended.status == 2
    assert "must be the graph of the training" in ended.err
    assert "train with" in ended.err
    assert not Path("other.csv").exists()
