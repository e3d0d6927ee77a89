"""Resumes a finished training with more epochs.

The result is that of a training that was asked for more epochs from the start: runs that had
stopped early stay as they are, and the others go on from the state that they were ended in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mgnni.errors import DataError
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.schedule import depends_on_epochs
from mgnni.train.training import Training

ENTRY = "config.epochs"  # of the header of a training, which may grow


def asks_for_more(folder: Path, there: dict[str, Any], header: dict[str, Any]) -> bool:
    """Return whether the training in a folder is asked to go on for more epochs.

    Args:
        folder (Path): The folder, for the message.
        there (dict[str, Any]): The header of the training that it holds.
        header (dict[str, Any]): The header of what is asked for.

    Raises:
        DataError: The learning rate depends on the number of epochs.
    """
    config, known = header.get("config", {}), there.get("config", {})
    before, now = known.get("epochs") if isinstance(known, dict) else None, config.get("epochs")
    if not (isinstance(before, int) and isinstance(now, int) and before < now):
        return False
    if depends_on_epochs(config.get("schedule"), config.get("lr_period")):
        raise DataError(
            f"{folder}: a training with schedule cosine cannot go on after its {before} epochs "
            f"(asked for: {now}), as its learning rate is zero by then; train again with another "
            "--output, or choose --lr-period from the start"
        )
    return True


def check_chosen(folder: Path, differences: Sequence[str], asked: Mapping[str, Any]) -> None:
    """Refuse other epochs or another model for a training whose model was chosen among several.

    How the model was chosen depends on the number of epochs, so the training cannot go on.

    Args:
        folder (Path): The folder of the training.
        differences (Sequence[str]): Entries in which it differs from what is asked for, at least
            one.
        asked (Mapping[str, Any]): The header of what is asked for, a training or a comparison.

    Raises:
        DataError: Nothing else than the epochs or the model differs.
    """
    if "candidates" in asked:
        refused = all(re.fullmatch(r"candidates\..*\.epochs", path) for path in differences)
        epochs = max(one["epochs"] for one in asked["candidates"].values())
    else:
        refused = all(re.match(r"portfolio$|config\.", path) for path in differences)
        epochs = asked["config"]["epochs"]
    if refused:
        origin = shlex.quote(asked["data"]["origin"])
        raise DataError(
            f"{folder}: holds another training, whose model was chosen among several, so it cannot "
            f"go on with other epochs or another model; train the chosen one anew: mgnni train "
            f"{origin} --config {shlex.quote(str(folder / 'config.json'))} --epochs {epochs} "
            "--output NEW, with the same file options"
        )


def check_final_state(folder: Path, epochs: int, report: dict[str, Any]) -> None:
    """Check that a finished training without a final state has nothing to go on with.

    Args:
        folder (Path): The folder, for the message.
        epochs (int): Largest number of epochs of the training.
        report (dict[str, Any]): Its report.

    Raises:
        DataError: Runs were ended by the number of epochs, and their states were not kept.
    """
    if any(run["epochs"] >= epochs for run in report["runs"]):
        raise DataError(
            f"{folder}: has no state.pt to go on from, which mgnni train keeps if a run reached "
            "its last epoch; train again with another --output"
        )


def reopen(training: Training) -> None:
    """Continue all runs that were ended by a smaller number of epochs only.

    Args:
        training (Training): A training, after its state of then was loaded. Runs go on when it is
            run, as after an interruption.
    """
    training.release_group()
    blank = Training(training.experiment, training.fabric).state()
    parts = {
        group: {
            **blank,
            "group": 1,
            "certificates": training.ended[group]["certificates"],
            "ended": {0: training.ended[group]},
        }
        for group in range(training.group)
    }
    for group, state in {**parts, **training.pending}.items():
        members = training.groups[group]
        finished = [one for one in training.finished if one.run in members]
        names = [(run.split, run.seed) for run in members]
        log = [row for row in training.log if (row["split"][0], row["seed"][0]) in names]
        whole = {
            **state,
            "finished": [{**vars(one), "run": asdict(one.run)} for one in finished]
            + state["finished"],
            "log": log + state["log"],
        }
        training.pending[group] = _before_the_end(whole)
    training.finished, training.log, training.ended = [], [], {}
    training.certificates, training.group = Certificates(), 0


def _before_the_end(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a group before it was ended by the number of epochs."""
    if not state["group"]:  # still in training
        return state
    ended = state["ended"][0]
    if ended["learner"] is None:  # all runs had stopped early
        return state
    return {
        **state,
        **{name: value for name, value in ended.items() if name != "certificates"},
        "finished": [one for one in state["finished"] if one["run"] not in ended["runs"]],
        "certificates": Certificates().to_dict(),  # those of the group are in its learner
        "group": 0,
        "ended": {},
    }


def can_go_on(training: Training) -> bool:
    """Return whether a run has reached the largest number of epochs.

    Args:
        training (Training): A finished training.
    """
    return any(one.epochs >= training.config.epochs for one in training.finished)


def epochs_of(header: dict[str, Any]) -> int:
    """Return the largest number of epochs of a training, from its header."""
    return int(Config.from_dict(header["config"]).epochs)
