from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data.raw import expect
from mgnni.data.registry import load_task
from mgnni.data.task import stratified_labels
from mgnni.errors import DataError


def write_ppi(folder: Path) -> None:
    """Write two training graphs and one each to validate and test, paths of 3 nodes, as DGL."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for split, first, graphs in (("train", 1, 2), ("valid", 21, 1), ("test", 23, 1)):
        nodes = 3 * graphs
        paths = [(3 * g + i, 3 * g + i + 1) for g in range(graphs) for i in range(2)]
        document = {
            "directed": False,
            "multigraph": False,
            "graph": {},
            "nodes": [{"id": node} for node in range(nodes)],
            "links": [{"source": a, "target": b} for a, b in paths],
        }
        (raw / f"{split}_graph.json").write_text(json.dumps(document))
        number = np.arange(nodes)
        np.save(raw / f"{split}_feats.npy", np.stack([number, number + first], 1).astype(float))
        np.save(raw / f"{split}_labels.npy", np.stack([number % 2, number % 3 == 0], 1))
        np.save(raw / f"{split}_graph_id.npy", first + number // 3)


def test_graphs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ppi(tmp_path / "ppi_recon")
    expect(monkeypatch, "ppi-recon", graphs=4, nodes=12, edges=16, classes=2)
    task = load_task("ppi-recon", root=tmp_path)
    assert (task.level, task.unit, task.multilabel, task.metric) == (
        *("node", "graph", True),
        "micro_f1",
    )
    assert [graph.x[0].tolist() for graph in task.graphs] == [[0, 1], [3, 4], [0, 21], [0, 23]]
    edges = [{tuple(e) for e in graph.edge_index.T.tolist()} for graph in task.graphs]
    assert edges == [{(0, 1), (1, 0), (1, 2), (2, 1)}] * 4
    (split,) = task.splits
    assert [split.part(part).tolist() for part in ("train", "val", "test")] == [[0, 1], [2], [3]]
    assert task.targets(0, "train").tolist() == [[0, 1], [1, 0], [0, 0], [1, 1], [0, 0], [1, 0]]
    assert task.targets(0, "val").tolist() == [[0, 1], [1, 0], [0, 0]]


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    write_ppi(tmp_path / "ppi")
    file = tmp_path / "ppi" / "raw" / "train_graph.json"
    file.write_text(file.read_text()[:40])
    with pytest.raises(DataError, match=r"ppi: .*/ppi is damaged or cut short \(JSONDecodeError"):
        load_task("ppi", root=tmp_path)


def test_the_real_graphs(real: Path) -> None:
    task = load_task("ppi-recon", root=real)
    (split,) = task.splits
    sums = []
    for part in ("train", "val", "test"):
        graphs = [task.graphs[unit] for unit in split.part(part).tolist()]
        nodes, edges = (sum(getattr(g, n) for g in graphs) for n in ("num_nodes", "num_edges"))
        sums.append((len(graphs), nodes, edges))
    assert sums == [(20, 44906, 1226368), (2, 6514, 198920), (2, 5524, 161976)]
    assert (task.graphs[0].num_nodes, task.graphs[0].num_edges) == (1767, 32318)
    labels = stratified_labels(task)
    assert labels.shape == (56944, 121)
    assert torch.all((labels == 0) | (labels == 1))
    assert torch.is_floating_point(labels)
