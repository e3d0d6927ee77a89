"""Tasks small enough to train a hundred times, and what the tests of training share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.train.config import Config, changed
from mgnni.train.device import make_fabric
from mgnni.train.ensemble import meta_model
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch, Run, RunResult
from mgnni.train.source import Source
from mgnni.train.training import Training
from problems import generator

NODES, CLASSES = 40, 3
SMALL: dict[str, Any] = {"hidden_channels": 6, "attention_channels": 4, "epochs": 8}
EXACT: dict[str, Any] = {"precision": "64", "tol": 1e-12}


def config(**changes: Any) -> Config:
    """A small configuration."""
    return changed(Config(), {**SMALL, **changes})


def num_parameters(chosen: Config, in_channels: int, out_channels: int, level: str) -> int:
    """Number of learnable parameters of a model."""
    model = meta_model(chosen, in_channels, out_channels, level)
    return sum(one.numel() for one in model.parameters())


def node_data(
    directed: bool = False, features: str = "dense", seed: int = 0
) -> tuple[Data, Tensor]:
    """A random graph whose classes can be learnt, and its labels."""
    g = generator(seed)
    y = torch.randint(0, CLASSES, (NODES,), generator=g)
    edge_index = torch.randint(0, NODES, (2, 3 * NODES), generator=g)
    if not directed:
        edge_index = to_undirected(edge_index, num_nodes=NODES)
    if features == "sparse":  # words, each used by few
        x = (torch.rand(NODES, 50, generator=g) < 0.04).float()
        x[torch.arange(NODES), y] = 1
    else:
        x = torch.randn(NODES, 5, generator=g)
        x[torch.arange(NODES), y] += 1.5
    return Data(x=x, edge_index=edge_index), y


def random_split(count: int, seed: int, parts: Sequence[float] = (0.3, 0.3)) -> Split:
    order = torch.randperm(count, generator=generator(1000 + seed))
    first, second = round(parts[0] * count), round((parts[0] + parts[1]) * count)
    return Split.of(order[:first], order[first:second], order[second:])


def node_task(
    splits: int = 2,
    *,
    directed: bool = False,
    features: str = "dense",
    multilabel: bool = False,
    metric: str | None = None,
    seed: int = 0,
) -> Task:
    """One graph, a label or three a node; the last two nodes have none."""
    data, y = node_data(directed, features, seed)
    labels = y.clone()
    labels[-2:] = -1
    if multilabel:
        labels = torch.stack([y == 0, y != 1, data.x[:, 4] > 0], 1).float()
        labels[-2:] = float("nan")
    every = [random_split(NODES, index) for index in range(splits)]
    return Task("nodes", [data], labels, every, "abc", metric=metric)


def ring(size: int, label: int, g: torch.Generator) -> Data:
    """A ring, with a chord if its label is 1."""
    nodes = torch.arange(size)
    edges = torch.stack([nodes, (nodes + 1) % size])
    if label:
        edges = torch.cat([edges, torch.tensor([[0], [size // 2]])], dim=1)
    x = torch.randn(size, 4, generator=g) + label
    return Data(x=x, edge_index=to_undirected(edges, num_nodes=size))


def graph_task(
    count: int = 20, splits: int = 2, val: bool = True, metric: str | None = None
) -> Task:
    """Rings with and without a chord; one of them has no label."""
    g = generator(5)
    labels = torch.arange(count) % 2
    graphs = [ring(3 + index % 5, int(label), g) for index, label in enumerate(labels)]
    labels[1] = -1
    parts = (0.4, 0.2) if val else (0.6, 0.0)
    every = [random_split(count, index, parts) for index in range(splits)]
    return Task("rings", graphs, labels, every, ["plain", "chord"], level="graph", metric=metric)


def inductive_task(multilabel: bool = True) -> Task:
    """Six graphs with labels at their nodes, some of them unknown, as PPI has them."""
    g = generator(6)
    graphs = [ring(4 + index, index % 2, g) for index in range(6)]
    x = torch.cat([graph.x for graph in graphs])
    if multilabel:
        labels = torch.stack([x[:, 0] > 0.5, x[:, 1] + x[:, 2] > 1], 1).float()
        labels[::7] = float("nan")
    else:
        labels = (x[:, 0] > 0.5).long()
        labels[::7] = -1
    parts = (torch.tensor([0, 1, 2]), torch.tensor([3]), torch.tensor([4, 5]))
    return Task("inductive", graphs, labels, [Split.of(*parts)], ["one", "two"])


def runs(splits: int = 1, seeds: int = 1) -> tuple[Run, ...]:
    return tuple(Run(split, seed) for split in range(splits) for seed in range(seeds))


def ignore(_: Epoch) -> None:
    """Do nothing after an epoch."""


def training(
    task: Task,
    chosen: Config,
    which: Sequence[Run],
    rule: str = "validation",
    together: bool = True,
    device: str = "cpu",
) -> Training:
    """A training that has not begun."""
    source = Source(task, None, "here")
    experiment = Experiment(source, chosen, tuple(which), rule, together, device)
    return Training(experiment, make_fabric(device, chosen.precision))


def trained(*args: Any, **options: Any) -> Training:
    """The same when it is over."""
    made = training(*args, **options)
    made.run()
    return made


def by_run(made: Training) -> dict[Run, RunResult]:
    return {one.run: one for one in made.finished}


def losses(made: Training) -> dict[Run, list[tuple[float, ...]]]:
    """Loss, validation loss and metric of every epoch of every run, from the log."""
    found: dict[Run, list[tuple[float, ...]]] = {run: [] for run in made.experiment.runs}
    for row in made.log:
        names = [Run(*pair) for pair in zip(row["split"], row["seed"], strict=True)]
        columns = [row[key] for key in ("loss", "val_loss", "val_metric") if row[key]]
        for run, *numbers in zip(names, *columns, strict=True):
            found[run].append(tuple(numbers))
    return found


def stored(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a file."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded


def ending(one: RunResult) -> tuple[Any, ...]:
    """How a run ended, in numbers."""
    return one.epochs, one.selected_epoch, one.val, one.test


def assert_same_bits(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert torch.equal(value, b[name]), name


def differ(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return any(not torch.equal(value, b[name]) for name, value in a.items())
