"""Graphs that PyTorch Geometric has no class for: those in the ``npz`` files of Platonov et al."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import WebKB
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import coalesce, to_undirected

from mgnni.data.entry import Entry
from mgnni.data.fetch import fetch_file, fetching
from mgnni.data.nodes import node_task
from mgnni.data.task import Task

URL = (
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/"
    "a431395582e929d88271309716bea4fe24ce6318/data"
)


def load_wikipedia_filtered(entry: Entry, root: Path) -> Task:
    """Load pages of Wikipedia without duplicates, directed; words are row-normalised."""
    path = root / entry.place
    with fetching(entry, root):
        data = read_npz(fetch_file(f"{URL}/{path.name}", path))
        return node_task(entry, NormalizeFeatures()(data))


def load_webkb_fixed(entry: Entry, root: Path) -> Task:
    """Load Cornell with features and labels of its own; words are row-normalised."""
    folder = root / entry.place
    with fetching(entry, root):
        # Asked for a Cornell that is not there, WebKB would download the one with Texas's labels.
        if all((root / file).is_file() for file in entry.copies[0]):
            data = WebKB(str(folder), entry.key)[0]
        else:
            data = read_npz(fetch_file(f"{URL}/{entry.key}.npz", folder / f"{entry.key}.npz"))
            data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
        return node_task(entry, NormalizeFeatures()(data))


def read_npz(path: Path) -> Data:
    """Read a graph with its splits, the masks of which become columns."""
    with path.open("rb") as raw, np.load(raw) as file:  # left to numpy, a bad one stays open
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
