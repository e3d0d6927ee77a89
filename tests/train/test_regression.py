"""Training on numbers: closed forms, units, direction of the metric, and all models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.models.catalog import MODELS
from mgnni.train.config import Config
from mgnni.train.fit import fit
from mgnni.train.fitted import Fitted
from mgnni.train.loss import number_losses
from mgnni.train.portfolio import notes_on, rank, survivors
from mgnni.train.runs import EarlyStopping
from problems import generator

PLAIN: dict[str, Any] = {"weight_decay": 0.0, "dropout": 0.0, "device": "cpu", "progress": False}
NODES = 80


def data(shift: float = 0.0, scale: float = 1.0, targets: int = 1) -> Data:
    """A graph whose targets are linear in the features, in some units."""
    g = generator(5)
    x = torch.randn(NODES, 3, generator=g)
    edges = torch.randint(0, NODES, (2, 3 * NODES), generator=g)
    y = x.double() @ torch.randn(3, targets, generator=g).double()
    parts = torch.arange(NODES) % 4
    masks = {"train_mask": parts < 2, "val_mask": parts == 2, "test_mask": parts == 3}
    return Data(x=x, edge_index=edges, y=shift + scale * y.squeeze(1), **masks)


def test_a_linear_model_recovers_a_linear_target_in_its_own_units() -> None:
    graph = data(shift=2000.0, scale=50.0)
    fitted = fit(graph, model="linear", task="regression", epochs=400, lr=0.1, **PLAIN)
    report = fitted.report or {}
    assert report["score"]["mean"] > 0.9999
    predicted = fitted.predict()
    assert predicted.shape == (NODES,)
    torch.testing.assert_close(predicted, graph.y, rtol=0, atol=0.5)
    train, test = graph.y[graph.train_mask], graph.y[graph.test_mask]
    usual = report["regression"]["baseline"]["mae"]
    assert usual == pytest.approx(float((test - train.mean()).abs().mean()))
    mean = fitted.model().target_scale.mean
    torch.testing.assert_close(mean, train.mean().reshape(1))


def test_units_change_nothing_but_the_units() -> None:
    options: dict[str, Any] = {"model": "mgnni", "epochs": 5, "hidden_channels": 4, **PLAIN}
    one = fit(data(), task="regression", **options)
    other = fit(data(shift=-7.0, scale=1000.0), task="regression", **options)
    torch.testing.assert_close(other.predict(), 1000 * one.predict() - 7, rtol=1e-4, atol=1e-2)
    first, second = ((fitted.report or {})["runs"][0] for fitted in (one, other))
    assert second["test"]["r2"] == pytest.approx(first["test"]["r2"], abs=1e-4)
    assert second["test"]["mae"] == pytest.approx(1000 * first["test"]["mae"], rel=1e-4)


def test_targets_are_standardised_by_training_rows_only() -> None:
    changed = data()
    changed.y[~changed.train_mask] += 1e6
    options: dict[str, Any] = {"model": "mlp", "epochs": 3, "stopping": "loss", **PLAIN}
    one, other = (fit(graph, task="regression", **options) for graph in (data(), changed))
    for name in ("target_scale.mean", "target_scale.deviation"):
        torch.testing.assert_close(one.weights[0][name], other.weights[0][name])


def test_the_loss_is_in_units_of_the_deviation() -> None:
    predicted, true = torch.tensor([[3.0, 10.0]]), torch.tensor([[1.0, 40.0]])
    deviation = torch.tensor([2.0, 10.0])
    assert number_losses(predicted, true, deviation, absolute=False).tolist() == [5.0]
    assert number_losses(predicted, true, deviation, absolute=True).tolist() == [2.0]


@pytest.mark.parametrize("stopping", ["metric", "authors"])
def test_the_lowest_error_is_the_best_epoch(stopping: str) -> None:
    one = EarlyStopping.from_config(Config(stopping=stopping, patience=2), "mae")
    better = [one.update(epoch, 9.0 + epoch, mae) for epoch, mae in enumerate((5, 3, 4, 3.5), 1)]
    assert better == [True, True, False, False]
    assert (one.best_epoch, one.best_metric, one.done) == (2, 3, True)


def candidate(name: str, value: float) -> dict[str, Any]:
    one = {"name": name, "validation": value, "loss": 1.0, "error": None}
    return {**one, "rungs": {"10": value}, "losses": {"10": 1.0}}


def test_the_portfolio_keeps_the_lowest_errors() -> None:
    results = [candidate("gcn", 3.0), candidate("mgnni", 1.0), candidate("mlp", 9.0)]
    results.append(candidate("gin", 2.0))
    assert [one["name"] for one in survivors(results, "mae", 10)] == ["mgnni", "gin", "mlp"]
    assert [one["name"] for one in survivors(results, "r2", 10)] == ["mlp", "gcn"]
    results.sort(key=lambda one: rank(one, "mae"))
    record = {"candidates": results, "chosen": "mgnni", "metric": "mae"}
    assert notes_on(record, 100) == [], "the perceptron is worse"
    record["candidates"][-1]["rungs"]["10"] = 0.9
    assert "0.9 against 1 after" in notes_on(record, 100)[0]


def test_a_comparison_that_is_continued_drops_the_same_candidates() -> None:
    """After an interruption, results of later rungs are known, which must not count."""
    first = [
        candidate(name, value) for name, value in zip("abcd", (4.0, 3.0, 2.0, 1.0), strict=True)
    ]
    assert [one["name"] for one in survivors(first, "r2", 10)] == ["a", "b"]
    first[0] |= {"validation": 0.5, "loss": 2.0, "rungs": {"10": 4.0, "30": 0.5}}
    first[1] |= {"validation": None, "loss": None, "error": "diverged"}
    assert [one["name"] for one in survivors(first, "r2", 10)] == ["a", "b"]
    first.sort(key=lambda one: rank(one, "r2"))
    assert [one["name"] for one in first] == ["a", "c", "d", "b"], "the last rung decides"


def test_the_choice_of_a_model_and_its_best_run_have_the_lowest_error() -> None:
    graph = data(shift=100.0)
    for mask in ("train_mask", "val_mask", "test_mask"):
        del graph[mask]
    options: dict[str, Any] = {"epochs": 4, "hidden_channels": 4, "num_splits": 2, **PLAIN}
    del options["dropout"]
    fitted = fit(graph, model="auto", task="regression", metric="mae", split="all", **options)
    report = fitted.report or {}
    found = {one["name"]: one["validation"] for one in report["portfolio"]["candidates"]}
    assert found[report["portfolio"]["chosen"]] == min(found.values())
    errors = [run["val"]["mae"] for run in report["runs"]]
    assert fitted.best == errors.index(min(errors)) == report["regression"]["shown_run"]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "dgcnn"])  # pools nodes
def test_every_model_predicts_several_numbers(name: str) -> None:
    graph = data(shift=50.0, scale=10.0, targets=2)
    fitted = fit(graph, model=name, task="regression", epochs=2, device="cpu", progress=False)
    predicted = fitted.predict()
    assert predicted.shape == (NODES, 2)
    assert torch.isfinite(predicted).all()
    first, second = (fitted.report or {})["regression"]["targets"]
    assert (first["name"], second["name"]) == ("y_0", "y_1")


def graphs() -> list[Data]:
    """Paths of three to eight nodes, and their length as a number to predict."""
    found = []
    for place in range(40):
        size = 3 + place % 6
        edges = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        edges = torch.cat([edges, edges.flip(0)], 1)
        one = Data(x=torch.ones(size, 1), edge_index=edges, y=torch.tensor([10.0 * size]))
        found.append(one)
    return found


def test_graphs_have_numbers_too(tmp_path: Path) -> None:
    fitted = fit(graphs(), model="gin", task="regression", epochs=60, device="cpu", progress=False)
    assert (fitted.report or {})["score"]["mean"] > 0.8
    fitted.save(tmp_path / "model.pt")
    loaded = Fitted.load(tmp_path / "model.pt")
    torch.testing.assert_close(loaded.predict(graphs()), fitted.predict(), rtol=0, atol=0)


def test_what_is_for_classes_is_refused() -> None:
    fitted = fit(data(), model="linear", task="regression", epochs=1, **PLAIN)
    with pytest.raises(ArgumentError, match="numbers"):
        fitted.predict_proba()
    with pytest.raises(ArgumentError, match="threshold"):
        fitted.predict(threshold=0.5)
    with pytest.raises(ArgumentError, match="class_weight"):
        fit(data(), model="linear", task="regression", class_weight="balanced", **PLAIN)
    with pytest.raises(ArgumentError, match="rule"):
        fit(data(), model="linear", task="regression", rule="test-max", **PLAIN)


def test_a_task_of_numbers_can_be_passed_as_it_is() -> None:
    graph = data(targets=2)
    parts = Split.of(graph.train_mask, graph.val_mask, graph.test_mask)
    task = Task("mine", [graph], graph.y, [parts], ["a", "b"], regression=True, metric="mae")
    fitted = fit(task, model="mlp", epochs=2, device="cpu", progress=False)
    assert set((fitted.report or {})["runs"][0]["test"]) == {"mae", "r2"}
