"""``mgnni.fit``: from data to a fitted model, in one call."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError
from mgnni.models.catalog import MGNNI
from mgnni.train.build import num_parameters
from mgnni.train.config import Config, changed
from mgnni.train.device import make_fabric, one_thread, settings_restored
from mgnni.train.fitted import Fitted
from mgnni.train.folder import EVERY, Folder
from mgnni.train.presets import preset_for
from mgnni.train.report import describe, make_report
from mgnni.train.source import Source, find_source
from mgnni.train.streams import Run
from mgnni.train.training import SMALL, Epoch, Plan, Training
from mgnni.train.versions import versions


def fit(
    data: Any,
    *,
    model: str | None = None,
    split: int | Sequence[int] | str = 0,
    seed: int | Sequence[int] = 0,
    rule: str = DEFAULT_RULE,
    preset: str = "paper",
    config: Config | None = None,
    options: dict[str, Any] | None = None,
    tables: TableOptions | None = None,
    metric: str | None = None,
    num_splits: int = 1,
    together: bool = True,
    device: str = "auto",
    deterministic: bool = False,
    output: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    **changes: Any,
) -> Fitted:
    """Train on a benchmark, on files, or on PyG objects.

    Args:
        data: name of a benchmark, path of a folder or file, ``Data``, ``Dataset``, list of
            ``Data``, or a :class:`~mgnni.data.task.Task`.
        model: name of the model, see :data:`mgnni.models.catalog.MODELS`; MGNNI by default.
        split: number of the split, several of them, or ``"all"``.
        seed: of the initial weights and dropout; several for several runs a split.
        rule: which epoch counts: ``"validation"``, or by name ``"gin"``, ``"fold-max"``,
            ``"test-max"``.
        preset: ``"paper"`` or ``"authors"``, where a benchmark has both.
        config: instead of a preset; it names its model.
        options: of the benchmark.
        tables: which column of a file is what.
        metric: the one that counts, instead of the usual one.
        num_splits: splits to draw if the data have none.
        together: train all runs on one graph as one batched model; the results are the same.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
        deterministic: the same bits every time: one thread on a CPU, and on an accelerator no
            operation that may differ.
        output: folder to keep the training in; by default nothing is written.
        resume: go on with the training in that folder.
        on_epoch: called after every epoch.
        **changes: any field of :class:`~mgnni.train.config.Config` or of its model.

    Returns:
        The fitted model; its ``report`` tells scores, rule, and how exactly it was solved.
    """
    source = find_source(data, options=options, tables=tables, metric=metric, num_splits=num_splits)
    task = source.task
    if config is None:
        base = preset_for(source.preset, task.level, preset, model or MGNNI)
    elif model in (None, config.architecture):
        base = config
    else:
        raise ArgumentError(
            f"'model' must be that of the config, {config.architecture!r} (got {model!r}); leave "
            "one of the two out"
        )
    plan = Plan(task, changed(base, changes), runs_of(task, split, seed), rule, together)
    job = Job(source, plan, device, deterministic)
    folder = None if output is None else Path(output)
    return job.run(folder, resume, on_epoch or (lambda epoch: None))


def runs_of(
    task: Any, split: int | Sequence[int] | str, seed: int | Sequence[int]
) -> tuple[Run, ...]:
    """Return one run for every pair of split and seed."""
    count = len(task.splits)
    if isinstance(split, str):
        if split != "all":
            raise ArgumentError(f"'split' must be a number, several, or 'all' (got {split!r})")
        splits = list(range(count))
    else:
        splits = _numbers("split", split)
    seeds = _numbers("seed", seed)
    for name, values, most in (("split", splits, count - 1), ("seed", seeds, 2**62)):
        if not values:
            raise ArgumentError(f"'{name}' must hold at least one number (got none)")
        for value in values:
            if not 0 <= value <= most:
                allowed = f"lie between 0 and {most}" if most else "be 0, the only one"
                raise ArgumentError(f"'{name}' must {allowed} (got {value})")
        if len(set(values)) < len(values):
            raise ArgumentError(f"'{name}' must not repeat a number (got {list(values)})")
    return tuple(Run(a, b) for a in splits for b in seeds)


def _numbers(name: str, value: int | Sequence[int]) -> list[int]:
    """Return one whole number or several as a list of plain ones."""
    try:
        return [operator.index(one) for one in (value if isinstance(value, Iterable) else [value])]
    except TypeError:
        raise ArgumentError(
            f"'{name}' must be a whole number, or several (got {value!r})"
        ) from None


@dataclass(frozen=True)
class Job:
    """A plan, where it comes from, and where it is computed."""

    source: Source
    plan: Plan
    device: str = "auto"
    deterministic: bool = False
    checkpoint_every: float = EVERY

    def header(self, training: Training) -> dict[str, Any]:
        """Return all that decides the outcome."""
        plan = self.plan
        return {
            "format": 1,
            "data": {"origin": self.source.origin, **describe(plan.task)},
            "config": plan.config.to_dict(),
            "runs": [vars(run) for run in plan.runs],
            "rule": plan.rule,
            "metric": plan.task.metric,
            "together": plan.together,
            "device": training.fabric.device.type,
            "deterministic": self.deterministic,
            "versions": versions(),
        }

    def check(self) -> None:
        """Refuse what cannot work, before anything is written."""
        task, config = self.plan.task, self.plan.config
        self.plan.check()
        num_parameters(config, task.num_features, len(task.classes), task.level)

    @settings_restored()
    def run(self, path: Path | None, resume: bool, on_epoch: Callable[[Epoch], None]) -> Fitted:
        """Train, keep what is to be kept, and return the fitted model."""
        config = self.plan.config
        self.check()
        fabric = make_fabric(self.device, config.precision, self.deterministic)
        on_cpu = fabric.device.type == "cpu"
        with one_thread(on_cpu and (self.deterministic or self.plan.size <= SMALL)):
            return self._run(Training(self.plan, fabric), path, resume, on_epoch)

    def _run(
        self,
        training: Training,
        path: Path | None,
        resume: bool,
        on_epoch: Callable[[Epoch], None],
    ) -> Fitted:
        start = time.perf_counter()
        if path is None:
            if resume:
                raise ArgumentError("'resume' needs 'output', the folder to go on in")
            training.run(on_epoch, lambda: None)
            report = make_report(training, time.perf_counter() - start)
            return self._fitted(training, report)
        with Folder(path, self.checkpoint_every) as folder:
            state = folder.open(self.header(training), resume)
            if folder.complete:
                return replace(
                    Fitted.load(path), report=folder.report(), data=self.plan.task.graphs
                )
            before = 0.0 if state is None else folder.restore(training, state)

            def seconds() -> float:
                return before + time.perf_counter() - start

            training.run(on_epoch, lambda: folder.save(training, seconds()))
            report = make_report(training, seconds())
            fitted = self._fitted(training, report)
            folder.finish(training, fitted.to_dict(), report)
        return fitted

    def _fitted(self, training: Training, report: dict[str, Any]) -> Fitted:
        task = self.plan.task
        found = {one.run: one for one in training.finished}
        finished = [found[run] for run in self.plan.runs]
        return Fitted(
            config=self.plan.config,
            level=task.level,
            multilabel=task.multilabel,
            classes=task.classes,
            num_features=task.num_features,
            metric=task.metric,
            runs=self.plan.runs,
            val=tuple(one.val for one in finished),
            weights=tuple(one.weights for one in finished),
            schema=self.source.schema,
            report=report,
            data=task.graphs,
        )
