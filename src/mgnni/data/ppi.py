"""Proteins in 24 tissues: several labels a node, and graphs that are new at the test."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_geometric.datasets import PPI

from mgnni.data.entry import Entry
from mgnni.data.fetch import fetching
from mgnni.data.split import Split
from mgnni.data.task import Task


def load_ppi(entry: Entry, root: Path) -> Task:
    """Load the graphs of training, validation and test, one after another."""
    with fetching(entry, root):
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
