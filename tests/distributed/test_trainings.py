"""Trainings over several processes end as those of one process, also if a process is lost."""

import json
import os
from pathlib import Path

import pytest
import torch

from distributed.several import run_script
from distributed.trainings import LOST
from mgnni.train.fitted import Fitted

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Path, list[list[int]]]:
    """The folders of all trainings, and the exit statuses of those that lost a process."""
    path = tmp_path_factory.mktemp("trainings")
    return path, json.loads(run_script("trainings.py", path).splitlines()[-1])


def rows_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(row) for row in (folder / "log.jsonl").read_text().splitlines()]


def assert_same_end(one: Path, other: Path) -> None:
    """Both have the same losses in every epoch, weights and scores."""
    torch.testing.assert_close(rows_of(one), rows_of(other), rtol=0, atol=1e-5)
    a, b = Fitted.load(one), Fitted.load(other)
    torch.testing.assert_close(list(a.weights), list(b.weights), rtol=0, atol=1e-5)
    reports = [json.loads((folder / "report.json").read_text()) for folder in (one, other)]
    scores = [[run["test"] for run in report["runs"]] for report in reports]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["", "batch-", "norm-"])
def test_four_processes_train_what_one_does(ran, kind):
    assert_same_end(ran[0] / f"{kind}four", ran[0] / f"{kind}alone")


@pytest.mark.parametrize("name", ["terms-four", "terms-fewer"])
def test_processes_that_share_batches_of_nodes_train_what_one_does(ran, name):
    folders = [ran[0] / one for one in (name, "terms-alone")]
    reports = [json.loads((folder / "report.json").read_text()) for folder in folders]
    torch.testing.assert_close(*(one["history"] for one in reports), rtol=0, atol=1e-5)
    assert [one["resumed"] for one in reports] == [name == "terms-fewer", False]
    states = [torch.load(folder / "model.pt", weights_only=True)["state"] for folder in folders]
    torch.testing.assert_close(*states, rtol=0, atol=1e-5)


def test_solves_of_all_processes_are_in_the_report(ran):
    one, four = (
        json.loads((ran[0] / name / "report.json").read_text())["solver"]["backward"]
        for name in ("batch-alone", "batch-four")
    )
    assert four["solves"] == 4 * one["solves"]


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_the_others_stop_when_a_process_is_lost_and_fewer_can_go_on(ran, name):
    folder, statuses = ran
    assert statuses[["killed", "stopped"].index(name)] == [LOST, -9, LOST]
    for rank in (0, 2):
        told = json.loads((folder / name / f"told-{rank}.json").read_text())
        assert told["after"] < 30
        assert f"process {rank} of 3" in told["said"]
        assert "--resume" in told["said"]
    assert_same_end(folder / name, folder / "alone")


def test_the_command_trains_in_two_processes_and_the_first_one_reports(ran):
    folder = ran[0]
    first, second = (json.loads((folder / f"right-{rank}.json").read_text()) for rank in (0, 1))
    assert (first["status"], second["status"]) == (0, 0)
    assert json.loads(first["out"])["model"] == "mgnni"
    assert second["out"] == second["err"] == ""
    assert len(rows_of(folder / "right")) == 5


@pytest.mark.parametrize(
    ("name", "said"), [("wrong", "as many processes as were started, 2"), ("none", "--mesh must")]
)
def test_the_command_refuses_another_number_of_processes(ran, name, said):
    first, second = (json.loads((ran[0] / f"{name}-{rank}.json").read_text()) for rank in (0, 1))
    assert (first["status"], second["status"]) == (2, 2)
    assert said in first["err"]
    assert first["err"].count("\n") == 1
    assert second["err"] == ""
