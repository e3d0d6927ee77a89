"""The estimate of the time left, with a fake clock."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from mgnni.cli import progress
from mgnni.cli.progress import Clock, follow_training
from mgnni.cli.terminal import span
from mgnni.train.runs import Epoch, Run


def epoch(
    number: int, runs: int = 1, finished: int = 0, waited: int = 0, val: float | None = 0.5
) -> Epoch:
    values = [] if val is None else [val] * runs
    return Epoch(
        group=0,
        groups=1,
        epoch=number,
        epochs=100,
        runs=[Run(split, 0) for split in range(runs)],
        loss=[1.0] * runs,
        val_loss=values,
        val_metric=values,
        best_metric=values,
        waited=waited,
        finished=finished,
    )


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as its only item."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def ticked(made: Clock, seconds: list[float], *epochs: Epoch, each: float) -> Clock:
    for one in epochs:
        seconds[0] += each
        made(one)
    return made


def silent(*_: object) -> None:
    """Show nothing."""


def test_one_run(seconds: list[float]) -> None:
    clock = ticked(Clock(1, 10, silent), seconds, epoch(1), each=2.0)
    assert clock.state(epoch(1)) == "val 50.0 %", "one epoch says nothing of the time it took"
    ticked(clock, seconds, epoch(2, waited=4), each=2.0)
    # 98 epochs of 2 s at most; 6 of them if nothing improves any more.
    assert clock.state(epoch(2, waited=4)) == "val 50.0 %  12 s to 3 min left"
    assert clock.current(epoch(2)) == "training"
    assert clock.epochs == 2


def test_many_runs_together_share_an_epoch(seconds: list[float]) -> None:
    clock = Clock(10, None, silent)
    ticked(clock, seconds, epoch(1, 10), epoch(2, 10), each=10.0)
    assert clock.current(epoch(2, 10)) == "10 runs"
    assert clock.state(epoch(2, 10)) == "val 50.0 %  16 min left"
    # Five have finished: an epoch of the rest takes half as long, 5 s, and 50 are left.
    assert clock.state(epoch(50, 5, finished=5)) == "val 50.0 %  4 min left"


def test_runs_one_after_another_wait_for_their_turn(seconds: list[float]) -> None:
    clock = Clock(3, None, silent)
    ticked(clock, seconds, epoch(1), epoch(2), each=1.0)
    assert clock.current(epoch(2, finished=1)) == "run 2 of 3"
    # 98 of this run, 100 of the next.
    assert clock.state(epoch(2, finished=1)) == "val 50.0 %  3 min left"
    assert clock.state(epoch(100, finished=2)) == "val 50.0 %  0 s left"


def test_without_validation_there_is_no_early_end(seconds: list[float]) -> None:
    clock = Clock(1, 10, silent)
    ticked(clock, seconds, epoch(1, val=None), epoch(2, val=None), each=1.0)
    assert clock.state(epoch(90, val=None)) == "10 s left"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")],
)
def test_a_span_has_the_unit_that_suits_it(value: float, shown: str) -> None:
    assert span(value) == shown


def test_a_log_gets_a_line_now_and_then(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with follow_training(3, 100, None) as clock:
        ticked(clock, seconds, *(epoch(number) for number in range(1, 41)), each=1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "run 1 of 3, epoch 16 of 100, val 50.0 %, 5 min left",
        "run 1 of 3, epoch 32 of 100, val 50.0 %, 4 min left",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_a_bar_on_one_line(
    seconds: list[float], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    screen = io.StringIO()

    def terminal(**options: Any) -> Console:
        assert options["stderr"]
        return Console(file=screen, force_terminal=True, width=width, color_system=None)

    monkeypatch.setattr(progress, "Console", terminal)
    with follow_training(100, 10000, 500) as clock:
        for number in range(1, 2000):
            seconds[0] += 3.0
            clock(epoch(number, finished=8, waited=3))
    last = screen.getvalue().replace("\r", "\n").splitlines()
    (shown,) = {line for line in last if "1999/10000" in line}
    plain = shown.partition("  run")[2]
    assert plain.startswith(" 9 of 100 ")
    assert "epochs  val 50.0 %  " in plain
    assert plain.rstrip().endswith(" left")
    assert "…" not in plain
    assert len(plain) + 5 <= width
