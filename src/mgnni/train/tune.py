"""``tune``: searches hyperparameters on validation data."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgnni.data.tables.schema import TableOptions
from mgnni.errors import MgnniError, check_int
from mgnni.files import atomic_write, to_json
from mgnni.models.catalog import find_model
from mgnni.train.config import Config, changed
from mgnni.train.experiment import Experiment, runs_of
from mgnni.train.presets import space_for
from mgnni.train.report import FORMAT, commit, describe, versions
from mgnni.train.search import OnProgress, Search, Space
from mgnni.train.setup import find_training
from mgnni.train.source import Source

if TYPE_CHECKING:
    from mgnni.train.trial_queue import TrialQueue

PRESET = "preset.json"
TRIALS = 50
DIRECTION = ("undirected", "flow")  # all the same on an undirected graph


def tune(
    data: Any,
    *,
    output: str | Path,
    model: str | None = None,
    trials: int = TRIALS,
    space: Space | None = None,
    split: int | Sequence[int] | str = "all",
    seed: int | Sequence[int] = 0,
    search_seed: int = 0,
    prune: bool = True,
    first_rung: int | None = None,
    reduction: int = 2,
    jobs: int = 1,
    preset: str = "paper",
    options: dict[str, Any] | None = None,
    tables: TableOptions | None = None,
    metric: str | None = None,
    num_splits: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Search hyperparameters by the mean validation metric over splits and seeds.

    Test labels are removed from the data before the search. The whole grid is searched if it has
    at most ``trials`` points, otherwise as many points at random. Trials are pruned by successive
    halving. The result is also written to ``preset.json`` in the folder; :func:`mgnni.fit` and
    ``mgnni train`` take its path as ``preset``.

    Args:
        data (str or Path or Data or Dataset or list[Data] or Task): As for :func:`mgnni.fit`.
        output (str or Path): Folder for the study. Several processes may search in one folder.
        model (str, optional): Name of the model. (default: :obj:`"mgnni"`)
        trials (int, optional): Number of trials. (default: :obj:`50`)
        space (Mapping[str, Sequence[Any]], optional): Values of each hyperparameter.
            (default: those that ``mgnni models NAME`` lists)
        split (int or Sequence[int] or str, optional): Indices of splits, or ``"all"``.
            (default: :obj:`"all"`)
        seed (int or Sequence[int], optional): Seeds of initial weights and dropout.
            (default: :obj:`0`)
        search_seed (int, optional): Seed of the order of the trials. (default: :obj:`0`)
        prune (bool, optional): Prune trials by successive halving. (default: :obj:`True`)
        first_rung (int, optional): Epochs before the first rung, or runs if they are trained one
            after another. (default: half of the patience but at most a quarter of the epochs; one
            run)
        reduction (int, optional): Factor between rungs. (default: :obj:`2`)
        jobs (int, optional): Number of processes. (default: :obj:`1`)
        preset (str, optional): Preset with the values that are not searched.
            (default: :obj:`"paper"`)
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)
        tables (TableOptions, optional): How your files are read. (default: :obj:`None`)
        metric (str, optional): Metric to search by; ``None`` uses that of the task.
            (default: :obj:`None`)
        num_splits (int, optional): Number of splits to draw if the data have none.
            (default: :obj:`1`)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``.
            (default: :obj:`"auto"`)
        deterministic (bool, optional): Use deterministic algorithms only. (default: :obj:`False`)
        resume (bool, optional): Continue the study in ``output``, or join other processes there.
            (default: :obj:`False`)
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
            (default: :obj:`None`)
        **changes (Any): Fields of the configuration to set. They are not searched.

    Returns:
        dict[str, Any]: The content of ``preset.json``: ``chosen``, the full ``config``, ``budget``
        and all ``trials``, the best first.
    """
    check_optuna()
    if model is not None:
        find_model(model)  # not "auto"
    source, config = find_training(
        data,
        changes,
        model=model,
        preset=preset,
        metric=metric,
        options=options,
        tables=tables,
        num_splits=num_splits,
    )
    search = make_search(
        source,
        config,
        space,
        changes,
        split=split,
        seed=seed,
        device=device,
        deterministic=deterministic,
        trials=trials,
        search_seed=search_seed,
        prune=prune,
        first_rung=first_rung,
        reduction=reduction,
    )
    about = {"preset": preset, "options": options or {}, "changes": changes}
    return run_search(search, source, Path(output), about, jobs, resume, on_progress)


def make_search(
    source: Source,
    config: Config,
    space: Space | None = None,
    fixed: Collection[str] = (),
    *,
    split: int | Sequence[int] | str,
    seed: int | Sequence[int],
    trials: int,
    search_seed: int = 0,
    prune: bool = True,
    first_rung: int | None = None,
    reduction: int = 2,
    **options: Any,
) -> Search:
    """Return a search in data from which test labels are removed.

    Args:
        source (Source): The data.
        config (Config): The configuration to start from.
        space (Mapping[str, Sequence[Any]], optional): Values of each hyperparameter.
            (default: those that ``mgnni models NAME`` lists, without the direction of the edges if
            all graphs are undirected)
        fixed (Collection[str], optional): Hyperparameters that are not searched.
            (default: :obj:`()`)
        split (int or Sequence[int] or str): Indices of splits, or ``"all"``.
        seed (int or Sequence[int]): Seeds of initial weights and dropout.
        trials (int): Number of trials.
        search_seed (int, optional): Seed of the order of the trials. (default: :obj:`0`)
        prune (bool, optional): Prune trials by successive halving. (default: :obj:`True`)
        first_rung (int, optional): Epochs or runs before the first rung. (default: :obj:`None`)
        reduction (int, optional): Factor between rungs. (default: :obj:`2`)
        **options (Any): Options of :class:`~mgnni.train.experiment.Experiment`.
    """
    task = source.task
    found = space_for(config.architecture, task.level) if space is None else space
    if space is None and task.undirected:
        fixed = {*fixed, *DIRECTION}
    found = {name: tuple(values) for name, values in found.items() if name not in fixed}
    runs = runs_of(task, split, seed)
    splits = sorted({run.split for run in runs})
    untested = Source(task.without_test(splits), source.schema, source.origin)
    experiment = Experiment(untested, config, runs, test=False, **options)
    return Search(experiment, found, trials, search_seed, prune, first_rung, reduction)


def run_search(
    search: Search,
    source: Source,
    output: Path,
    about: Mapping[str, Any],
    jobs: int = 1,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Run a search and return its result; see :func:`tune`.

    Args:
        search (Search): What to search.
        source (Source): The data with their test sets, which are described but not used.
        output (Path): Folder of the study.
        about (Mapping[str, Any]): More for the result: preset, options, command.
        jobs (int, optional): Number of processes. (default: :obj:`1`)
        resume (bool, optional): Continue or join the study in the folder. (default: :obj:`False`)
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
            (default: :obj:`None`)
    """
    check_int("jobs", jobs)
    check_optuna()
    from mgnni.train.trial_queue import TrialQueue
    from mgnni.train.workers import work_together

    header = search_header(search, source)
    output.mkdir(parents=True, exist_ok=True)
    queue = TrialQueue(output, search, header, resume)
    work_together(queue, header, jobs, on_progress)
    result = make_result(queue, header, about)
    with atomic_write(output / PRESET) as file:
        file.write(to_json(result).encode())
    return result


def check_optuna() -> None:
    """Raise an error that says how to install Optuna if it is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise MgnniError("a search needs optuna; run: pip install 'mgnni[tune]'")


def search_header(search: Search, source: Source) -> dict[str, Any]:
    """Return everything that decides the outcome of a search, apart from the number of trials.

    Args:
        search (Search): What is searched.
        source (Source): The data with their test sets.
    """
    import optuna

    experiment = search.experiment
    return {
        "format": FORMAT,
        "data": {"origin": source.origin, **describe(source.task)},
        "metric": source.task.metric,
        "config": experiment.config.to_dict(),
        "space": {name: list(values) for name, values in search.space.items()},
        "runs": [vars(run) for run in experiment.runs],
        "together": experiment.together,
        "deterministic": experiment.deterministic,
        "order": search.seed,
        "rungs": {"unit": search.unit, "at": list(search.rungs), "reduction": search.reduction},
        "versions": {**versions(), "optuna": optuna.__version__},
    }


def make_result(
    queue: TrialQueue, header: dict[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of ``preset.json`` for a search whose trials are all done.

    Args:
        queue (TrialQueue): Its trials.
        header (dict[str, Any]): Its :func:`search_header`.
        about (Mapping[str, Any]): More for the result: preset, options, command.
    """
    search, trials = queue.search, queue.done()
    best = trials[0]
    if best["state"] != "complete":
        error = next(one["error"] for one in trials if one["state"] == "failed")
        raise MgnniError(
            f"no trial could be trained to its end; the first failure: {error}; search other values"
        )
    experiment = search.experiment
    return {
        "format": FORMAT,
        "command": "tune",
        "model": experiment.config.architecture,
        "dataset": experiment.task.name,
        "metric": header["metric"],
        "chosen": best["params"],
        "validation": {header["metric"]: best["value"], "loss": best["loss"]},
        **about,
        "config": changed(experiment.config, best["params"]).to_dict(),
        "space": header["space"],
        "budget": {
            "points": search.size,
            "trials": len(trials),
            "splits": experiment.splits,
            "seeds": sorted({run.seed for run in experiment.runs}),
            "epochs": experiment.config.epochs,
            "pruner": "successive halving" if search.rungs else None,
            "rungs": header["rungs"],
            "order": search.seed,
        },
        "trials": trials,
        "data": header["data"],
        "versions": header["versions"],
        "commit": commit(),
        "seconds": queue.seconds(),
    }
