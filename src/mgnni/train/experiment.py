"""What to train: data, configuration, runs and device, checked before anything starts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch

from mgnni.data.rules import DEFAULT_RULE, get_rule
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, DataError
from mgnni.models.base import GraphModel
from mgnni.train.config import Config
from mgnni.train.ensemble import meta_model
from mgnni.train.inputs import check_graphs
from mgnni.train.runs import Run
from mgnni.train.source import Source

CHECKPOINT_EVERY = 10.0  # seconds
SMALL = 2**17  # elements in the states of a run, up to which more threads do not help
MAX_GROUP = 2**28  # elements in the states (or weights) of all runs of a group: 1 GiB in float32
# On a CPU more would leave its caches, and more runs gain little, while other cores are idle.
SMALL_GROUP, RUNS_OF_SMALL_GROUP = 2**22, 5


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the outcome of a training; errors are raised on construction.

    Args:
        source (Source): Data, and how to read more of the same kind.
        config (Config): Model and training hyperparameters.
        runs (tuple[Run, ...]): Splits and seeds.
        rule (str, optional): Rule that selects the epoch to report.
            (default: :obj:`"validation"`)
        together (bool, optional): Train runs on one graph as batched models of several runs.
            (default: :obj:`True`)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``.
            (default: :obj:`"auto"`)
        deterministic (bool, optional): Use deterministic algorithms only, and one thread on a CPU.
            (default: :obj:`False`)
        checkpoint_every (float, optional): Seconds between checkpoints. (default: :obj:`10.0`)
        test (bool, optional): Evaluate the runs on their test sets when they are finished. Without
            it there is nothing to report. (default: :obj:`True`)
        jobs (int, optional): Number of processes, which train different groups of runs;
            :obj:`None` chooses it. Results do not depend on it. (default: :obj:`1`)
        portfolio (dict[str, Any], optional): How the configuration was chosen among others, for
            the report. (default: :obj:`None`)
    """

    source: Source
    config: Config
    runs: tuple[Run, ...]
    rule: str = DEFAULT_RULE
    together: bool = True
    device: str = "auto"
    deterministic: bool = False
    checkpoint_every: float = CHECKPOINT_EVERY
    test: bool = True
    jobs: int | None = 1
    portfolio: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ArgumentError(f"'jobs' must be at least 1 (got {self.jobs}); 1 is one process")
        task, rule = self.task, get_rule(self.rule)
        if getattr(self.config.model, "input_map", None) == "graph":
            object.__setattr__(self, "config", _bound_to_graph(self.config, task))
        if self.config.class_weight == "balanced" and (task.multilabel or task.regression):
            what = "numbers to predict" if task.regression else "a task with several"
            raise ArgumentError(
                f"'class_weight' balanced needs one label per row (got {what}); use 'none'"
            )
        if task.regression and rule.needs_test_curve:
            raise ArgumentError(
                f"'rule' must be 'validation' for numbers to predict (got {self.rule!r}, which "
                "repeats published protocols of classification); leave it out"
            )
        check_graphs(task.graphs, task.num_features)
        for split in self.splits:
            where = f"{task.name}, split {split}"
            task.check_metric(split)
            if self.test and task.rows(split, "test").numel() == 0:
                raise DataError(f"{where}: the test set has no labelled rows; add some")
            if not rule.needs_test_curve and task.rows(split, "val").numel() == 0:
                raise DataError(
                    f"{where}: rule '{rule.name}' needs labelled validation rows (got none); move "
                    "some from the training set, or choose another rule"
                )
        _ = self.model

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields, without the cached model."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def task(self) -> Task:
        """Graphs, labels, splits and metric."""
        return self.source.task

    @property
    def splits(self) -> list[int]:
        """The splits of the runs."""
        return sorted({run.split for run in self.runs})

    @cached_property
    def model(self) -> GraphModel:
        """The model on the meta device; building it checks its options."""
        task = self.task
        sizes = task.num_features, len(task.classes)
        return meta_model(self.config, *sizes, task.level, task.regression)

    @property
    def size(self) -> int:
        """Number of elements in the states of one run, or in its weights if these are larger.

        The states are those of one graph, or of a batch of average size. A weight between states
        is as wide as they are, and larger than them if there are more channels than nodes.
        """
        model, graphs = self.config.model, self.task.graphs
        nodes = sum(int(graph.num_nodes) for graph in graphs)
        nodes = nodes * min(self.config.batch_size, len(graphs)) // len(graphs)
        width = model.hidden_channels or self.task.num_features
        depth = getattr(model, "num_layers", None) or len(getattr(model, "scales", (1,)))
        return max(max(nodes, width) * width * depth, 1)

    def single_threaded(self, device: torch.device) -> bool:
        """Return whether to use one thread: on a CPU, to be repeatable or for small states.

        Args:
            device (torch.device): Where to train.
        """
        return device.type == "cpu" and (self.deterministic or self.size <= SMALL)

    def groups(self, small: bool = False) -> list[list[Run]]:
        """Return the runs in groups; those of a group are one batched model.

        Args:
            small (bool, optional): Make groups that suit a CPU and can be trained by several
                processes, instead of the largest that fit the memory. (default: :obj:`False`)
        """
        size = 1
        if self.together and self.task.unit == "node" and self.model.supports_vmap:
            size = max(MAX_GROUP // self.size, 1)
            if small:
                most = max(min(size, SMALL_GROUP // self.size, RUNS_OF_SMALL_GROUP), 1)
                size = -(-len(self.runs) // -(-len(self.runs) // most))  # about equal groups
        return [list(self.runs[i : i + size]) for i in range(0, len(self.runs), size)]


def _bound_to_graph(config: Config, task: Task) -> Config:
    """Return the configuration with the number of nodes, for a model of one graph."""
    if len(task.graphs) != 1:
        raise DataError(
            f"{task.name}: input_map 'graph' needs a single graph, whose nodes it embeds (got "
            f"{len(task.graphs)} graphs); use input_map 'mlp'"
        )
    model = replace(config.model, num_nodes=int(task.graphs[0].num_nodes))
    return replace(config, model=model)


def runs_of(
    task: Task, split: int | Sequence[int] | str, seed: int | Sequence[int]
) -> tuple[Run, ...]:
    """Return a run for every pair of split and seed.

    Args:
        task (Task): The task.
        split (int or Sequence[int] or str): Indices of splits, or ``"all"``.
        seed (int or Sequence[int]): Random seeds.
    """
    if isinstance(split, str):
        if split != "all":
            raise ArgumentError(f"'split' must be a number, several, or 'all' (got {split!r})")
        split = range(len(task.splits))
    splits = _integers("split", split, len(task.splits) - 1)
    seeds = _integers("seed", seed, 2**62)
    return tuple(Run(a, b) for a in splits for b in seeds)


def _integers(name: str, value: int | Sequence[int], largest: int) -> list[int]:
    """Return one integer or several as a list, all distinct and in range."""
    try:
        found = [operator.index(one) for one in (value if isinstance(value, Iterable) else [value])]
    except TypeError:
        raise ArgumentError(
            f"'{name}' must be a whole number, or several (got {value!r})"
        ) from None
    if not found:
        raise ArgumentError(f"'{name}' must hold at least one number (got none)")
    for one in found:
        if not 0 <= one <= largest:
            allowed = f"lie between 0 and {largest}" if largest else "be 0"
            raise ArgumentError(f"'{name}' must {allowed} (got {one})")
    if len(set(found)) < len(found):
        raise ArgumentError(f"'{name}' must not repeat a number (got {found})")
    return found
