"""Node classification on one graph, as PyTorch Geometric's dataset classes load it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import (
    Actor,
    HeterophilousGraphDataset,
    Planetoid,
    WebKB,
    WikipediaNetwork,
)
from torch_geometric.transforms import NormalizeFeatures

from mgnni.data.entry import Entry
from mgnni.data.fetch import fetching
from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.errors import DataError, check_choice

PLANETOID_SPLITS = ("public", "geom-gcn")
PLANETOID_TEST_NODES = 1000


def load_webkb(entry: Entry, root: Path) -> Task:
    """Load pages of a university; words are row-normalised, as the authors do."""
    with fetching(entry, root):
        data = WebKB(str(root / "webkb"), entry.key)[0]
        return node_task(entry, NormalizeFeatures()(data))


def load_wikipedia(entry: Entry, root: Path) -> Task:
    """Load pages of Wikipedia in Geom-GCN's form; words are row-normalised."""
    with fetching(entry, root):
        data = WikipediaNetwork(str(root / "wikipedia"), entry.key, geom_gcn_preprocess=True)[0]
        return node_task(entry, NormalizeFeatures()(data))


def load_actor(entry: Entry, root: Path) -> Task:
    """Load the graph of actors; words are row-normalised."""
    with fetching(entry, root):
        data = Actor(str(root / "actor"))[0]
        return node_task(entry, NormalizeFeatures()(data))


def load_planetoid(entry: Entry, root: Path, *, split: str = "public") -> Task:
    """Load a graph of citations; words are row-normalised.

    Args:
        entry: which.
        root: the folder of all datasets.
        split: ``"public"``, one split with 20 training nodes a class; or Geom-GCN's ten.
    """
    check_choice("split", split, PLANETOID_SPLITS)
    key, raw = entry.key.lower(), root / entry.place / "raw"
    on_disk = None  # the entry knows the files of the public split
    if split == "geom-gcn":
        raw = root / entry.place / "geom-gcn" / "raw"
        on_disk = (raw / f"{key}_split_0.6_0.2_9.npz").is_file()  # the last that is downloaded
    with fetching(entry, root, on_disk=on_disk):
        data = Planetoid(str(root / "planetoid"), entry.key, split=split)[0]
        tested = len(set((raw / f"ind.{key}.test.index").read_text().split()))
        if tested != PLANETOID_TEST_NODES:  # PyG would give other nodes the wrong features
            raise DataError(f"expected {PLANETOID_TEST_NODES} test nodes, got {tested}")
        return node_task(entry, NormalizeFeatures()(data))


def load_heterophilous(entry: Entry, root: Path) -> Task:
    """Load one of the graphs of Platonov et al., with features as they are."""
    with fetching(entry, root):
        data = HeterophilousGraphDataset(str(root / "heterophilous"), entry.key)[0]
        return node_task(entry, data)


def node_task(entry: Entry, data: Data) -> Task:
    """Make a task of a graph with masks, one a split: shape ``(num_nodes,)`` or with columns."""
    masks = [_columns(data[name]) for name in ("train_mask", "val_mask", "test_mask")]
    splits = [Split.of(*parts) for parts in zip(*masks, strict=True)]
    classes = [str(label) for label in range(int(data.y.max()) + 1)]
    return Task(entry.name, [data], data.y, splits, classes, metric=entry.metric, notes=entry.traps)


def _columns(mask: Tensor) -> tuple[Tensor, ...]:
    # Some of PyG's masks are bytes, which would be taken for indices.
    return mask.bool().view(mask.size(0), -1).unbind(1)
