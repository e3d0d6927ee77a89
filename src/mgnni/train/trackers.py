"""Logs the losses of every epoch and the final scores to an experiment tracker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mgnni.errors import MgnniError, check_choice
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch, Run
from mgnni.train.training import OnEpoch

TRACKERS = ("tensorboard", "wandb", "trackio")


class Tracker(ABC):
    """Base class of trackers; a context manager that closes the tracker.

    Args:
        experiment (Experiment): What is trained.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.metric, self.several = experiment.task.metric, len(experiment.runs) > 1
        self.epoch = 0  # the last one that was seen

    @abstractmethod
    def log(self, values: dict[str, float], epoch: int) -> None:
        """Log metrics of an epoch."""

    @abstractmethod
    def close(self) -> None:
        """Write what is still in memory."""

    def after(self, on_epoch: OnEpoch) -> OnEpoch:
        """Return a callback for a training that calls ``on_epoch`` first."""

        def both(epoch: Epoch) -> None:
            on_epoch(epoch)
            for part in epoch.parts or [epoch]:
                self._add(part)

        return both

    def finish(self, report: dict[str, Any]) -> None:
        """Hand over the scores of a report, unless nothing was trained."""
        if not self.epoch:
            return
        values = {
            self._name(f"test_{self.metric}", Run(run["split"], run["seed"])): run["reported"][
                self.metric
            ]
            for run in report["runs"]
        }
        self.log({**values, f"test_{self.metric}/mean": report["score"]["mean"]}, self.epoch)

    def _add(self, epoch: Epoch) -> None:
        columns = {
            "loss": epoch.loss,
            "val_loss": epoch.val_loss,
            f"val_{self.metric}": epoch.val_metric,
        }
        values = {
            self._name(what, run): number
            for what, numbers in columns.items()
            for run, number in zip(epoch.runs, numbers, strict=False)  # none without validation
        }
        self.log(values, epoch.epoch)
        self.epoch = max(self.epoch, epoch.epoch)

    def _name(self, what: str, run: Run) -> str:
        return f"{what}/split-{run.split}-seed-{run.seed}" if self.several else what

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class NoTracker(Tracker):
    """Does nothing."""

    def log(self, values: dict[str, float], epoch: int) -> None:
        """Ignore the numbers."""

    def close(self) -> None:
        """Do nothing."""


class TensorBoard(Tracker):
    """Writes event files to the folder ``tensorboard``, with the logger of Lightning Fabric.

    Args:
        experiment (Experiment): What is trained.
        folder (Path): The folder of the training.
    """

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        super().__init__(experiment)
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        self._logger = TensorBoardLogger(folder / "tensorboard", name="", version="")

    def log(self, values: dict[str, float], epoch: int) -> None:
        """Log metrics of an epoch."""
        self._logger.log_metrics(values, step=epoch)

    def close(self) -> None:
        """Write what is still in memory."""
        self._logger.finalize("success")


class Hosted(Tracker):
    """Weights & Biases or Trackio, which have the same interface.

    Epochs are a value of their own: runs that are trained one after another start again at 1, and
    Weights & Biases drops steps that go back.

    Args:
        experiment (Experiment): What is trained.
        folder (Path): The folder of the training.
        package (str): ``"wandb"`` or ``"trackio"``.
    """

    def __init__(self, experiment: Experiment, folder: Path, package: str) -> None:
        super().__init__(experiment)
        self._package = import_module(package)
        run = self._package.init(
            project="mgnni",
            name=folder.resolve().name,
            config={"data": experiment.task.name, **experiment.config.to_dict()},
        )
        if hasattr(run, "define_metric"):
            run.define_metric("*", step_metric="epoch")

    def log(self, values: dict[str, float], epoch: int) -> None:
        """Log metrics of an epoch."""
        self._package.log({"epoch": epoch, **values})

    def close(self) -> None:
        """Write what is still in memory."""
        self._package.finish()


def check_tracker(name: str | None) -> None:
    """Check that a tracker is known and installed.

    Args:
        name (str, optional): One of :data:`TRACKERS`, or ``None``.
    """
    if name is not None and find_spec(check_choice("log", name, TRACKERS)) is None:
        raise MgnniError(
            f"logging to {name} needs the package {name} (not installed); run: pip install {name}"
        )


def make_tracker(name: str | None, experiment: Experiment, folder: Path) -> Tracker:
    """Return the tracker of this name.

    Args:
        name (str, optional): One of :data:`TRACKERS`; ``None`` for one that does nothing.
        experiment (Experiment): What is trained.
        folder (Path): The folder of the training.
    """
    check_tracker(name)
    if name is None:
        return NoTracker(experiment)
    if name == "tensorboard":
        return TensorBoard(experiment, folder)
    return Hosted(experiment, folder, name)
