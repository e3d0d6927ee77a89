"""From a plan to finished runs, and back to work after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mgnni.data.rules import Rule, RunHistory, get_rule
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, ConvergenceError, DataError
from mgnni.train.build import bare_model
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.learner import Learner, check_graphs, learner_for
from mgnni.train.select import Selector
from mgnni.train.streams import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

SMALL = 2**17  # numbers in the states of a run, up to which a second thread only waits
MOST_AT_ONCE = 2**28  # numbers in the states of all runs of a group: 1 GiB in single precision


@dataclass(frozen=True)
class Plan:
    """What is to be trained.

    Attributes:
        task: graphs, labels, splits, metric.
        config: model and training.
        runs: one training each.
        rule: which epoch is reported.
        together: train the runs of one graph as one batched model.
    """

    task: Task
    config: Config
    runs: tuple[Run, ...]
    rule: str = "validation"
    together: bool = True

    @property
    def size(self) -> int:
        """Numbers in the states of one run, on one graph or on a batch of mean size."""
        model, graphs = self.config.model, self.task.graphs
        nodes = sum(int(graph.num_nodes) for graph in graphs)
        nodes = nodes * min(self.config.batch_size, len(graphs)) // len(graphs)
        width = model.hidden_channels or self.task.num_features
        deep = getattr(model, "num_layers", None) or len(getattr(model, "scales", (1,)))
        return max(nodes * width * deep, 1)

    def groups(self) -> list[list[Run]]:
        """Runs that are trained side by side."""
        size = 1
        if self.together and self.task.unit == "node" and self._shares_graph():
            size = max(MOST_AT_ONCE // self.size, 1)
        return [list(self.runs[i : i + size]) for i in range(0, len(self.runs), size)]

    def _shares_graph(self) -> bool:
        """Whether the model can be mapped over runs, which may depend on its options."""
        task, classes = self.task, len(self.task.classes)
        return bare_model(self.config, task.num_features, classes, task.level).supports_vmap

    def check(self) -> Rule:
        """Refuse a plan that cannot be carried out; return its rule."""
        rule = get_rule(self.rule)
        check_graphs(self.task.graphs, self.task.num_features)
        for split in sorted({run.split for run in self.runs}):
            where = f"{self.task.name}, split {split}"
            self.task.check_metric(split)
            if self.task.rows(split, "test").numel() == 0:
                raise DataError(f"{where}: no labelled row to test on; give the test part some")
            if not rule.needs_test_curve and self.task.rows(split, "val").numel() == 0:
                raise DataError(
                    f"{where}: rule '{rule.name}' needs labelled validation rows (got none); hold "
                    "some out of the training part, or ask for another rule"
                )
        return rule


@dataclass
class Finished:
    """A run that has been trained and evaluated.

    Attributes:
        run: which one.
        selected_epoch: the epoch its weights are from.
        epochs: how many it was trained for.
        val: metrics on validation at that epoch; empty if there is none.
        test: metrics on the test part.
        test_curve: the metric on the test part after every epoch, for rules that ask for it.
        weights: ``state_dict`` of the model.
    """

    run: Run
    selected_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    test_curve: list[float] | None
    weights: dict[str, Tensor]

    def history(self, metric: str) -> RunHistory:
        """What a rule needs to know of it."""
        curve = None if self.test_curve is None else tuple(self.test_curve)
        run, test = self.run, self.test[metric]
        return RunHistory(run.split, run.seed, self.selected_epoch, test, curve)


@dataclass
class Epoch:
    """What is known after an epoch of a group, for progress and log."""

    group: int
    groups: int
    epoch: int
    epochs: int
    runs: list[Run]
    loss: list[float]
    val_loss: list[float]
    val_metric: list[float]
    best_metric: list[float]
    waited: int  # the least patience used up of all runs
    finished: int

    def row(self) -> dict[str, Any]:
        """A row of the log."""
        return {
            "epoch": self.epoch,
            "split": [run.split for run in self.runs],
            "seed": [run.seed for run in self.runs],
            "loss": self.loss,
            "val_loss": self.val_loss,
            "val_metric": self.val_metric,
        }


OnEpoch = Callable[[Epoch], None]


@dataclass
class Training:
    """A plan in progress. Everything it depends on is in :meth:`state`."""

    plan: Plan
    fabric: Fabric
    finished: list[Finished] = field(default_factory=list)
    certificates: Certificates = field(default_factory=Certificates)
    log: list[dict[str, Any]] = field(default_factory=list)
    group: int = 0
    epoch: int = 0
    learner: Learner | None = None
    selectors: list[Selector] = field(default_factory=list)
    curves: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rule = self.plan.check()
        self.groups = self.plan.groups()
        task, splits = self.plan.task, {run.split for run in self.plan.runs}
        # Runs are chosen on validation data if all have some; a rule may do without.
        self.validates = all(task.rows(split, "val").numel() for split in splits)

    def run(self, on_epoch: OnEpoch, save: Callable[[], None]) -> None:
        """Train until all runs are finished.

        Args:
            on_epoch: called after every epoch.
            save: called where :meth:`state` may be written down.
        """
        while self.group < len(self.groups):
            if self.learner is None:
                self._begin(self.groups[self.group])
            while self.learner is not None:
                self._one_epoch(on_epoch)
                save()

    def _begin(self, runs: Sequence[Run]) -> None:
        task, config = self.plan.task, self.plan.config
        self.learner = learner_for(task)(task, config, runs, self.fabric)
        self.selectors = [Selector.of(config) for _ in runs]
        self.curves = [[] for _ in runs]
        self.epoch = 0

    def _one_epoch(self, on_epoch: OnEpoch) -> None:
        learner, config = self._learner(), self.plan.config
        self.epoch += 1
        try:
            loss = learner.train_epoch(self.epoch)
            val = learner.validate() if self.validates else []
            test = self._measure("test") if self.rule.needs_test_curve else []
        except (ArgumentError, ConvergenceError):
            learner.check_finite(self.epoch)
            raise
        learner.check_finite(self.epoch, [*loss, *(one[0] for one in val)])
        if val:
            better = [s.update(self.epoch, *v) for s, v in zip(self.selectors, val, strict=True)]
        else:
            better = [True for _ in self.selectors]
            for selector in self.selectors:
                selector.best_epoch = self.epoch
        learner.keep_best([place for place, yes in enumerate(better) if yes])
        if test:
            for curve, metrics in zip(self.curves, test, strict=True):
                curve.append(metrics[self.plan.task.metric])
        on_epoch(self._heard(loss, val))
        last = self.epoch >= config.epochs
        stops = val and not self.rule.needs_test_curve
        done = [p for p, s in enumerate(self.selectors) if last or (stops and s.done)]
        if done:
            self._finish(done)

    def _heard(self, loss: list[float], val: list[tuple[float, float]]) -> Epoch:
        heard = Epoch(
            group=self.group,
            groups=len(self.groups),
            epoch=self.epoch,
            epochs=self.plan.config.epochs,
            runs=list(self._learner().runs),
            loss=loss,
            val_loss=[one[0] for one in val],
            val_metric=[one[1] for one in val],
            best_metric=[s.best_metric for s in self.selectors] if val else [],
            waited=min(s.waited for s in self.selectors),
            finished=len(self.finished),
        )
        self.log.append(heard.row())
        return heard

    def _finish(self, done: list[int]) -> None:
        """Evaluate runs at their selected epochs, and take them out of the training."""
        learner = self._learner()
        now = learner.together.snapshot()
        learner.use_best()
        val = self._measure("val") if self.validates else [{} for _ in learner.runs]
        test = self._measure("test", only=done)
        learner.together.restore(now)
        for place, measured in zip(done, test, strict=True):
            self.finished.append(
                Finished(
                    run=learner.runs[place],
                    selected_epoch=self.selectors[place].best_epoch,
                    epochs=self.epoch,
                    val=val[place],
                    test=measured,
                    test_curve=self.curves[place] if self.rule.needs_test_curve else None,
                    weights=learner.best_of(place),
                )
            )
        rest = [place for place in range(len(learner.runs)) if place not in done]
        if rest:
            learner.keep(rest)
            self.selectors = [self.selectors[place] for place in rest]
            self.curves = [self.curves[place] for place in rest]
            return
        self.certificates.merge(learner.certificates)
        self.learner = None
        self.group += 1

    def _measure(self, part: str, only: Sequence[int] | None = None) -> list[dict[str, float]]:
        learner, task = self._learner(), self.plan.task
        scores = learner.scores(part)
        places = range(len(scores)) if only is None else only
        return [task.evaluate(scores[p], learner.runs[p].split, part) for p in places]

    def _learner(self) -> Learner:
        if self.learner is None:
            raise RuntimeError("no group is in training")
        return self.learner

    def state(self) -> dict[str, Any]:
        """Return everything, as tensors and plain data."""
        learner = self.learner
        return {
            "finished": [{**vars(one), "run": asdict(one.run)} for one in self.finished],
            "certificates": self.certificates.to_dict(),
            "log": self.log,
            "group": self.group,
            "epoch": self.epoch,
            "runs": None if learner is None else [asdict(run) for run in learner.runs],
            "learner": None if learner is None else learner.state(),
            "selectors": [asdict(selector) for selector in self.selectors],
            "curves": self.curves,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same plan."""
        self.finished = [Finished(**{**one, "run": Run(**one["run"])}) for one in state["finished"]]
        self.certificates = Certificates.from_dict(state["certificates"])
        self.log, self.group = state["log"], state["group"]
        if state["learner"] is None:
            return
        self._begin([Run(**run) for run in state["runs"]])
        self._learner().load_state(state["learner"])
        self.epoch = state["epoch"]
        self.selectors = [Selector(**selector) for selector in state["selectors"]]
        self.curves = state["curves"]
