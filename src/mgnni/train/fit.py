"""``mgnni.fit``: trains a model on a benchmark, on files or on PyG objects."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mgnni.data.inspection.advice import advise
from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.tables.schema import TableOptions
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import ArgumentError, DataWarning
from mgnni.train.attention import attention_sample
from mgnni.train.auto import choose
from mgnni.train.config import Config
from mgnni.train.device import make_fabric, one_thread, settings_restored
from mgnni.train.epoch_bar import epoch_bar
from mgnni.train.experiment import Experiment, runs_of
from mgnni.train.fitted import Fitted
from mgnni.train.folder import Folder, check_resumable
from mgnni.train.inputs import bound_graph
from mgnni.train.presets import AUTO, check_auto
from mgnni.train.processes import count_jobs, run_in_processes
from mgnni.train.report import make_header, make_report
from mgnni.train.runs import Epoch
from mgnni.train.setup import find_training
from mgnni.train.shared_folder import open_folder
from mgnni.train.source import Source, describe_source
from mgnni.train.training import OnEpoch, Training

EXPLAINED = 2**24  # largest size of an experiment whose report has a sample of its attention


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
    task: str | None = None,
    metric: str | None = None,
    num_splits: int = 1,
    folds: int | None = None,
    together: bool = True,
    device: str = "auto",
    deterministic: bool = False,
    jobs: int | None = 1,
    output: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    progress: bool | None = None,
    budget: float | None = None,
    mesh: ProcessMesh | None = None,
    **changes: Any,
) -> Fitted:
    """Train a model on a benchmark, on files, or on PyG objects.

    .. note::
        PyTorch's CPU threads wait actively for each other. On a machine that is busy with other
        work, set ``OMP_NUM_THREADS=1`` or ``OMP_WAIT_POLICY=passive`` in the environment before
        Python starts; results do not depend on the latter.

    Args:
        data (str or Path or Data or Dataset or list[Data] or Task): Name of a benchmark, path of a
            folder or file, PyG object, or :class:`~mgnni.data.task.Task`.
        model (str, optional): Name of the model, see :data:`mgnni.models.catalog.MODELS`, or
            ``"auto"``, which chooses one of several on validation data; ``report["portfolio"]``
            says how. (default: that of ``preset`` if it is a file, or ``"mgnni"``)
        split (int or Sequence[int] or str, optional): Indices of splits, or ``"all"``. By default
            only the first split is trained, unlike ``mgnni train``, which trains all of them.
            (default: :obj:`0`)
        seed (int or Sequence[int], optional): Seeds of initial weights and dropout.
            (default: :obj:`0`)
        rule (str, optional): Rule that selects the epoch to report: ``"validation"``, ``"gin"``,
            ``"fold-max"`` or ``"test-max"``. All but the first train on what benchmarks with folds
            would hold out for validation. (default: :obj:`"validation"`)
        preset (str, optional): ``"paper"``, ``"authors"`` or ``"tuned"``, or the path of a
            ``preset.json`` of ``mgnni tune``. (default: :obj:`"paper"`)
        config (Config, optional): Configuration instead of a preset. (default: :obj:`None`)
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)
        tables (TableOptions, optional): Names of the columns of your files and how to read them,
            see :class:`~mgnni.TableOptions`. (default: :obj:`None`)
        task (str, optional): ``"regression"`` to predict the numbers in the label columns, or
            ``"classification"``. (default: that of ``tables``)
        metric (str, optional): Metric to select and report by; ``None`` uses that of the task.
            (default: :obj:`None`)
        num_splits (int, optional): Number of splits to draw, for data that have none.
            (default: :obj:`1`)
        folds (int, optional): Number of folds of a stratified cross-validation, instead of splits
            drawn at random; pass ``split="all"`` to train all of them. (default: :obj:`None`)
        together (bool, optional): Train runs on one graph as batched models of several runs;
            :obj:`False` trains one after another, with the same results. (default: :obj:`True`)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``.
            (default: :obj:`"auto"`)
        deterministic (bool, optional): Make the training repeatable bit by bit on the same machine
            with the same versions: one thread on a CPU, and only deterministic algorithms on an
            accelerator. (default: :obj:`False`)
        jobs (int, optional): Number of processes that train different runs, with the same
            results; :obj:`None` chooses it. A script that starts several must guard its
            main part by ``if __name__ == "__main__":``, as Python's ``multiprocessing`` imports
            it again. (default: :obj:`1`)
        output (str or Path, optional): Folder for checkpoints, model, log and report; ``None``
            writes nothing. (default: :obj:`None`)
        resume (bool, optional): Continue from the last checkpoint in ``output``, which must exist.
            Without a checkpoint there, training starts from the beginning, with a warning. With
            more ``epochs`` than before, runs that had reached the last epoch go on.
            (default: :obj:`False`)
        on_epoch (Callable[[Epoch], None], optional): Called after every epoch.
            (default: :obj:`None`)
        progress (bool, optional): Show a progress bar; ``None`` shows it on a terminal only.
            (default: :obj:`None`)
        budget (float, optional): Minutes for the choice and the training with ``model="auto"``.
            (default: four, and one more per run)
        mesh (ProcessMesh, optional): Processes that train together and call this function alike,
            see :func:`mgnni.distributed.mesh.start_mesh`. (default: :obj:`None`)
        **changes (Any): Fields of :class:`~mgnni.Config` or of its model to replace.

    Returns:
        Fitted: The trained model; its ``report`` has scores, rule and solver statistics.
    """
    other = None if preset == "paper" else preset
    check_auto(model, budget, config=config, preset=other, mesh=mesh)
    source, config = find_training(
        data,
        changes,
        model=model,
        preset=preset,
        config=config,
        metric=metric,
        options=options,
        tables=tables if task is None else replace(tables or TableOptions(), task=task),
        rule=rule,
        num_splits=num_splits,
        folds=folds,
    )
    runs, folder = runs_of(source.task, split, seed), None if output is None else Path(output)
    if resume and folder is not None:
        check_resumable(folder)
    _warn_about(source, config)
    experiment = Experiment(
        source,
        config,
        runs,
        rule,
        together=together,
        device=device,
        deterministic=deterministic,
        jobs=jobs,
    )
    state = None
    if model == AUTO:
        chosen = choose(experiment, changes, folder, resume, budget)
        experiment, state = chosen.experiment, chosen.state
    shown = progress if mesh is None or mesh.rank == 0 else False
    with epoch_bar(experiment.config.epochs, shown, on_epoch) as follow:
        return train(experiment, folder, resume=resume, on_epoch=follow, start=state, mesh=mesh)


@settings_restored()
def train(
    experiment: Experiment,
    output: Path | None = None,
    *,
    resume: bool = False,
    on_epoch: OnEpoch | None = None,
    on_note: Callable[[str], None] | None = None,
    on_start: Callable[[], None] | None = None,
    start: dict[str, Any] | None = None,
    mesh: ProcessMesh | None = None,
) -> Fitted:
    """Run an experiment.

    Args:
        experiment (Experiment): What to train.
        output (Path, optional): Folder for checkpoints, model, log and report.
            (default: :obj:`None`)
        resume (bool, optional): Continue from the last checkpoint in ``output``.
            (default: :obj:`False`)
        on_epoch (Callable[[Epoch], None], optional): Called after every epoch.
            (default: :obj:`None`)
        on_note (Callable[[str], None], optional): Called with messages to the user; ``None``
            issues them as warnings. (default: :obj:`None`)
        on_start (Callable[[], None], optional): Called before the first epoch, when everything has
            been checked. (default: :obj:`None`)
        start (dict[str, Any], optional): State of the same training after some epochs, see
            :meth:`~mgnni.train.training.Training.state`. (default: :obj:`None`)
        mesh (ProcessMesh, optional): The processes that train together; all of them call this
            function, and the first one writes the folder. (default: :obj:`None`)
    """
    on_note = on_note or warnings.warn
    if resume and output is None:
        raise ArgumentError("'resume' needs 'output', the folder to continue in")
    fabric = make_fabric(
        experiment.device,
        experiment.config.precision,
        deterministic=experiment.deterministic,
        own=None if mesh is None else mesh.device,
    )
    jobs = 1 if mesh is not None else count_jobs(experiment, fabric.device)
    with one_thread(experiment.single_threaded(fabric.device)):
        training, began = Training(experiment, fabric, mesh), time.perf_counter()
        if fabric.device.type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]  # no device has been used yet
            torch.cuda.reset_peak_memory_stats(fabric.device)
        on_start = on_start or (lambda: None)
        if output is None:
            if start is not None:
                training.load_state(start)
            on_start()
            _run(training, jobs, on_epoch)
            return _fitted(training, time.perf_counter() - began, jobs)
        with open_folder(output, experiment.checkpoint_every, mesh) as folder:
            state = folder.open(make_header(training), resume)
            if folder.complete:
                report, graphs = folder.report(), experiment.task.graphs
                if folder.all_stopped:
                    on_note("all runs had stopped early, so that more epochs change nothing")
                return replace(Fitted.load(output), report=report, data=graphs)
            if state is not None:
                began -= folder.restore(training, state)
            elif start is not None:
                training.load_state(start)
            elif resume:
                on_note(f"{output}: no checkpoint to resume from; training starts at epoch 1")
            on_start()
            save = partial(_save, folder, training, began)
            _run(training, jobs, on_epoch, save)
            fitted = _fitted(training, time.perf_counter() - began, jobs)
            folder.finish(training, fitted.to_dict(), fitted.report or {})
    return fitted


def _run(
    training: Training,
    jobs: int,
    on_epoch: OnEpoch | None,
    save: Callable[[], None] | None = None,
) -> None:
    if jobs > 1:
        run_in_processes(training, jobs, on_epoch, save)
    else:
        training.run(on_epoch, save)


def _save(folder: Folder, training: Training, began: float) -> None:
    folder.save(training, time.perf_counter() - began)


def _warn_about(source: Source, config: Config) -> None:
    """Warn if your own data were probably not read as they are meant."""
    if source.schema is None:
        return
    for one in advise(describe_source(source, config)):
        if one.warning:
            warnings.warn(f"{source.task.name}: {one.text}", DataWarning, stacklevel=3)


def _fitted(training: Training, seconds: float, jobs: int) -> Fitted:
    task, results = training.task, training.results()
    report = make_report(training, seconds, jobs)
    binary = any(one.threshold is not None for one in results)
    fitted = Fitted(
        config=training.config,
        level=task.level,
        multilabel=task.multilabel,
        classes=task.classes,
        num_features=task.num_features,
        metric=task.metric,
        runs=training.experiment.runs,
        val=tuple(one.val for one in results),
        weights=tuple(one.weights for one in results),
        schema=training.experiment.source.schema,
        report=report,
        data=task.graphs,
        graph=bound_graph(training.config, task.graphs),
        thresholds=tuple(one.threshold for one in results) if binary else (),
        regression=task.regression,
    )
    if task.unit == "node" and training.experiment.size <= EXPLAINED:
        sample = attention_sample(fitted, task.graphs[0])
        report |= {} if sample is None else {"attention": sample}
    return fitted
