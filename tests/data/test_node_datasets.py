from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import homophily, is_undirected, remove_self_loops, to_undirected

from data.raw import EDGES, PARTS, X, Y, expect, write_geom_gcn, write_npz
from mgnni.data.catalog import ENTRIES
from mgnni.data.node_datasets import node_task
from mgnni.data.registry import load_task
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError


def is_the_four_pages(task: Task, normalized: bool = True) -> None:
    (graph,) = task.graphs
    x = torch.tensor(X, dtype=torch.float)
    assert torch.equal(graph.x, x / x.sum(1, keepdim=True) if normalized else x)
    assert {tuple(edge) for edge in graph.edge_index.T.tolist()} == set(EDGES)
    assert graph.num_edges == len(EDGES)
    assert all_labels(task).tolist() == Y
    assert task.classes == ("0", "1")
    for (train, *val, test), split in zip(PARTS, task.splits, strict=True):
        assert split.train.tolist() == [train]
        assert split.val.tolist() == sorted(val)
        assert split.test.tolist() == [test]


def test_webkb_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb" / "wisconsin", "wisconsin")
    expect(monkeypatch, "wisconsin", graphs=1, nodes=4, edges=5, classes=2)
    task = load_task("wisconsin", root=tmp_path)
    is_the_four_pages(task)
    assert task.notes == ENTRIES["wisconsin"].traps


def test_wikipedia_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "wikipedia" / "squirrel" / "geom_gcn", "squirrel")
    expect(monkeypatch, "squirrel", nodes=4)
    is_the_four_pages(load_task("squirrel", root=tmp_path))


def test_heterophilous_undirected_and_not_normalised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(tmp_path / "heterophilous" / "tolokers" / "raw" / "tolokers.npz")
    expect(monkeypatch, "tolokers", nodes=4)
    task = load_task("tolokers", root=tmp_path)
    (graph,) = task.graphs
    assert is_undirected(graph.edge_index)
    assert graph.num_edges == 9  # four edges both ways, and the self-loop
    assert torch.equal(graph.x, torch.tensor(X, dtype=torch.float))
    assert task.metric == "roc_auc"


def test_masks_of_bytes_are_masks() -> None:
    mask = torch.tensor([[0, 1], [0, 0], [1, 0], [0, 0]], dtype=torch.uint8)
    data = Data(
        x=torch.zeros(4, 1),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        y=torch.tensor([0, 0, 1, 1]),
        train_mask=mask,
        val_mask=mask.roll(1, 0),
        test_mask=mask.roll(2, 0),
    )
    first, second = node_task(ENTRIES["cora"], data).splits
    assert (first.train.tolist(), first.val.tolist(), first.test.tolist()) == ([2], [3], [0])
    assert (second.train.tolist(), second.val.tolist(), second.test.tolist()) == ([0], [1], [2])


def test_a_file_cut_in_a_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4, edges=5)
    file = tmp_path / "webkb" / "texas" / "raw" / "out1_node_feature_label.txt"
    file.write_bytes(file.read_bytes()[:-3])  # PyG leaves the last node out and goes on
    with pytest.raises(DataError) as caught:
        load_task("texas", root=tmp_path)
    assert str(caught.value).startswith(f"texas: {tmp_path}/webkb/texas is damaged ")


def test_a_file_cut_between_lines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4, edges=5)
    file = tmp_path / "webkb" / "texas" / "raw" / "out1_graph_edges.txt"
    file.write_text("\n".join(file.read_text().split("\n")[:-2]) + "\n")  # reads well
    message = r"is damaged .*\(expected 5 edges, got 4\); remove it"
    with pytest.raises(DataError, match=message):
        load_task("texas", root=tmp_path)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # numpy, on the bad file
def test_a_split_cut_short_is_refused(tmp_path: Path) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    file = tmp_path / "webkb" / "texas" / "raw" / "texas_split_0.6_0.2_3.npz"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=r"texas is damaged .*\(BadZipFile"):
        load_task("texas", root=tmp_path)
    gc.collect()


def test_an_unknown_kind_of_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"'split' must be one of .*'geom-gcn', 'public'"):
        load_task("cora", root=tmp_path, split="random")


@pytest.mark.parametrize("split", ["public", "geom-gcn"])
def test_a_cut_list_of_test_nodes_is_refused(real: Path, tmp_path: Path, split: str) -> None:
    """PyG would read it, and give nodes the features of others."""
    inner = Path("planetoid", "Cora", "" if split == "public" else split, "raw")
    shutil.copytree(real / inner, tmp_path / inner)
    assert load_task("cora", root=tmp_path, split=split).num_rows == 2708
    shutil.rmtree((tmp_path / inner).with_name("processed"))
    file = tmp_path / inner / "ind.cora.test.index"
    file.write_text("\n".join(file.read_text().split()[:-1]))
    message = r"Cora is damaged .*\(expected 1000 test nodes, got 999\)"
    with pytest.raises(DataError, match=message):
        load_task("cora", root=tmp_path, split=split)


@pytest.mark.usefixtures("offline")
def test_the_other_split_of_a_planetoid_graph_is_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cora: not found in .* the download failed"):
        load_task("cora", root=tmp_path, split="geom-gcn")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cornell", 0.305),
        ("texas", 0.108),
        ("wisconsin", 0.196),
        ("cornell-fixed", 0.123),
        ("chameleon", 0.235),
        ("squirrel", 0.224),
    ],
)
def test_homophily_of_the_real_graphs(real: Path, name: str, value: float) -> None:
    task = load_task(name, root=real)
    found = homophily(task.graphs[0].edge_index, all_labels(task), method="edge")
    assert found == pytest.approx(value, abs=5e-4)


def test_cornell_has_the_features_and_labels_of_texas(real: Path) -> None:
    cornell, texas, fixed = (
        load_task(name, root=real) for name in ("cornell", "texas", "cornell-fixed")
    )
    assert torch.equal(cornell.graphs[0].x, texas.graphs[0].x)
    assert torch.equal(all_labels(cornell), all_labels(texas))
    assert torch.bincount(all_labels(texas)).min() == 1
    assert torch.bincount(all_labels(fixed)).tolist() == [38, 16, 30, 82, 17]
    assert is_undirected(fixed.graphs[0].edge_index)
    for one, other in zip(cornell.splits, fixed.splits, strict=True):
        assert torch.equal(one.test, other.test)


@pytest.mark.parametrize(
    ("name", "twins"),
    [
        ("chameleon", 67.3),
        ("squirrel", 61.8),
        ("chameleon-filtered", 7.9),
        ("squirrel-filtered", 2.2),
    ],
)
def test_as_many_duplicates_as_the_trap_says(real: Path, name: str, twins: float) -> None:
    task = load_task(name, root=real)
    links: list[set[int]] = [set() for _ in range(task.num_rows)]
    for source, target in task.graphs[0].edge_index.T.tolist():
        if source != target:
            links[source].add(target)
    kind = [frozenset(targets) for targets in links]
    share = []
    for split in task.splits:
        seen = {kind[node] for node in split.train.tolist()}
        share += [sum(kind[node] in seen for node in split.test.tolist()) / split.test.numel()]
    found = 100 * sum(share) / len(share)
    assert found == pytest.approx(twins, abs=0.05)
    assert f" {found:.0f} % of the test nodes" in ENTRIES[name].traps[0]


@pytest.mark.parametrize("name", ["cornell", "wisconsin", "chameleon", "squirrel", "actor", "cora"])
def test_words_of_the_real_graphs_are_normalised(real: Path, name: str) -> None:
    total = load_task(name, root=real).graphs[0].x.sum(1)
    assert torch.all((total == 0) | ((total - 1).abs() < 1e-5))
    assert total.count_nonzero() > 0.8 * total.numel()


@pytest.mark.parametrize(
    ("name", "sizes", "fewer"),
    [("cora", (1192, 796, 497), ()), ("citeseer", (1596, 1065, 666), (4, 5))],
)
def test_the_ten_splits_of_geom_gcn(
    real: Path, name: str, sizes: tuple[int, ...], fewer: tuple[int, ...]
) -> None:
    task = load_task(name, root=real, split="geom-gcn")
    assert len(task.splits) == 10
    for index, split in enumerate(task.splits):
        found = (split.train.numel(), split.val.numel(), split.test.numel())
        assert found == ((1017, 679, 424) if index in fewer else sizes)


FILTERED = Path("wikipedia_filtered") / "squirrel_filtered_directed.npz"


def test_a_filtered_graph_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(tmp_path / FILTERED)
    expect(monkeypatch, "squirrel-filtered", nodes=4, edges=5)
    is_the_four_pages(load_task("squirrel-filtered", root=tmp_path))


def test_a_filtered_graph_is_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def web(url: str, folder: str, log: bool, filename: str) -> None:
        asked.append(url)
        write_npz(tmp_path / "source.npz")
        (Path(folder)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "source.npz").rename(Path(folder) / filename)

    monkeypatch.setattr("torch_geometric.data.download_url", web)
    expect(monkeypatch, "squirrel-filtered", nodes=4)
    for _ in range(2):
        is_the_four_pages(load_task("squirrel-filtered", root=tmp_path))
    (url,) = asked
    assert url.startswith("https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/")
    assert url.endswith("/data/squirrel_filtered_directed.npz")


@pytest.mark.parametrize("keep", [0, 200])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    write_npz(tmp_path / FILTERED)
    file = tmp_path / FILTERED
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError) as caught:
        load_task("squirrel-filtered", root=tmp_path)
    assert str(caught.value).startswith(f"squirrel-filtered: {file} is damaged ")
    assert "\n" not in str(caught.value)


def test_a_file_without_an_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wikipedia_filtered").mkdir()
    np.savez(tmp_path / FILTERED, node_features=np.eye(4), edges=np.array(EDGES))
    with pytest.raises(DataError, match="KeyError: 'node_labels'"):
        load_task("squirrel-filtered", root=tmp_path)


def test_the_fixed_cornell_from_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb_cornell_alt" / "cornell", "cornell")
    expect(monkeypatch, "cornell-fixed", nodes=4, edges=5)
    is_the_four_pages(load_task("cornell-fixed", root=tmp_path))


@pytest.mark.usefixtures("offline")
def test_the_fixed_cornell_is_never_the_unfixed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_geom_gcn(tmp_path / "webkb_cornell_alt" / "cornell", "cornell")
    (tmp_path / "webkb_cornell_alt/cornell/raw/out1_graph_edges.txt").unlink()
    wrong = "mgnni.data.node_datasets.WebKB"
    monkeypatch.setattr(wrong, lambda *_: pytest.fail("would download another"))
    with pytest.raises(DataError, match=r"cornell-fixed: not found in .*, and the download failed"):
        load_task("cornell-fixed", root=tmp_path)


def test_the_fixed_cornell_is_the_same_from_either_copy(real: Path, tmp_path: Path) -> None:
    text = load_task("cornell-fixed", root=real)
    (graph,) = text.graphs
    once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    parts = {
        f"{part}_masks": np.stack(
            [np.isin(np.arange(183), split.part(part).numpy()) for split in text.splits]
        )
        for part in ("train", "val", "test")
    }
    (tmp_path / "webkb_cornell_alt").mkdir()
    np.savez(
        tmp_path / "webkb_cornell_alt" / "cornell.npz",
        node_features=(graph.x > 0).numpy(),
        node_labels=all_labels(text).numpy(),
        edges=once.T.numpy(),
        **parts,
    )
    npz = load_task("cornell-fixed", root=tmp_path)
    assert torch.equal(npz.graphs[0].edge_index, graph.edge_index)
    assert torch.allclose(npz.graphs[0].x, graph.x)
    assert torch.equal(all_labels(npz), all_labels(text))
    for one, other in zip(npz.splits, text.splits, strict=True):
        assert all(torch.equal(one.part(part), other.part(part)) for part in ("train", "test"))


@pytest.mark.parametrize(("key", "edges"), [("chameleon", 8854), ("squirrel", 46998)])
def test_undirected_it_is_the_graph_published_undirected(real: Path, key: str, edges: int) -> None:
    task = load_task(f"{key}-filtered", root=real, undirected=True)
    found = remove_self_loops(task.graphs[0].edge_index)[0]
    with np.load(real / "wikipedia_filtered" / f"{key}_filtered.npz") as file:
        published = torch.from_numpy(file["edges"]).T
        assert torch.equal(all_labels(task), torch.from_numpy(file["node_labels"]))
    assert published.size(1) == edges
    assert torch.equal(found, to_undirected(published))


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


def test_ppi_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_truncated_ppi_file_is_refused(tmp_path: Path) -> None:
    write_ppi(tmp_path / "ppi")
    file = tmp_path / "ppi" / "raw" / "train_graph.json"
    file.write_text(file.read_text()[:40])
    with pytest.raises(DataError, match=r"ppi: .*/ppi is damaged .*\(JSONDecodeError"):
        load_task("ppi", root=tmp_path)


def test_the_real_ppi_graphs(real: Path) -> None:
    task = load_task("ppi-recon", root=real)
    (split,) = task.splits
    sums = []
    for part in ("train", "val", "test"):
        graphs = [task.graphs[unit] for unit in split.part(part).tolist()]
        nodes, edges = (sum(getattr(g, n) for g in graphs) for n in ("num_nodes", "num_edges"))
        sums.append((len(graphs), nodes, edges))
    assert sums == [(20, 44906, 1226368), (2, 6514, 198920), (2, 5524, 161976)]
    assert (task.graphs[0].num_nodes, task.graphs[0].num_edges) == (1767, 32318)
    labels = all_labels(task)
    assert labels.shape == (56944, 121)
    assert torch.all((labels == 0) | (labels == 1))
    assert torch.is_floating_point(labels)
