"""Explanations of trained models: which node and feature carry a label is known here."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from mgnni import ArgumentError, Fitted, explain_prediction, fit
from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.explain.explanation import Explanation
from mgnni.explain.figure import draw_explanation
from mgnni.explain.layout import ring_layout, stress_layout
from mgnni.explain.report import Names, summarize


def planted_task(graphs: int = 1) -> Task:
    """Thirty nodes with four in-neighbours each; feature 1 + label of one of these is set."""
    generator = torch.Generator().manual_seed(0)
    data, labels = [], []
    for _ in range(graphs):
        label = torch.randint(2, (30,), generator=generator)
        x = torch.zeros(150, 4)
        x[:, 0] = torch.rand(150, generator=generator)
        x[30 + 4 * torch.arange(30) + torch.arange(30) % 4, 1 + label] = 1.0
        edges = torch.stack([torch.arange(30, 150), torch.arange(30).repeat_interleave(4)])
        data.append(Data(x=x, edge_index=edges))
        labels.append(torch.cat([label, torch.full((120,), -1)]))
    if graphs == 1:
        split = Split(torch.arange(20), torch.arange(20, 25), torch.arange(25, 30))
    else:
        split = Split(*(torch.arange(part, part + 1) for part in range(3)))
    return Task("planted", data, torch.cat(labels), [split], ["red", "blue"])


def trained(task: Task) -> Fitted:
    return fit(
        task, epochs=100, lr=0.05, dropout=0.0, weight_decay=0.0, hidden_channels=8, device="cpu"
    )


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return trained(planted_task())


@pytest.mark.parametrize("node", [0, 6, 27])
def test_the_node_and_the_feature_that_carry_the_label_come_first(
    fitted: Fitted, node: int
) -> None:
    found = explain_prediction(fitted, node, against="others")
    assert found.predicted == int(fitted.predict()[node])
    carrier = 30 + 4 * node + node % 4
    assert found.top_nodes(1).tolist() == [carrier]
    assert found.top_features(1).tolist() == [1 + found.predicted]
    assert found.top_features(1, carrier).tolist() == [1 + found.predicted]
    assert found.hops[carrier] == 1
    assert set(found.by_hop()) == {0, 1}  # nothing from nodes without a path
    assert abs(found.gap) < 1e-9
    assert abs(found.feature_gap) < 1e-9
    probability = fitted.predict_proba()[node]
    assert found.probability == pytest.approx(float(probability[found.predicted]), abs=1e-4)


def test_nodes_of_several_graphs_are_numbered_through() -> None:
    fitted = trained(planted_task(3))
    found = explain_prediction(fitted, 150 + 7, against="others")
    assert (found.index, found.node) == (157, 7)
    assert found.top_nodes(1).tolist() == [30 + 4 * 7 + 3]
    alone = explain_prediction(fitted, 7, planted_task(3).graphs[1], against="others")
    torch.testing.assert_close(alone.contributions, found.contributions)
    with pytest.raises(ArgumentError, match="between 0 and 449"):
        explain_prediction(fitted, 450)


def test_the_summary_uses_the_names_of_the_data(fitted: Fitted) -> None:
    found = explain_prediction(fitted, 6)
    ids = [f"n{node}" for node in range(150)]
    names = Names(fitted.classes, ("noise", "is_red", "is_blue", "none"), ids, {6: "blue"}, "n6")
    summary = summarize(found, names, top=3)
    assert (summary["target"], summary["label"], summary["against"]) == ("n6", "blue", None)
    assert summary["class"] == fitted.classes[found.predicted]
    assert len(summary["nodes"]) == 3
    first = summary["nodes"][0]
    assert first["contribution"] == pytest.approx(sum(first["paths"].values()))
    assert {one["hops"]: one["nodes"] for one in summary["hops"]} == {0: 1, 1: 4}
    shares = [one["size_share"] for one in summary["hops"]]
    assert sum(shares) == pytest.approx(1.0)
    assert summary["shown_share"] < 1 <= summarize(found, names, top=5)["shown_share"] + 1e-9


def test_a_drawing_is_a_png_of_some_size(fitted: Fitted) -> None:
    file = io.BytesIO()
    draw_explanation(explain_prediction(fitted, 6), Names(fitted.classes), file)
    assert file.getvalue().startswith(b"\x89PNG")
    assert len(file.getvalue()) > 20_000


def test_rings_have_the_target_in_the_middle_and_one_place_per_node() -> None:
    hops = np.array([0, 1, 1, 2, 2, 2, 5, -1])
    edges = np.array([[0, 0, 1, 1, 2, 3], [1, 2, 3, 4, 5, 6]])
    points = ring_layout(hops, edges)
    radius = np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(radius, [0, 1, 1, 2, 2, 2, 3, 4], atol=1e-12)
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(8)
    assert apart.min() > 0.5


def test_a_path_is_drawn_as_a_line() -> None:
    distance = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    points = stress_layout(distance)
    found = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(found, distance, atol=0.05)


def test_a_summary_of_a_long_chain() -> None:
    count = 20_000  # distances, each of one node; sums over all nodes for each would take hours
    found = Explanation(
        level="node",
        index=0,
        node=0,
        class_index=0,
        against=None,
        predicted=0,
        probability=0.5,
        output=1.0,
        baseline_output=0.0,
        paths=(1,),
        contributions=torch.full((1, count), -0.5, dtype=torch.double),
        features=torch.zeros(count, 1, dtype=torch.double),
        hops=torch.arange(count),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        exact=True,
        steps=1,
    )
    hops = summarize(found, Names(["red"]))["hops"]
    assert hops[count - 1] == {
        "hops": count - 1,
        "nodes": 1,
        "contribution": -0.5,
        "size_share": pytest.approx(1 / count),
    }
