"""The training loop over groups of runs; its state can be saved and loaded after every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mgnni.data.assessment.threshold import best_threshold
from mgnni.data.rules import get_rule
from mgnni.data.task import Task
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import ArgumentError, ConvergenceError
from mgnni.train.batch_learner import BatchLearner
from mgnni.train.certificates import Certificates
from mgnni.train.device import on_cpu
from mgnni.train.experiment import Experiment
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.learner import Learner
from mgnni.train.node_learner import NodeLearner
from mgnni.train.runs import EarlyStopping, Epoch, Run, RunResult
from mgnni.train.sharded_learner import ShardedNodeLearner

if TYPE_CHECKING:
    from lightning_fabric import Fabric

OnEpoch = Callable[[Epoch], None]
_OF_GROUP = ("epoch", "runs", "learner", "selectors", "curves")  # state of the group in progress


def learner_for(task: Task) -> type[NodeLearner] | type[GraphLearner]:
    """Return the learner of a task: for the nodes of one graph, or for many graphs."""
    return NodeLearner if task.unit == "node" else GraphLearner


def shared_learner_for(task: Task) -> type[ShardedNodeLearner] | type[BatchLearner]:
    """Return the learner of a task that several processes share."""
    return ShardedNodeLearner if task.unit == "node" else BatchLearner


@dataclass
class Training:
    """An experiment in progress; everything it depends on is in :meth:`state`.

    Args:
        experiment (Experiment): What to train.
        fabric (Fabric): Device and precision.
        mesh (ProcessMesh, optional): The processes that train together, each of which has a
            training like this one.
    """

    experiment: Experiment
    fabric: Fabric
    mesh: ProcessMesh | None = None
    finished: list[RunResult] = field(default_factory=list)
    certificates: Certificates = field(default_factory=Certificates)
    log: list[dict[str, Any]] = field(default_factory=list)
    group: int = 0
    epoch: int = 0
    learner: Learner | None = None
    stopping: list[EarlyStopping] = field(default_factory=list)
    curves: list[list[float]] = field(default_factory=list)
    # States of later groups that were trained by other processes, see mgnni.train.processes.
    pending: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Certificates of each finished group, and its state if it reached the last epoch.
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.task, self.config = self.experiment.task, self.experiment.config
        self.rule = get_rule(self.experiment.rule)
        self.tests_epochs = self.experiment.test and self.rule.needs_test_curve
        # Runs of a search, which are not tested, are compared after every epoch, so all of them
        # are in one group if possible; and the processes of a mesh train the same group.
        separate = self.experiment.test and self.mesh is None
        self.groups = self.experiment.groups(small=separate and self.fabric.device.type == "cpu")
        # Epochs are selected on validation sets if all splits have one; some rules need none.
        splits = self.experiment.splits
        self.validates = all(self.task.rows(split, "val").numel() for split in splits)

    def run(self, on_epoch: OnEpoch | None = None, save: Callable[[], None] | None = None) -> None:
        """Train until all runs are finished.

        Args:
            on_epoch (Callable[[Epoch], None], optional): Called after every epoch.
                (default: :obj:`None`)
            save (Callable[[], None], optional): Called when :meth:`state` may be saved.
                (default: :obj:`None`)
        """
        for epoch in self.epochs():
            if on_epoch is not None:
                on_epoch(epoch)
            if save is not None:
                save()

    def epochs(self) -> Iterator[Epoch]:
        """Train until all runs are finished, and yield every epoch when it is complete.

        A loop over the epochs may be left, and another one goes on where it was left.
        """
        while self.group < len(self.groups):
            if self.group in self.pending:
                self.load_state(self.pending.pop(self.group))
            elif self.learner is None:
                self._begin(self.groups[self.group])
            while self.learner is not None:
                yield self._one_epoch()

    def _begin(self, runs: Sequence[Run]) -> None:
        about = self.task, self.config, runs, self.fabric
        if self.mesh is None:
            self.learner = learner_for(self.task)(*about)
        else:
            self.learner = shared_learner_for(self.task)(*about, self.mesh)
        self.stopping = [EarlyStopping.from_config(self.config, self.task.metric) for _ in runs]
        self.curves = [[] for _ in runs]
        self.epoch = 0

    def _one_epoch(self) -> Epoch:
        learner = self._learner()
        self.epoch += 1
        try:
            loss = learner.train_epoch(self.epoch)
            val = learner.validate() if self.validates else []
            test = self._measure("test") if self.tests_epochs else []
        except (ArgumentError, ConvergenceError):
            learner.check_finite(self.epoch)  # diverged weights explain the error better
            raise
        learner.check_finite(self.epoch, [*loss, *(one[0] for one in val)])
        improved = self._improved(val)
        learner.keep_best(improved)
        for curve, metrics in zip(self.curves if test else [], test, strict=True):
            curve.append(metrics[self.task.metric])
        epoch = self._epoch(loss, val, improved)
        self.log.append(epoch.row())
        if val and not self.tests_epochs:
            self._finish([place for place, one in enumerate(self.stopping) if one.done])
        if self.learner is not None and self.epoch >= self.config.epochs:
            state = self.state()
            limit = {key: on_cpu(state[key]) for key in _OF_GROUP}
            self._finish(list(range(len(self.stopping))), limit)
        return epoch

    def _improved(self, val: list[tuple[float, float]]) -> list[int]:
        """Return the runs whose best epoch is this one; without validation, all of them."""
        if val:
            pairs = enumerate(zip(self.stopping, val, strict=True))
            return [place for place, (one, found) in pairs if one.update(self.epoch, *found)]
        for one in self.stopping:
            one.best_epoch = self.epoch
        return list(range(len(self.stopping)))

    def _epoch(
        self, loss: list[float], val: list[tuple[float, float]], improved: list[int]
    ) -> Epoch:
        return Epoch(
            group=self.group,
            groups=len(self.groups),
            epoch=self.epoch,
            epochs=self.config.epochs,
            runs=list(self._learner().runs),
            loss=loss,
            val_loss=[one[0] for one in val],
            val_metric=[one[1] for one in val],
            best_metric=[one.best_metric for one in self.stopping] if val else [],
            improved=[place in improved for place in range(len(self.stopping))],
            waited=min(one.waited for one in self.stopping),
            finished=len(self.finished),
            metric=self.task.metric,
        )

    def _finish(self, done: list[int], limit: dict[str, Any] | None = None) -> None:
        """Evaluate runs at their selected epochs, and remove them from the training.

        Args:
            done (list[int]): Places of the runs.
            limit (dict[str, Any], optional): State of the group if the number of epochs ends it.
        """
        if not done:
            return
        learner = self._learner()
        now = learner.ensemble.snapshot()
        learner.use_best()
        val = learner.scores("val") if self.validates else []
        scores = learner.scores("test") if self.experiment.test else []
        learner.ensemble.restore(now)
        for place in done:
            split = learner.runs[place].split
            threshold = self._threshold(val[place], split) if val else None
            test = self.task.evaluate(scores[place], split, "test") if scores else {}
            self.finished.append(
                RunResult(
                    run=learner.runs[place],
                    selected_epoch=self.stopping[place].best_epoch,
                    epochs=self.epoch,
                    val=self.task.evaluate(val[place], split, "val") if val else {},
                    test=test,
                    test_curve=self.curves[place] if self.tests_epochs else None,
                    weights=learner.best_of(place),
                    threshold=threshold,
                    assessment=self.task.assess(scores[place], split, threshold) if test else None,
                )
            )
        rest = [place for place in range(len(learner.runs)) if place not in done]
        if rest:
            learner.keep(rest)
            self.stopping = [self.stopping[place] for place in rest]
            self.curves = [self.curves[place] for place in rest]
            return
        found = learner.all_certificates()
        self.certificates.merge(found)
        self.ended[self.group] = {"learner": None, **(limit or {}), "certificates": found.to_dict()}
        self.learner = None
        self.group += 1

    def _threshold(self, scores: Tensor, split: int) -> float | None:
        """Return the threshold of a task with two classes, from validation scores.

        Accuracy is that of the more probable class, so predictions then need no threshold.
        """
        task = self.task
        classes = task.multilabel or task.regression or len(task.classes) != 2
        if classes or task.metric in ("accuracy", "micro_f1"):
            return None
        return best_threshold(scores, self.task.targets(split, "val"))

    def _measure(self, part: str) -> list[dict[str, float]]:
        learner = self._learner()
        pairs = zip(learner.scores(part), learner.runs, strict=True)
        return [self.task.evaluate(scores, run.split, part) for scores, run in pairs]

    def _learner(self) -> Learner:
        if self.learner is None:
            raise RuntimeError("no group is in training")
        return self.learner

    def results(self) -> list[RunResult]:
        """Return the finished runs in the order of the experiment."""
        return sorted(self.finished, key=lambda one: self.experiment.runs.index(one.run))

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of ``log.jsonl``, ordered by group."""
        others = [row for _, state in sorted(self.pending.items()) for row in state["log"]]
        return self.log + others

    def state(self) -> dict[str, Any]:
        """Return the state of the training as tensors and plain data."""
        learner = self.learner
        return {
            "groups": [[asdict(run) for run in runs] for runs in self.groups],
            "finished": [{**vars(one), "run": asdict(one.run)} for one in self.finished],
            "certificates": self.certificates.to_dict(),
            "log": self.log,
            "group": self.group,
            "epoch": self.epoch,
            "runs": None if learner is None else [asdict(run) for run in learner.runs],
            "learner": None if learner is None else learner.state(),
            "selectors": [asdict(one) for one in self.stopping],
            "curves": self.curves,
            "pending": self.pending,
            "ended": self.ended,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint with its groups of runs, which a mesh makes larger."""
        self.groups = [[Run(**run) for run in runs] for runs in state["groups"]]
        self.load_state(state)

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state` of the same experiment, or of its next group alone."""
        self.finished += [
            RunResult(**{**one, "run": Run(**one["run"])}) for one in state["finished"]
        ]
        self.certificates.merge(Certificates.from_dict(state["certificates"]))
        self.log += state["log"]
        self.ended.update({self.group + place: one for place, one in state["ended"].items()})
        self.group += state["group"]
        self.pending.update(state["pending"])
        if state["learner"] is None:
            return
        self._begin([Run(**run) for run in state["runs"]])
        self._learner().load_state(state["learner"])
        self.epoch = state["epoch"]
        self.stopping = [EarlyStopping(**one) for one in state["selectors"]]
        self.curves = state["curves"]

    def release_group(self) -> None:
        """Move the group in progress to the pending ones, for another process to continue."""
        if self.learner is not None:
            whole = Training(self.experiment, self.fabric).state()
            state = self.state()
            current = {key: state[key] for key in _OF_GROUP}
            self.pending[self.group] = {**whole, **current}
            self.learner = None

    def collect_groups(self) -> None:
        """Take over the results of pending groups that are complete, in order."""
        while self.group in self.pending and self.pending[self.group]["group"]:
            self.load_state(self.pending.pop(self.group))
