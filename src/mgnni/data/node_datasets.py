"""Loaders of node classification benchmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import (
    PPI,
    Actor,
    HeterophilousGraphDataset,
    Planetoid,
    WebKB,
    WikipediaNetwork,
)
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import coalesce, to_undirected

from mgnni.data.entry import Entry
from mgnni.data.split import Split
from mgnni.data.storage import fetch_file, loading
from mgnni.data.task import Task
from mgnni.errors import DataError, check_choice

PLANETOID_SPLITS = ("public", "geom-gcn")
PLANETOID_TEST_NODES = 1000
PLATONOV_URL = (
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/"
    "a431395582e929d88271309716bea4fe24ce6318/data"
)


def load_geom_gcn(entry: Entry, root: Path) -> Task:
    """Loads WebKB, Wikipedia or Actor as published by Geom-GCN, with row-normalized features."""
    with loading(entry, root):
        folder = str(root / entry.family)
        if entry.family == "webkb":
            dataset = WebKB(folder, entry.key)
        elif entry.family == "wikipedia":
            dataset = WikipediaNetwork(folder, entry.key, geom_gcn_preprocess=True)
        else:
            dataset = Actor(folder)
        return node_task(entry, NormalizeFeatures()(dataset[0]))


def load_planetoid(entry: Entry, root: Path, *, split: str = "public") -> Task:
    """Loads a citation network, with row-normalized features.

    Args:
        entry (Entry): The dataset.
        root (Path): The folder of all datasets.
        split (str, optional): ``"public"``, one split with 20 training nodes per class, or
            ``"geom-gcn"``, ten splits. (default: ``"public"``)
    """
    check_choice("split", split, PLANETOID_SPLITS)
    key, raw = entry.key.lower(), root / entry.place / "raw"
    on_disk = None  # the entry lists the files of the public split
    if split == "geom-gcn":
        raw = root / entry.place / "geom-gcn" / "raw"
        on_disk = (raw / f"{key}_split_0.6_0.2_9.npz").is_file()  # the last one to be downloaded
    with loading(entry, root, on_disk=on_disk):
        data = Planetoid(str(root / "planetoid"), entry.key, split=split)[0]
        num_test = len(set((raw / f"ind.{key}.test.index").read_text().split()))
        if num_test != PLANETOID_TEST_NODES:  # PyG would assign features to the wrong nodes
            raise DataError(f"expected {PLANETOID_TEST_NODES} test nodes, got {num_test}")
        return node_task(entry, NormalizeFeatures()(data))


def load_heterophilous(entry: Entry, root: Path) -> Task:
    """Loads a graph of Platonov et al., with features as published."""
    with loading(entry, root):
        data = HeterophilousGraphDataset(str(root / "heterophilous"), entry.key)[0]
        return node_task(entry, data)


def load_wikipedia_filtered(entry: Entry, root: Path) -> Task:
    """Loads directed Wikipedia pages without duplicates, with row-normalized features."""
    path = root / entry.place
    with loading(entry, root):
        data = _read_npz(fetch_file(f"{PLATONOV_URL}/{path.name}", path))
        return node_task(entry, NormalizeFeatures()(data))


def load_webkb_fixed(entry: Entry, root: Path) -> Task:
    """Loads Cornell with its own features and labels; features are row-normalized."""
    folder = root / entry.place
    with loading(entry, root):
        # If the files are missing, WebKB would download the graph with the labels of Texas.
        if all((root / file).is_file() for file in entry.copies[0]):
            data = WebKB(str(folder), entry.key)[0]
        else:
            url = f"{PLATONOV_URL}/{entry.key}.npz"
            data = _read_npz(fetch_file(url, folder / f"{entry.key}.npz"))
            data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
        return node_task(entry, NormalizeFeatures()(data))


def load_ppi(entry: Entry, root: Path) -> Task:
    """Loads the training, validation and test graphs; nodes have several labels."""
    with loading(entry, root):
        parts = [list(PPI(str(root / entry.place), split)) for split in ("train", "val", "test")]
        graphs = [graph for part in parts for graph in part]
        units = torch.split(torch.arange(len(graphs)), [len(part) for part in parts])
        labels = torch.cat([graph.y for graph in graphs])
        return Task(
            entry.name,
            graphs,
            labels,
            [Split.of(*units)],
            [str(label) for label in range(labels.size(1))],
            metric=entry.metric,
            notes=entry.traps,
        )


def node_task(entry: Entry, data: Data) -> Task:
    """Creates a task from a graph with masks of shape ``(num_nodes,)`` or one column per split."""
    masks = [_columns(data[name]) for name in ("train_mask", "val_mask", "test_mask")]
    splits = [Split.of(*parts) for parts in zip(*masks, strict=True)]
    classes = [str(label) for label in range(int(data.y.max()) + 1)]
    return Task(entry.name, [data], data.y, splits, classes, metric=entry.metric, notes=entry.traps)


def _columns(mask: Tensor) -> tuple[Tensor, ...]:
    # Some masks of PyG are uint8, which would be read as indices.
    return mask.bool().view(mask.size(0), -1).unbind(1)


def _read_npz(path: Path) -> Data:
    """Reads a graph in the format of Platonov et al., with one column of masks per split."""
    with path.open("rb") as raw, np.load(raw) as file:  # numpy does not close a damaged file
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    x = arrays["node_features"].float()
    return Data(
        x=x,
        edge_index=coalesce(arrays["edges"].t().contiguous(), num_nodes=x.size(0)),
        y=arrays["node_labels"].long(),
        train_mask=arrays["train_masks"].t(),
        val_mask=arrays["val_masks"].t(),
        test_mask=arrays["test_masks"].t(),
    )
