"""The choice of a model: what is compared, what it may look at, and what a kill changes."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.split import Split
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError
from mgnni.train import portfolio
from mgnni.train.auto import choose
from mgnni.train.experiment import Experiment, runs_of
from mgnni.train.fit import fit
from mgnni.train.portfolio import GRAPH_INPUT, Budget, find_candidates, notes_on
from mgnni.train.presets import preset_for
from mgnni.train.runs import Epoch
from mgnni.train.source import find_source
from problems import generator
from train.cases import graph_task, inductive_task, node_task

SMALL: dict[str, Any] = {"hidden_channels": 4, "epochs": 4, "device": "cpu"}


def experiment(task: Task, **options: Any) -> Experiment:
    config = preset_for("", task.level)
    return Experiment(
        find_source(task), config, runs_of(task, "all", 0), device="cpu", jobs=1, **options
    )


def lasting(record: dict[str, Any] | None) -> dict[str, Any]:
    """What does not depend on the time, as it comes back from a file."""
    found: dict[str, Any] = json.loads(json.dumps(record))
    for one in found["candidates"]:
        del one["seconds_per_epoch"]
    return {key: value for key, value in found.items() if key != "seconds"}


def test_the_choice_is_the_best_on_validation() -> None:
    task = node_task(2, directed=True)
    report = fit(task, model="auto", split="all", **SMALL).report or {}
    record = report["portfolio"]
    scores = {one["name"]: one["validation"] for one in record["candidates"]}
    assert set(scores) == set(portfolio.MODELS)
    candidates = find_candidates(find_source(task), {"hidden_channels": 4, "epochs": 4}).configs
    for name, score in scores.items():  # the same models, trained one by one
        alone = fit(task, split="all", config=candidates[name], device="cpu").report or {}
        mean = statistics.fmean(run["val"]["accuracy"] for run in alone["runs"])
        assert score == pytest.approx(mean)
        if name == record["chosen"]:
            assert report["runs"] == alone["runs"], "the chosen model is trained on all splits"
    assert scores[record["chosen"]] == max(scores.values())
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert (record["splits"], record["rungs"], record["epochs"]) == ([0, 1], [4], 4)


def test_test_labels_have_no_influence_on_the_choice() -> None:
    task = node_task(1)
    labels = all_labels(task).clone()
    rows = task.rows(0, "test")
    labels[rows] = (labels[rows] + 1) % 3
    other = Task("nodes", task.graphs, labels, task.splits, "abc")
    given = {"hidden_channels": 4, "epochs": 3}
    records = [choose(experiment(one), given).experiment.portfolio for one in (task, other)]
    assert lasting(records[0]) == lasting(records[1])
    assert task.test_evaluations == [0]


def test_an_interrupted_comparison_is_continued(tmp_path: Path) -> None:
    what, given = experiment(node_task(2)), {"hidden_channels": 4, "epochs": 7}
    whole = choose(what, given).experiment.portfolio

    def interrupt(name: str, epoch: Epoch) -> None:
        if name == "graphsage" and epoch.epoch == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choose(what, given, tmp_path, on_epoch=interrupt)
    with pytest.raises(DataError, match="already holds a training"):
        choose(what, given, tmp_path)
    with pytest.raises(DataError, match="another comparison"):
        choose(what, {**given, "lr": 0.5}, tmp_path, resume=True)
    trained: list[str] = []
    found = choose(
        what, given, tmp_path, resume=True, on_epoch=lambda name, _: trained.append(name)
    )
    assert lasting(found.experiment.portfolio) == lasting(whole)
    assert set(trained) == {"graphsage", "gcn", "mlp"}, "the others were done"
    again = choose(what, given, tmp_path, resume=True, on_epoch=interrupt)
    assert again.experiment.portfolio == found.experiment.portfolio


def test_a_single_run_goes_on_where_the_comparison_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(portfolio, "FIRST_RUNG", 2)
    seen: list[int] = []
    options = {**SMALL, "epochs": 9, "patience": None}
    report = (
        fit(node_task(1), model="auto", on_epoch=lambda one: seen.append(one.epoch), **options)
    ).report or {}
    record = report["portfolio"]
    assert record["rungs"] == [2, 6]
    assert seen == [7, 8, 9]
    # Half of the candidates, and the one without the graph, have seen the last rung.
    reached = {one["name"] for one in record["candidates"] if one["epochs"] == 6}
    assert len(reached - {"mlp"}) in (2, 3)
    assert {"mlp", record["chosen"]} <= reached
    again = fit(node_task(1), model="auto", output=tmp_path, **options).report or {}
    assert again["runs"] == report["runs"]
    assert json.loads((tmp_path / "config.json").read_text())["portfolio"] == again["portfolio"]


def test_whole_graphs_have_a_portfolio_of_their_own() -> None:
    report = fit(graph_task(), model="auto", split=0, **SMALL).report or {}
    names = {one["name"] for one in report["portfolio"]["candidates"]}
    assert names == set(portfolio.OF_GRAPHS)
    assert "gin" in names
    assert report["data"]["level"] == "graph"
    found = find_candidates(find_source(inductive_task()), {})
    assert found.left_out == {GRAPH_INPUT: "needs a single graph"}


def halves(labels: Tensor, x: Tensor, edges: Tensor) -> Task:
    order = torch.randperm(len(labels), generator=generator(1))
    size = len(labels) // 3
    split = Split.of(order[:size], order[size : 2 * size], order[2 * size :])
    return Task("made", [Data(x=x, edge_index=edges)], labels, [split], ["a", "b"])


def test_the_graph_input_is_chosen_where_only_the_neighbours_tell_the_class() -> None:
    """Every node links to five of ten anchors that look alike; which ones, is its class."""
    count, g = 300, generator(0)
    labels = torch.arange(count) % 2
    other = torch.rand(count, 5, generator=g) < 0.1
    anchors = torch.arange(5) + 5 * (labels[:, None] ^ other.long())
    source = torch.arange(count).repeat_interleave(5)
    edges = torch.stack([source, count + anchors.flatten()])
    edges = torch.cat([edges, edges.flip(0)], 1)
    labels = torch.cat([labels, torch.full((10,), -1)])
    x = torch.ones(count + 10, 1)
    split = [torch.arange(part, count, 3) for part in range(3)]
    task = Task("anchors", [Data(x=x, edge_index=edges)], labels, [Split.of(*split)], ["a", "b"])
    report = fit(task, model="auto", hidden_channels=8, epochs=30, device="cpu").report or {}
    record = report["portfolio"]
    assert record["chosen"] == GRAPH_INPUT
    best, second = (one["validation"] for one in record["candidates"][:2])
    assert best > 0.9
    assert second < 0.75
    assert report["score"]["mean"] > 0.9
    assert any("predicts for this graph only" in note for note in record["notes"])


def test_one_direction_is_chosen_where_only_the_nodes_an_edge_leads_to_tell_the_class() -> None:
    """Half of the nodes have labels and random features, and link to nodes that show the class.

    The edges in the other direction start at any of these nodes.
    """
    count, g = 240, generator(0)
    labels = torch.arange(count) % 2
    targets = torch.stack([torch.randperm(count // 2, generator=g)[:6] for _ in range(count)])
    noise = torch.rand(count, 6, generator=g) < 0.2
    targets = 2 * targets + (labels[:, None] ^ noise.long())  # nodes that show this class
    source = torch.arange(count).repeat_interleave(6)
    out = torch.stack([source, count + targets.flatten()])
    back = torch.randint(count, (2, 2 * count), generator=g)
    edges = torch.cat([out, back + torch.tensor([[count], [0]])], 1)
    own = 2.0 * torch.randn(count, 1, generator=g)
    x = torch.cat([own, 2.0 * labels[:, None] - 1])
    labels = torch.cat([labels, torch.full((count,), -1)])
    split = [torch.arange(part, count, 3) for part in range(3)]
    task = Task("links", [Data(x=x, edge_index=edges)], labels, [Split.of(*split)], ["a", "b"])
    report = fit(task, model="auto", hidden_channels=8, epochs=40, device="cpu").report or {}
    record = report["portfolio"]
    assert record["chosen"] == "gmgnni-out"
    best, second = (one["validation"] for one in record["candidates"][:2])
    assert best > 0.85
    assert second < 0.82
    assert report["score"]["mean"] > 0.8
    assert report["config"]["model"]["directions"] == "out"


def test_a_graph_that_does_not_help_is_noted() -> None:
    g = generator(3)
    x = torch.randn(240, 4, generator=g)
    task = halves((x[:, 0] > 0).long(), x, torch.randint(0, 240, (2, 1200), generator=g))
    report = fit(task, model="auto", hidden_channels=8, epochs=20, lr=0.05).report or {}
    assert any("does not use the graph" in note for note in report["portfolio"]["notes"])


def test_options_leave_out_models_that_do_not_have_them() -> None:
    source = find_source(node_task())
    found = find_candidates(source, {"scales": (1, 4), "lr": 0.5})
    assert set(found.configs) == {"mgnni", "gmgnni", GRAPH_INPUT}
    assert all(one.model.scales == (1, 4) and one.lr == 0.5 for one in found.configs.values())
    assert found.left_out["gcn"] == "has no option scales"
    directed = find_candidates(find_source(node_task(directed=True)), {}).configs["gmgnni"]
    assert (directed.model.directions, found.configs["gmgnni"].model.directions) == ("both", "in")
    with pytest.raises(ArgumentError, match="no candidate"):
        find_candidates(source, {"scales": (1,), "aggr": "max"})


def test_directed_graphs_have_a_candidate_for_each_direction() -> None:
    directed = find_source(node_task(directed=True))
    ways = {"gmgnni-in", "gmgnni-out"}
    assert ways <= set(find_candidates(directed, {}).configs)
    assert not ways & set(find_candidates(find_source(node_task()), {}).configs)
    assert not ways & set(find_candidates(directed, {"undirected": True}).configs)
    given = find_candidates(directed, {"directions": "both", "skip": True}).left_out
    assert given["gmgnni-out"] == "directions, skip are given"
    assert given["gmgnni-in"] == given["gmgnni-out"]
    assert find_candidates(directed, {"input_map": "mlp"}).left_out == {
        "gmgnni-graph": "input_map is given",
        **dict.fromkeys(("graphsage", "gcn", "mlp"), "has no option input_map"),
    }


def test_slow_epochs_make_the_comparison_and_the_training_shorter() -> None:
    what = experiment(node_task(2))
    budget = Budget.of(what)
    assert (budget.minutes, budget.comparing) == (6, 2)
    assert budget.rungs(1000, [0.001] * 6, 1.0) == [100, 300]
    # 98 of 108 s are left: 6 candidates and twice the slower half take 1.2 s per epoch.
    assert budget.rungs(1000, [0.1] * 6, 10.0) == [81, 243]
    assert budget.rungs(1000, [1.0] * 6, 10.0) == [16], "no time for a second rung"
    assert budget.rungs(1000, [60.0] * 6, 1800.0) == [10]
    assert budget.epochs(1000, pace=2.0, spent=124.0, reached=30) == 30 + 100
    assert budget.epochs(1000, pace=0.01, spent=124.0, reached=0) == 1000
    fixed = Budget.of(replace(what, deterministic=True))
    assert fixed.rungs(1000, [1.0] * 6, 10.0) == [100, 300], "not by the clock"
    assert fixed.epochs(1000, pace=100.0, spent=0.0, reached=0) == 1000
    assert Budget.of(what, 12).comparing == 4
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ArgumentError, match="budget"):
            Budget.of(what, wrong)


def test_what_cannot_be_chosen_is_refused() -> None:
    task = node_task(1)
    with pytest.raises(ArgumentError, match="'budget' is for the choice"):
        fit(task, budget=3.0)
    with pytest.raises(ArgumentError, match="'preset' must be left out with model='auto'"):
        fit(task, model="auto", preset="authors")
    with pytest.raises(ArgumentError, match=r"'config' must be left out .*got Config"):
        fit(task, model="auto", config=preset_for("", "node"))
    split = task.splits[0]
    bare = task.with_splits([Split.of(split.train, torch.zeros(0, dtype=torch.long), split.test)])
    with pytest.raises(DataError, match="needs labelled validation rows"):
        fit(bare, model="auto", rule="test-max")


def test_a_rate_that_falls_until_the_last_epoch_is_that_of_the_epochs_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(portfolio, "FIRST_RUNG", 2)
    reached = []

    def epochs(self: Budget, most: int, pace: float, spent: float, reached_: int) -> int:
        reached.append(reached_)
        return 9  # as if there were no time for more

    monkeypatch.setattr(Budget, "epochs", epochs)
    options = {"hidden_channels": 4, "patience": None, "schedule": "cosine", "device": "cpu"}
    found = fit(node_task(1), model="auto", **options)
    assert found.config.epochs == 9
    assert reached[-1] == 0, "all epochs are planned"
    alone = fit(node_task(1), config=found.config, device="cpu")
    for name, value in found.weights[0].items():
        assert torch.equal(value, alone.weights[0][name]), name


def test_a_note_on_the_model_without_the_graph_names_the_degree() -> None:
    mlp = {"name": "mlp", "rungs": {"5": 1.0}}
    record = {"chosen": "mlp", "candidates": [mlp], "metric": "accuracy"}
    assert "mlp, which does not use the graph, is the best" in notes_on(record, 10)[0]
    assert "nothing of the graph but degrees" in notes_on(record, 10, degree=True)[0]
