"""``mgnni train`` from the outside: what is printed, what is saved, and interruptions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch

from cli.tables import QUICK, node_rows, write_nodes
from mgnni.cli.arguments import UsageError
from mgnni.cli.data import benchmark_options, check_data
from mgnni.cli.progress import Clock
from mgnni.cli.terminal import solver_line
from mgnni.cli.train import Train
from mgnni.data.catalog import ENTRIES
from mgnni.data.registry import load_task
from mgnni.data.storage import data_root
from mgnni.data.task import all_labels
from mgnni.train.config import Config, ModelConfig
from mgnni.train.presets import preset_for

Call = Callable[..., Any]  # see conftest.py
pytestmark = pytest.mark.usefixtures("place")


def report_of(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return loaded


def lasting(report: dict[str, Any], *but: str) -> dict[str, Any]:
    """Return what does not depend on the time."""
    return {
        key: value for key, value in report.items() if key not in ("seconds", "peak_memory", *but)
    }


def rounded(value: Any) -> Any:
    """Return plain data without the last digits of probabilities."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_folder_of_tables(call: Call, place: Path) -> None:
    ended = call("train", "mine", *QUICK)
    assert (ended.status, ended.err) == (0, "")
    folder = place / "runs" / "mine"
    kept = {path.name for path in folder.iterdir()} - {".lock"}
    results = {"log.jsonl", "model.pt", "report.json", "report.html"}
    assert kept == {"config.json", "state.pt", *results}
    report, shown = report_of(folder), words(ended.out)
    (run,) = report["runs"]
    assert (run["epochs"], report["score"]["n"], report["data"]["nodes"]) == (3, 1, 24)
    # The six test nodes are in the table: a score is a multiple of 1/6.
    assert report["score"]["mean"] * 6 == pytest.approx(round(report["score"]["mean"] * 6))
    score = f"{100 * report['score']['mean']:.2f}"
    assert f"mine: test accuracy {score} % (one run)" in shown
    val = f"{100 * run['val']['accuracy']:.2f}"
    row = f"0 0 3 {run['best_epoch']} {val} {score}"
    assert f"split seed epochs chosen epoch validation % test % {'─' * 61} {row} " in shown
    assert "by rule validation: test metric at the epoch chosen on validation data" in shown
    solver = report["solver"]
    assert f"{solver['forward']['solves'] + solver['backward']['solves']} equations" in shown
    for note in report["data"]["notes"]:
        assert f"note: {words(note)}" in shown
    assert re.search(r"Saved model\.pt, report\.json and log\.jsonl after \d s: runs/mine", shown)
    assert ended.out.endswith("  Next: mgnni predict runs/mine mine\n")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "None" not in ended.out
    assert len((folder / "log.jsonl").read_text().splitlines()) == 3


def test_whole_graphs_without_splits(call: Call, place: Path) -> None:
    graphs = place / "many" / "graphs.csv"
    rows = [row.rsplit(",", 1)[0] for row in graphs.read_text().splitlines()]
    graphs.write_text("\n".join(rows) + "\n")
    ended = call("train", "many", *QUICK, "--num-splits", "2", "--output", "out")
    assert ended.status == 0
    report = report_of(place / "out")
    assert report["data"]["level"] == "graph"
    assert [run["split"] for run in report["runs"]] == [0, 1]
    spread = f"{100 * report['score']['mean']:.2f} ± {100 * report['score']['std']:.2f} %"
    assert f"many: test accuracy {spread} (mean ± standard deviation of 2 runs)" in words(ended.out)
    assert "no splits in the data: 2 drawn at random" in words(ended.out)


@pytest.mark.parametrize(("option", "verb"), [("--num-splits", "is"), ("--folds", "are")])
def test_splits_are_not_drawn_for_data_with_splits(
    call: Call, place: Path, option: str, verb: str
) -> None:
    ended = call("train", "mine", *QUICK, option, "3", "--output", "out")
    assert (ended.status, ended.out) == (2, "")
    reason = f"{option} {verb} for data without splits (got 3 for mine, which has 1); leave it out"
    assert reason in ended.err
    assert not (place / "out").exists()
    ended = call("train", "mine", *QUICK, "--num-splits", "1", "--no-report", "--output", "out")
    assert ended.status == 0  # the default asks for nothing


def test_arrays_and_pyg_objects_in_files(call: Call, place: Path) -> None:
    """A circle of two colours, in a file of either kind, is the same task."""
    count = 20
    here = torch.arange(count)
    edges = torch.stack(
        [torch.cat([here, (here + 1) % count]), torch.cat([(here + 1) % count, here])]
    )
    data = {"x": torch.eye(count), "edge_index": edges, "y": (here < 10).long()}
    data |= {f"{part}_mask": here % 4 == i for i, part in enumerate(("train", "val", "test"))}
    torch.save(data, place / "circle.pt")
    np.savez(place / "circle.npz", **{name: value.numpy() for name, value in data.items()})
    reports = []
    for suffix in ("pt", "npz"):
        ended = call("train", f"circle.{suffix}", *QUICK, "--json", "--output", suffix)
        assert ended.status == 0, ended.err
        reports.append(json.loads(ended.out))
    assert reports[0]["data"]["nodes"] == 20
    assert reports[0]["dataset"] == "circle"
    assert lasting(reports[0], "input") == lasting(reports[1], "input")
    assert call("predict", "pt", "circle.npz").status == 0


def test_a_name_is_shown_as_it_is(call: Call, place: Path) -> None:
    """Brackets are no markup, and spaces are quoted."""
    (place / "mine").rename(place / "my [bold]graph")
    ended = call("train", "my [bold]graph", *QUICK, "--output", "my run")
    assert ended.status == 0
    assert "my [bold]graph: test accuracy" in ended.out
    assert ended.out.endswith("  Next: mgnni predict 'my run' 'my [bold]graph'\n")


@pytest.mark.parametrize(("rule", "mark"), [("fold-max", "†"), ("test-max", "†"), ("gin", "‡")])
def test_a_rule_that_looks_at_test_data_is_marked(call: Call, rule: str, mark: str) -> None:
    ended = call("train", "mine", *QUICK, "--rule", rule)
    assert ended.status == 0
    shown = words(ended.out)
    assert re.search(rf"test accuracy [\d.]+ %{mark} ", shown)
    assert re.search(rf"[\d.]+{mark} mine: ", shown), "in the table too"
    assert f"by rule {rule}: " in shown
    assert f"{mark} chosen with the labels it is tested on: no estimate for new data" in shown
    assert shown.count(mark) == 3
    other, sign = ("fold-max", "†") if rule == "gin" else ("gin", "‡")
    assert re.search(rf"by other rules: validation [\d.]+ %, {other} [\d.]+ %{sign} train", shown)
    assert re.search(r"train / val / test: \d+ / \d+ / \d+ labelled nodes", shown)


def test_json_is_the_report_and_nothing_else(call: Call, place: Path) -> None:
    ended = call("train", "mine", *QUICK, "--json", "--directed", "true", "--output", "out")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == (place / "out" / "report.json").read_text(encoding="utf-8")
    assert json.loads(ended.out)["command"] == "train"


def test_a_finished_training_is_shown_again_and_not_repeated(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call("train", "mine", *QUICK)

    def no_epoch(*_: object) -> None:
        raise RuntimeError("a training goes on that was complete")

    monkeypatch.setattr("mgnni.train.training.Training.epochs", no_epoch)
    before = {path: path.read_bytes() for path in (place / "runs" / "mine").iterdir()}
    again = call("train", "mine", *QUICK, "--resume")
    assert (again.status, again.err) == (0, "")
    table = first.out.partition("  Saved")[0].partition("  split")[2]
    assert again.out.partition("  Saved")[0].partition("  split")[2] == table != ""
    assert "before: nothing was left to train" in again.out
    assert {path: path.read_bytes() for path in (place / "runs" / "mine").iterdir()} == before
    as_json = call("train", "mine", *QUICK, "--resume", "--json")
    assert as_json.out == (place / "runs" / "mine" / "report.json").read_text(encoding="utf-8")


def test_one_by_one_is_the_same(call: Call, place: Path) -> None:
    write_nodes(place / "whole", node_rows(splits=False))
    runs = ("train", "whole", *QUICK, "--num-splits", "2", "--seeds", "0", "3")
    assert call(*runs, "--output", "one").status == 0
    assert call(*runs, "--output", "other", "--one-by-one").status == 0
    one, other = report_of(place / "one"), report_of(place / "other")
    assert (one["together"], other["together"]) == (True, False)
    assert len(one["runs"]) == 4
    assert rounded(lasting(one, "together", "solver")) == rounded(
        lasting(other, "together", "solver")
    )
    for direction in ("forward", "backward"):
        a, b = one["solver"][direction], other["solver"][direction]
        for key in ("solves", "failures", "solvers", "iterations"):
            assert a[key] == b[key]
        # A residual is a sum of what rounding left; it is measured over other columns at once.
        for key in ("relative_residual", "error_bound", "relative_error_bound"):
            assert a[key] == pytest.approx(b[key], rel=0.5)


@pytest.mark.parametrize("name", ["chains", "colors"])
def test_a_benchmark_with_options(call: Call, place: Path, name: str) -> None:
    option = ("--option", "length=12", "directed=true", "split=chains")
    ended = call("train", name, "--epochs", "3", "--device", "cpu", *option)
    assert ended.status == 0
    report = report_of(place / "runs" / name)
    chains = report["data"]["nodes"] // 12
    assert report["data"]["nodes"] == 12 * chains
    assert report["data"]["edges"] == 11 * chains, "one way"
    assert f"{name}: test accuracy" in ended.out
    following = ended.out.splitlines()[-1].removeprefix("  Next: mgnni ").split()
    assert following == ["predict", f"runs/{name}", name, *option]
    assert call(*following).status == 0


def settings(report: dict[str, Any]) -> dict[str, Any]:
    config = dict(report["config"])
    return {**config.pop("model"), **config}


def test_only_what_is_said_differs_from_the_preset(call: Call, place: Path) -> None:
    """Options that equal the defaults for nodes still override those for graphs."""
    common = ("--model", "mgnni", "--epochs", "2", "--hidden-channels", "4", "--device", "cpu")
    said = ("--dropout", "0.5", "--weight-decay=0.0005", "--no-self-loops", "--patience", "none")
    # The name of a benchmark somewhere on the line is not the data.
    assert call("train", "many", *common, *said, "--output", "texas").status == 0
    found, preset = settings(report_of(place / "texas")), preset_for("", "graph")
    assert preset.model.dropout != Config().model.dropout == 0.5
    assert preset.weight_decay != Config().weight_decay == 5e-4
    assert found == {
        **{key: list(v) if isinstance(v, tuple) else v for key, v in vars(preset.model).items()},
        **{key: value for key, value in vars(preset).items() if key != "model"},
        **{"epochs": 2, "hidden_channels": 4, "dropout": 0.5, "weight_decay": 5e-4},
        **{"self_loops": False, "patience": None},
    }


def test_a_folder_called_like_a_benchmark_has_no_preset(call: Call, place: Path) -> None:
    write_nodes(place / "texas")
    assert call("train", "./texas", *QUICK).status == 0
    found = settings(report_of(place / "runs" / "texas"))
    assert (found["undirected"], found["stopping"]) == (None, "metric")
    assert preset_for("texas").undirected is True


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("name", ["texas", "Chameleon", "ppi", "MUTAG", "chains", "cora"])
def test_defaults_are_those_of_the_benchmark(name: str, preset: str) -> None:
    parser = Train.parser([name, "--preset", preset])
    shown = {one.dest: one.help.rpartition(" (default: ")[2] for one in parser._actions}
    expected = preset_for(name.lower(), "node", preset)
    assert shown["lr"] == f"{expected.lr:g})"
    assert shown["epochs"] == f"{expected.epochs})"
    assert shown["scales"] == f"{' '.join(map(str, expected.model.scales))})"
    assert shown["self_loops"] == ("yes)" if expected.model.self_loops else "no)")
    every = {one.name for cls in (Config, ModelConfig) for one in fields(cls)}
    assert every - {"model", "architecture"} <= set(shown)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, epochs: int) -> None:
    heard = Clock.__call__

    def stop(self: Clock, epoch: Any) -> None:
        heard(self, epoch)
        if self.epochs == epochs:
            raise KeyboardInterrupt

    monkeypatch.setattr(Clock, "__call__", stop)


def test_an_interrupted_training_goes_on(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train", "mine", *QUICK, "--epochs", "6", "--checkpoint-every", "0")
    assert call(*command, "--output", "whole").status == 0
    with monkeypatch.context() as patch:
        interrupt_after(patch, 4)
        ended = call(*command, "--output", "broken")
    assert (ended.status, "test accuracy" in ended.out) == (130, False)
    assert ended.err.startswith("mgnni train: interrupted; broken keeps what was done; ")
    assert "--resume" in ended.err
    assert not (place / "broken" / "report.json").exists()
    ended = call(*command, "--output", "broken", "--resume")
    assert (ended.status, ended.err) == (0, "")
    assert lasting(report_of(place / "broken")) == lasting(report_of(place / "whole"))


def test_resuming_nothing_is_said(call: Call, place: Path) -> None:
    ended = call("train", "mine", *QUICK, "--resume")
    assert (ended.status, ended.out) == (1, "")
    assert "runs/mine: no such folder, so there is nothing to resume; check --output" in ended.err
    assert not (place / "runs").exists()
    (place / "empty").mkdir()
    ended = call("train", "mine", *QUICK, "--resume", "--output", "empty")
    assert ended.status == 0
    assert "empty: no checkpoint to resume from" in ended.err


def test_a_late_failure_keeps_what_was_done(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a checkpoint every 0 seconds; by default an early failure leaves nothing."""

    def fail(self: Clock, epoch: Any) -> None:
        if epoch.epoch == 2:
            raise RuntimeError("no luck")

    monkeypatch.setattr(Clock, "__call__", fail)
    ended = call("train", "mine", *QUICK, "--checkpoint-every", "0")
    assert (ended.status, "test accuracy" in ended.out) == (1, False)
    assert ended.err == "mgnni train: error: RuntimeError: no luck (--debug shows where)\n"
    assert (place / "runs" / "mine" / "state.pt").exists()
    assert call("train", "mine", *QUICK, "--output", "runs/other").status == 1
    assert not (place / "runs" / "other").exists()


def test_control_c_in_a_process_of_its_own(place: Path) -> None:
    command = [sys.executable, "-m", "mgnni", "train", "mine", *QUICK, "--patience", "none"]
    process = subprocess.Popen(
        [*command, "--epochs", "1000000", "--checkpoint-every", "0"],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores SIGINT, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for _ in range(1200):
            if (place / "runs" / "mine" / "log.jsonl").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, "test accuracy" in out) == (130, False)
    (line,) = err.splitlines()
    assert line.startswith("mgnni train: interrupted; runs/mine keeps what was done")
    names = {path.name for path in (place / "runs" / "mine").iterdir()}
    assert {"config.json", "state.pt"} <= names
    assert "report.json" not in names


def test_data_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    check_data("texas")
    check_data(str(tmp_path))
    with pytest.raises(UsageError, match=r"did you mean chameleon\?"):
        check_data("Chamaeleon")
    with pytest.raises(UsageError, match="neither a benchmark nor a path"):
        check_data(str(tmp_path / "xyz"))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        *(("length=80", 80), ("fraction=0.5", 0.5), ("directed=true", True), ("a=False", False)),
        *(("a=none", None), ("split=geom-gcn", "geom-gcn"), ("a=", ""), ("a=b=c", "b=c")),
        ("a=(1, 2)", (1, 2)),
    ],
)
def test_a_benchmark_option_is_a_literal_or_a_word(pair: str, value: Any) -> None:
    (found,) = benchmark_options([pair]).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("pairs", [["length"], ["=3"], ["a=1", "a=2"]])
def test_an_incomplete_benchmark_option_is_refused(pairs: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--option must .*\(got"):
        benchmark_options(pairs)


CORA = data_root()


@pytest.mark.skipif(
    not ENTRIES["cora"].on_disk(CORA), reason="set MGNNI_DATA to a folder that has Cora"
)
def test_cora_in_tables_is_cora(call: Call, place: Path) -> None:
    """Rows in another order and under other names are the same graph.

    Seeds decide the weights, which know nothing of rows, and a training puts the nodes into an
    order of its own, so dropout falls on the same of them. Half a point is five of the thousand
    test nodes.
    """
    task = load_task("cora")
    (graph,), (split,) = task.graphs, task.splits
    generator = np.random.default_rng(0)
    order = generator.permutation(graph.num_nodes)
    names = np.array([f"paper {i:x}" for i in generator.permutation(graph.num_nodes)])
    part = np.full(graph.num_nodes, "", dtype=object)
    for name in ("train", "val", "test"):
        part[split.part(name).numpy()] = name
    x = graph.x.numpy()[order]
    nodes = {"id": names[order], **{f"word{i}": x[:, i] for i in range(x.shape[1])}}
    nodes |= {"label": all_labels(task).numpy()[order], "split": part[order]}
    source, target = graph.edge_index[:, torch.randperm(graph.num_edges)].numpy()
    edges = {"source": names[source], "target": names[target]}
    (place / "papers").mkdir()
    for table, columns in (("nodes", nodes), ("edges", edges)):
        pyarrow.csv.write_csv(pa.table(columns), place / "papers" / f"{table}.csv")

    options = ("--model", "mgnni", "--epochs", "50", "--hidden-channels", "16", "--lr", "0.05")
    options += ("--dropout", "0.5", "--weight-decay", "5e-4")  # own data have others
    scores = {}
    for data, own in (("cora", ()), ("papers", ("--no-standardize",))):
        ended = call("train", data, *options, *own, "--output", data, "--json")
        assert ended.status == 0, ended.err
        report = json.loads(ended.out)
        assert [report["data"][key] for key in ("nodes", "edges", "features", "classes")] == [
            *(2708, 10556, 1433, 7),
        ]
        scores[data] = report["score"]["mean"]
    assert scores["cora"] > 0.6, "or else there is nothing to compare"
    assert scores["papers"] == pytest.approx(scores["cora"], abs=0.005)

    assert call("predict", "papers", "papers", "--output", "papers.csv").status == 0
    predicted = pyarrow.csv.read_csv(place / "papers.csv").to_pydict()
    assert predicted["id"] == names[order].tolist()
    tested = np.flatnonzero(part[order] == "test")
    right = np.array(predicted["prediction"]) == nodes["label"]
    assert right[tested].mean() == pytest.approx(scores["papers"], abs=1e-6)


def test_the_config_of_a_training_is_taken_by_another_one(call: Call, place: Path) -> None:
    options = ("--lr", "0.03", "--seeds", "3", "5", "--metric", "macro_f1")
    asked = (*QUICK, "--model", "gcn", *options)
    assert call("train", "mine", *asked, "--no-report").status == 0
    config = place / "runs" / "mine-gcn" / "config.json"
    ended = call("train", "mine", "--config", config, "--device", "cpu", "--output", "again")
    assert ended.status == 0, ended.err
    first, again = report_of(config.parent), report_of(place / "again")
    assert lasting(again) == lasting(first)
    changes = ("--lr", "0.5", "--seeds", "7", "--device", "cpu", "--output", "other")
    assert call("train", "many", "--config", config.parent, *changes).status == 0
    other = report_of(place / "other")
    assert (other["model"], other["metric"], other["runs"][0]["seed"]) == ("gcn", "macro_f1", 7)
    assert other["config"] == {**first["config"], "lr": 0.5}
    shown = words(call("train", "mine", "--config", config, "--help").out)
    assert "Learning rate of Adam. (default: 0.03)" in shown
    assert "(default: 3 5)" in shown


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"ruel": "validation"}, (), "unknown entry 'ruel'; did you mean 'rule'?"),
        ({"config": {"learning": 1}}, (), "'config' must be one of"),
        ({"config": {"lr": "fast"}}, (), "'config.lr' must be of type float (got 'fast')"),
        ({"rule": "best"}, (), "'rule' must be one of"),
        ({"runs": [3]}, (), "must hold the settings of a training"),
        ({}, ("--model", "gcn"), "--model must be 'mgnni', which config.json is for (got 'gcn')"),
        (
            {},
            ("--preset", "authors"),
            "--config has all hyperparameters (got also --preset authors",
        ),
    ],
)
def test_a_config_that_is_wrong_is_refused_by_name(
    call: Call, place: Path, change: dict[str, Any], arguments: tuple[str, ...], message: str
) -> None:
    (place / "config.json").write_text(json.dumps({"config": {"epochs": 2}, **change}))
    ended = call("train", "mine", "--config", "config.json", *arguments)
    assert (ended.status in (1, 2), ended.out) == (True, "")
    assert message in ended.err
    assert not (place / "runs").exists()


def test_a_finished_training_goes_on_with_more_epochs(call: Call, place: Path) -> None:
    command = ("train", "mine", *QUICK, "--no-report")
    assert call(*command, "--epochs", "7", "--output", "whole").status == 0
    assert call(*command).status == 0
    ended = call(*command, "--resume", "--epochs", "7")
    assert (ended.status, ended.err) == (0, "")
    assert lasting(report_of(place / "runs" / "mine")) == lasting(report_of(place / "whole"))
    fewer = call(*command, "--resume", "--epochs", "5")
    assert (fewer.status, fewer.out) == (1, "")
    assert "config.epochs = 7 (asked for: 5)" in fewer.err


def test_folds_are_the_splits_of_data_without_any(call: Call, place: Path) -> None:
    write_nodes(place / "whole", node_rows(splits=False))
    ended = call("train", "whole", *QUICK, "--folds", "4", "--no-report")
    assert ended.status == 0
    assert "4 folds, stratified, a fifth of the rest for validation" in words(ended.out)
    report = report_of(place / "runs" / "whole")
    assert [run["rows"]["test"] for run in report["runs"]] == [6, 6, 6, 6]
    assert report["input"]["folds"] == 4
    for data, folds, message in (
        ("mine", "4", "--folds are for data without splits (got 4 for mine, which has 1)"),
        ("whole", "1", "--folds must be from 2 to the number of labelled units, 24 (got 1)"),
    ):
        refused = call("train", data, *QUICK, "--folds", folds, "--output", "new")
        assert (refused.status, refused.out) == (2, "")
        assert message in refused.err


def test_errors_of_vanishing_gradients_are_explained() -> None:
    one = {"solves": 3, "failures": 0, "relative_error_bound": 1e-5}
    assert "too small" not in solver_line({"forward": one, "backward": one})
    vanishing = {**one, "relative_error_bound": 0.6}
    assert "gradients too small" in solver_line({"forward": one, "backward": vanishing})
