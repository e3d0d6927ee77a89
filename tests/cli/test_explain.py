"""``mgnni explain``: a training and a node in; tables, a JSON file and a drawing out."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables import QUICK, changed, edge_rows, node_rows, write_graphs, write_nodes
from mgnni.cli.explain_output import show_explanation

Call = Callable[..., Any]  # see conftest.py
CHAINS = ["--option", "length=6", "num_chains_per_class=5", "train_fraction=0.3"]


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings on nodes and graphs in tables, and on a benchmark by another model."""
    folder = tmp_path_factory.mktemp("trained")
    write_nodes(folder / "mine")
    write_graphs(folder / "many")
    for data, *options in (
        (folder / "mine", "--directed", "false"),
        (folder / "many",),
        ("chains", *CHAINS, "--model", "gcn"),
    ):
        output = folder / f"{Path(data).name}-run"
        ended = call("train", data, *QUICK, *options, "--no-report", "--output", output)
        assert ended.status == 0, ended.err
    return folder


def test_a_node_is_explained_by_its_id(call: Call, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "explained"
    args = ["explain", trained / "mine-run", "n07", "--top", "3", "--output", out]
    ended = call(*args)
    assert (ended.status, ended.err) == (0, "")
    assert "node n07 of mine, label red: predicted" in ended.out
    assert "Completeness gap" in ended.out
    assert "Propagation: exact, by the resolvent." in ended.out
    assert (out / "explanation.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((out / "explanation.json").read_text())
    assert (found["target"], found["label"], len(found["nodes"])) == ("n07", "red", 3)
    change = found["output"] - found["baseline_output"]
    assert sum(found["paths"].values()) == pytest.approx(change)
    assert sum(one["contribution"] for one in found["hops"]) == pytest.approx(change)
    assert [one["feature"] for one in found["features"]] in (["a", "b"], ["b", "a"])
    assert sum(one["contribution"] for one in found["features"]) == pytest.approx(change)
    near = {"n06": 1, "n08": 1, "n04": 1, "n10": 1, "n07": 0}
    for one in found["nodes"]:
        assert one["label"] == "red"
        assert one["hops"] == near.get(one["id"], 2)
        assert one["id"] in ended.out

    again = call(*args)
    assert again.status == 2
    assert "explanation.json exists; pass --overwrite" in again.err
    options = ["--class", "blue", "--against", "red", "--json", "--overwrite"]
    other = json.loads(call(*args, *options).out)
    assert (other["class"], other["against"]) == ("blue", "red")
    refused = call(*args, "--against", found["predicted"], "--overwrite")
    assert (refused.status, refused.out) == (2, "")
    expected = "--against must be another class than the explained one (got the same one); name"
    assert expected in refused.err
    assert other["probability"] + found["probability"] == pytest.approx(
        1.0 if found["class"] == "red" else 2 * found["probability"]
    )


def test_data_that_have_moved_are_found_again(call: Call, tmp_path: Path) -> None:
    write_nodes(tmp_path / "mine")
    run, new = tmp_path / "run", tmp_path / "elsewhere"
    ended = call("train", tmp_path / "mine", *QUICK, "--no-report", "--output", run)
    assert ended.status == 0, ended.err
    command = ("explain", run, "n07", "--json", "--overwrite", "--output", tmp_path / "out")
    before = json.loads(call(*command).out)
    (tmp_path / "mine").rename(new)
    ended = call(*command)
    assert (ended.status, ended.out) == (2, "")
    assert "no such file or folder); restore it, or say with --data where it is now" in ended.err
    after = json.loads(call(*command, "--data", new).out)
    assert after == {**before, "data": "elsewhere"}

    write_nodes(tmp_path / "other", node_rows(20), edge_rows(20))
    for refuses in (("export", run), ("range", run, "--output", tmp_path / "range")):
        assert call(*refuses, "--data", new).status == 0
        shutil.rmtree(tmp_path / "range", ignore_errors=True)
        ended = call(*refuses, "--data", tmp_path / "other")
        assert (ended.status, ended.out) == (2, "")
        assert "24 nodes and 48 edges (got 20 and 40); give the data of the training" in ended.err
    ended = call(*command, "--data", tmp_path / "none")
    assert (ended.status, "check --data" in ended.err) == (2, True)


def test_a_node_of_new_data_is_explained(call: Call, trained: Path, tmp_path: Path) -> None:
    """The prediction that is explained is that of mgnni predict, and a note says what was read."""
    rows = [row.replace("n", "m", 1) for row in node_rows(20, labels=False, splits=False)[1:]]
    edges = [row.replace("n", "m") for row in edge_rows(20)[1:]]
    new = write_nodes(tmp_path / "new", ["id,a,b", *rows], ["source,target", *edges])
    run, table = trained / "mine-run", tmp_path / "new.csv"
    ended = call("explain", run, "m07", "--data", new, "--json", "--output", tmp_path / "out")
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert (found["target"], found["label"], found["data"]) == ("m07", None, "new")
    assert "the model was trained on other data" in found["notes"][0]
    assert call("predict", run, new, "--output", table).status == 0
    with table.open() as file:
        rows_of = {row["id"]: row for row in csv.DictReader(file)}
    assert found["predicted"] == rows_of["m07"]["prediction"]
    assert found["probability"] == pytest.approx(float(rows_of["m07"][f"p_{found['class']}"]))
    ended = call("explain", run, "n07", "--data", new, "--output", tmp_path / "no")
    assert (ended.status, "one of the 20 nodes of new" in ended.err) == (2, True)


def test_a_class_may_have_any_name(call: Call, tmp_path: Path) -> None:
    rows = [row.replace("red", "None").replace("blue", "others") for row in node_rows()]
    write_nodes(tmp_path / "mine", rows)
    run = tmp_path / "run"
    ended = call("train", tmp_path / "mine", *QUICK, "--no-report", "--output", run)
    assert ended.status == 0, ended.err
    for one, other in (("None", "others"), ("others", "None")):
        output = tmp_path / one
        ended = call(
            *("explain", run, "n07", "--class", one, "--against", other, "--json"),
            *("--output", output),
        )
        found = json.loads(ended.out)
        assert (found["class"], found["against"]) == (one, other)


def test_options_of_a_benchmark_are_refused_for_files(
    call: Call, trained: Path, tmp_path: Path
) -> None:
    for command, *node in (("explain", "n07"), ("export",)):
        output = tmp_path / f"{command}.pt2"
        ended = call(command, trained / "mine-run", *node, "--option", "a=1", "--output", output)
        assert (ended.status, ended.out, output.exists()) == (2, "", False)
        assert "--option is for a benchmark (got a training on the files" in ended.err


def test_a_label_that_is_not_predicted_is_not_called_predicted(call: Call, tmp_path: Path) -> None:
    rows = ["id,a,l1,l2", *(f"n{i:02d},{i % 5},{int(i == 0)},{int(i == 1)}" for i in range(24))]
    write_nodes(tmp_path / "several", rows)
    run, quick = tmp_path / "run", ("--model", "mlp", "--epochs", "30", "--no-report")
    ended = call("train", tmp_path / "several", "--label", "l1", "l2", *quick, "--output", run)
    assert ended.status == 0, ended.err
    assert call("predict", run, tmp_path / "several").status == 0
    written = [line.split(",") for line in (run / "predictions.csv").read_text().splitlines()]
    assert written[4][:2] == ['"n03"', '""']
    ended = call("explain", run, "n03", "--class", "l2", "--output", tmp_path / "out")
    assert (ended.status, ended.err) == (0, "")
    assert "node n03 of several: predicted not l2, probability 0." in ended.out
    found = json.loads((tmp_path / "out" / "explanation.json").read_text())
    assert (found["class"], found["predicted"]) == ("l2", None)


def test_a_benchmark_cannot_move(call: Call, trained: Path, tmp_path: Path) -> None:
    ended = call("explain", trained / "chains-run", "3", *CHAINS, "--data", tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "--data is for a training on files (got one on the benchmark chains)" in ended.err


def test_a_graph_is_explained_by_its_nodes(call: Call, trained: Path, tmp_path: Path) -> None:
    args = ["explain", trained / "many-run", "g3", "--output", tmp_path / "explained"]
    ended = call(*args)
    assert (ended.status, ended.err) == (0, "")
    assert "graph g3 of many" in ended.out
    assert "hops" not in ended.out
    assert (tmp_path / "explained" / "explanation.png").stat().st_size > 10_000


def test_nodes_of_a_graph_have_the_ids_of_the_files(call: Call, tmp_path: Path) -> None:
    """Also if the rows of a graph are not next to one another."""
    write_graphs(tmp_path / "many")
    nodes = (tmp_path / "many" / "nodes.csv").read_text().splitlines()
    mine = [row.split(",") for row in nodes if ",g3," in row]
    nodes = [f"{row},{int(row.startswith(mine[1][0] + ','))}" for row in nodes[1:]]
    order = [*nodes[::2], *nodes[1::2]]
    (tmp_path / "many" / "nodes.csv").write_text("\n".join(["id,graph,a,own", *order]) + "\n")
    run, out = tmp_path / "run", tmp_path / "out"
    assert call("train", tmp_path / "many", *QUICK, "--no-report", "--output", run).status == 0
    found = json.loads(call("explain", run, "g3", "--json", "--output", out).out)
    by_id = {one["id"]: one["features"] for one in found["nodes"]}
    assert set(by_id) == {node for node, *_ in mine}
    assert [node for node, one in by_id.items() if one.get("own")] == [mine[1][0]]


def test_changed_files_of_the_same_size_are_noted(call: Call, tmp_path: Path) -> None:
    write_nodes(tmp_path / "mine")
    run = tmp_path / "run"
    ended = call("train", tmp_path / "mine", *QUICK, "--no-report", "--output", run)
    assert ended.status == 0, ended.err
    commands = (
        ("explain", run, "n07", "--overwrite", "--output", tmp_path / "out"),
        ("export", run),
    )
    for command in commands:
        ended = call(*command)
        assert (ended.status, "have changed" in ended.out + ended.err) == (0, False)
    write_nodes(tmp_path / "other", changed(node_rows(), 7, 1, "0.77"))
    for command in commands:
        ended = call(*command, "--data", tmp_path / "other")
        assert ended.status == 0, ended.err
        said = " ".join((ended.out + ended.err).split())
        assert "the files have changed since the training" in said


def test_names_are_drawn_as_they_are(call: Call, tmp_path: Path) -> None:
    """Between two dollar signs, matplotlib reads mathematics; its font has no Chinese."""
    for number, name in enumerate(("$\\frac$", "\u5f20\u4f1f")):
        rows = [row.replace("n07", f"{name}7").replace(",a,", f",{name},") for row in node_rows()]
        edges = [row.replace("n07", f"{name}7") for row in edge_rows()]
        write_nodes(tmp_path / f"mine{number}", rows, edges)
        run, out = tmp_path / f"run{number}", tmp_path / f"out{number}"
        data = tmp_path / f"mine{number}"
        assert call("train", data, *QUICK, "--no-report", "--output", run).status == 0
        ended = call("explain", run, f"{name}7", "--output", out)
        assert (ended.status, ended.err) == (0, "")
        assert (out / "explanation.png").read_bytes().startswith(b"\x89PNG")


def test_a_benchmark_is_explained_by_index_without_labels_of_the_test_set(
    call: Call, trained: Path, tmp_path: Path
) -> None:
    run = trained / "chains-run"
    args = ["explain", run, "2", *CHAINS, "--output", tmp_path / "explained", "--json"]
    ended = call(*args, "--steps", "8")
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert list(found["paths"]) == ["model"]
    assert not found["exact_propagation"]
    assert {one["hops"] for one in found["nodes"]} <= {0, 1, 2}  # two layers
    from mgnni.data.registry import load_task

    task = load_task("chains", length=6, num_chains_per_class=5, train_fraction=0.3)
    tested = set(task.rows(0, "test").tolist())
    assert all(one["label"] is None for one in found["nodes"] if one["id"] in tested)
    without = call("explain", run, "2", "--output", tmp_path / "other")
    assert without.status == 2
    assert "repeat the --option of the training" in without.err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mine-run", "n99"], "NODE must be the id of one of the 24 nodes of mine (got 'n99')"),
        (["mine-run", "n07", "--class", "green"], "--class must be a class of the training"),
        (["mine-run", "n07", "--against", "green"], "it has blue, red, others"),
        (["mine-run", "n07", "--class", "red", "--against", "red"], "--against must be another"),
        (["mine-run", "n07", "--baseline", "median"], "--baseline must be one of"),
        (["mine-run", "n07", "--steps", "0"], "--steps must be"),
        (["mine-run", "n07", "--top", "0"], "--top must be at least 1"),
        (["mine-run", "n07", "--run-number", "5"], "--run-number must lie between 0 and 0"),
        (["mine", "n07"], "RUN must be the output folder of a complete training"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(
    call: Call, trained: Path, tmp_path: Path, args: list[str], message: str
) -> None:
    ended = call("explain", trained / args[0], *args[1:], "--output", tmp_path / "explained")
    assert ended.status == 2
    assert message in ended.err
    assert not (tmp_path / "explained").exists()


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_numbers_of_any_size_are_readable(call: Call, tmp_path: Path, unit: float) -> None:
    rows = node_rows(splits=False, labels=False)
    rows = [f"{rows[0]},y", *(f"{row},{unit * (place + 1)}" for place, row in enumerate(rows[1:]))]
    write_nodes(tmp_path / "mine", rows)
    given = ("--task", "regression", "--model", "gcn", "--epochs", "3", "--no-report")
    run = tmp_path / "run"
    assert call("train", tmp_path / "mine", *given, "--output", run).status == 0
    ended = call("explain", run, "n07", "--output", tmp_path / "out")
    assert ended.status == 0, ended.err
    found = json.loads((tmp_path / "out" / "explanation.json").read_text())
    shown = ended.out.split("mostly through its features")[1].splitlines()[2].split()[2]
    assert float(shown) == pytest.approx(found["nodes"][0]["contribution"], rel=1e-2, abs=0)
    assert len(shown) < 12


def test_a_threshold_explains_why_the_less_probable_class_is_predicted(
    call: Call, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("explain", trained / "mine-run", "n07", "--output", tmp_path / "out").status == 0
    found = json.loads((tmp_path / "out" / "explanation.json").read_text())
    assert found["threshold"] is None  # the metric is accuracy
    found |= {"class": found["predicted"], "probability": 0.2, "output": 285822.0754}
    show_explanation(found)
    assert "threshold" not in capsys.readouterr().out
    show_explanation({**found, "threshold": 0.1})
    shown = " ".join(capsys.readouterr().out.split())
    assert "is predicted from a probability of 0.1, the threshold" in shown
    assert "285822.1," in shown
