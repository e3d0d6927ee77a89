from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.utils import remove_self_loops, to_undirected

from data.raw import EDGES, expect, write_geom_gcn, write_npz
from data.test_nodes import is_the_four_pages
from mgnni.data.registry import load_task
from mgnni.data.task import stratified_labels
from mgnni.errors import DataError

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

    monkeypatch.setattr("mgnni.data.storage.download_url", web)
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
    assert str(caught.value).startswith(f"squirrel-filtered: {file} is damaged or cut short (")
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
    monkeypatch.setattr("mgnni.data.node_datasets.WebKB", lambda *_: pytest.fail("would download another"))
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
        node_labels=stratified_labels(text).numpy(),
        edges=once.T.numpy(),
        **parts,
    )
    npz = load_task("cornell-fixed", root=tmp_path)
    assert torch.equal(npz.graphs[0].edge_index, graph.edge_index)
    assert torch.allclose(npz.graphs[0].x, graph.x)
    assert torch.equal(stratified_labels(npz), stratified_labels(text))
    for one, other in zip(npz.splits, text.splits, strict=True):
        assert all(torch.equal(one.part(part), other.part(part)) for part in ("train", "test"))


@pytest.mark.parametrize(("key", "edges"), [("chameleon", 8854), ("squirrel", 46998)])
def test_undirected_it_is_the_graph_published_undirected(real: Path, key: str, edges: int) -> None:
    task = load_task(f"{key}-filtered", root=real, undirected=True)
    found = remove_self_loops(task.graphs[0].edge_index)[0]
    with np.load(real / "wikipedia_filtered" / f"{key}_filtered.npz") as file:
        published = torch.from_numpy(file["edges"]).T
        assert torch.equal(stratified_labels(task), torch.from_numpy(file["node_labels"]))
    assert published.size(1) == edges
    assert torch.equal(found, to_undirected(published))
