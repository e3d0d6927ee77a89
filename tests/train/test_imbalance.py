"""Two percent of the rows are positive: the report says so, weights and threshold find them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni import fit
from mgnni.cli import main
from mgnni.errors import ArgumentError
from mgnni.train.fitted import Fitted
from train.cases import config, node_task, runs, training

ROWS, POSITIVE = 1000, 20
OPTIONS = {"model": "mlp", "epochs": 40, "hidden_channels": 8, "dropout": 0.0, "device": "cpu"}


def rare_data(seed: int = 0) -> Data:
    """Positive rows have larger features, but overlap with the others."""
    g = torch.Generator().manual_seed(seed)
    y = torch.zeros(ROWS, dtype=torch.long)
    y[torch.randperm(ROWS, generator=g)[:POSITIVE]] = 1
    x = torch.randn(ROWS, 4, generator=g) + 1.2 * y.unsqueeze(1)
    edges = torch.randint(ROWS, (2, 2 * ROWS), generator=g)
    return Data(x=x, edge_index=to_undirected(edges, num_nodes=ROWS), y=y)


@pytest.fixture(scope="module")
def plain() -> Fitted:
    return fit(rare_data(), **OPTIONS)


@pytest.fixture(scope="module")
def chosen() -> Fitted:
    return fit(rare_data(), metric="balanced_accuracy", **OPTIONS)


@pytest.fixture(scope="module")
def balanced() -> Fitted:
    return fit(rare_data(), class_weight="balanced", **OPTIONS)


def test_the_report_says_that_a_class_is_rare(plain):
    assert plain.report is not None
    found = plain.report["classification"]
    assert found["rare"] == [{"class": "1", "share": pytest.approx(0.02, abs=0.003)}]
    assert found["baseline"]["class"] == "0"
    assert found["baseline"]["accuracy"] == pytest.approx(0.98, abs=0.003)
    ends, score = found["interval"], plain.report["score"]["mean"]
    assert ends["low"] < score < ends["high"]
    (support,) = (one["support"] for one in found["classes"] if one["name"] == "1")
    assert support == POSITIVE // 5


def test_balanced_class_weights_raise_the_balanced_accuracy(plain, balanced):
    before, after = (one.report["runs"][0]["test"] for one in (plain, balanced))
    assert after["balanced_accuracy"] > before["balanced_accuracy"] + 0.1
    # Epochs are selected by it too, unless another metric is asked for.
    assert balanced.report["metric"] == "balanced_accuracy"
    assert plain.report["metric"] == "accuracy"
    asked = fit(rare_data(), class_weight="balanced", metric="macro_f1", **OPTIONS)
    assert asked.report is not None
    assert asked.report["metric"] == "macro_f1"


def test_accuracy_is_that_of_the_more_probable_class(plain):
    assert plain.thresholds == ()
    assert "threshold" not in plain.report["classification"]
    assert torch.equal(plain.predict(), plain.predict_proba().argmax(1))


def test_the_threshold_of_validation_is_stored_and_applied(chosen, tmp_path):
    (threshold,) = chosen.thresholds
    assert threshold is not None
    assert threshold < 0.5  # rare rows hardly ever reach one half
    chosen.save(tmp_path / "model.pt")
    loaded, data = Fitted.load(tmp_path / "model.pt"), rare_data()
    assert loaded.thresholds == chosen.thresholds
    probability, predicted = loaded.predict_proba(data), loaded.predict(data)
    assert torch.equal(predicted, (probability[:, 1] > threshold).long())
    assert int(predicted.sum()) > int((probability[:, 1] > 0.5).sum())
    # The report has the quality of these very predictions.
    counts = torch.tensor(chosen.report["confusion"]["counts"])
    recall = counts.diag() / counts.sum(1)
    test = chosen.report["classification"]["threshold"]["test"]
    assert test["balanced_accuracy"] == pytest.approx(float(recall.mean()))
    listed = [one["recall"] for one in chosen.report["classification"]["classes"]]
    assert listed == pytest.approx(recall.tolist())


def test_mgnni_predict_applies_the_threshold(chosen, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen.save("model.pt")
    torch.save(rare_data(), "data.pt")
    found = []
    for more in ([], ["--threshold", "0.5"]):
        args = ["predict", "model.pt", "data.pt", "--json", "--overwrite", *more]
        assert main(args) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [one["threshold"] for one in found] == [chosen.thresholds[0], 0.5]
    assert found[0]["predicted"]["1"] == int(chosen.predict().sum())
    assert found[1]["predicted"]["1"] == int(chosen.predict_proba().argmax(1).sum())
    for more, hint in (([], True), (["--threshold", "0.5"], False)):
        assert main(["predict", "model.pt", "data.pt", "--overwrite", *more]) == 0
        shown = capsys.readouterr().out
        assert "'1' where its probability exceeds" in shown
        assert ("--threshold 0.5" in shown) == hint
    assert main(["predict", "model.pt", "data.pt", "--overwrite", "--threshold", "2"]) == 2
    assert "--threshold must lie between 0 and 1 (got 2)" in capsys.readouterr().err
    assert len(Path("predictions.csv").read_text().splitlines()) == ROWS + 1


def test_a_threshold_is_for_two_classes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = rare_data()
    data.y = torch.arange(ROWS) % 3
    fitted = fit(data, **{**OPTIONS, "epochs": 1})
    assert fitted.thresholds == ()
    fitted.save("model.pt")
    torch.save(data, "data.pt")
    assert main(["predict", "model.pt", "data.pt", "--threshold", "0.3"]) == 2
    assert "--threshold is for two classes (got a model of 3 classes)" in capsys.readouterr().err


def test_class_weights_need_one_label_per_row():
    with pytest.raises(ArgumentError, match="'class_weight' balanced needs one label per row"):
        training(node_task(multilabel=True), config(class_weight="balanced"), runs())


def test_two_trainings_have_the_same_assessment():
    first, second = (fit(rare_data(), **{**OPTIONS, "epochs": 3}).report for _ in range(2))
    assert first is not None
    assert second is not None
    assert first["classification"] == second["classification"]
