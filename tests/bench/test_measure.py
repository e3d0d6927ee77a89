"""Clocks and distances."""

from __future__ import annotations

import math
import time

import torch

from mgnni.bench import measure
from mgnni.bench.measure import alternate, distance, errors, peak
from mgnni.bench.results import Errors


def test_they_take_turns_after_a_warm_up():
    device = torch.device("cpu")  # on an accelerator a turn is many runs
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    times = alternate(runs, device, repeats=4, warmup=2)
    assert order == ["a", "b", "c"] * 6
    assert list(times) == ["a", "b", "c"]


def test_the_median_is_told(monkeypatch):
    spent = iter([9.0, 0.1, 0.3, 5.0])
    monkeypatch.setattr(measure, "seconds", lambda run, device, times: next(spent))
    assert alternate({"a": list}, torch.device("cpu"), repeats=3, warmup=1) == {"a": 0.3}


def test_quick_work_is_done_many_times_in_a_turn_on_an_accelerator(monkeypatch):
    asked = []
    took = iter([measure.TURN / 3, 1e-3, 1e-9, 1e-6])

    def seconds(run, device, times):
        asked.append(times)
        return next(took)

    for name, fake in (("seconds", seconds), ("awaken", lambda device: None)):
        monkeypatch.setattr(measure, name, fake)
    found = alternate({"a": list}, torch.device("cuda"), repeats=1, warmup=1)
    assert (asked, found) == ([1, 3], {"a": 1e-3})
    alternate({"a": list}, torch.device("cuda"), repeats=1, warmup=1)
    assert asked[2:] == [1, measure.MOST]


def test_a_turn_counts_all_its_runs():
    count = []
    took = measure.seconds(lambda: count.append(time.sleep(0.01)), torch.device("cpu"), 3)
    assert len(count) == 3
    assert 0.01 <= took < 0.03


def test_what_is_slow_is_measured_less_often(monkeypatch):
    monkeypatch.setattr(measure, "PATIENCE", 0.02)
    count = {"slow": 0, "fast": 0}

    def slow():
        count["slow"] += 1
        time.sleep(0.01)

    def fast():
        count["fast"] += 1

    alternate({"slow": slow, "fast": fast}, torch.device("cpu"), repeats=10, warmup=0)
    assert count == {"slow": 3, "fast": 10}


def test_distance_is_relative():
    want = torch.tensor([3.0, 4.0])
    assert distance(want + torch.tensor([0.0, 0.5]), want) == 0.1
    assert distance(torch.zeros(2), torch.zeros(2)) == 0
    assert distance(torch.ones(2), torch.zeros(2)) == math.inf
    assert distance(torch.tensor([0.0, 1e-3]), torch.zeros(2), floor=1.0) < 1.1e-3
    assert math.isnan(distance(torch.tensor([math.nan, 0.0]), want))


def test_the_worst_gradient_counts_unless_it_is_a_remainder():
    want = [torch.ones(4), torch.tensor([1.0]), torch.tensor([0.1]), torch.tensor([1e-9])]
    got = [torch.ones(4), torch.tensor([1.01]), torch.tensor([0.102]), torch.tensor([1e-6])]
    found = errors(got, want)
    assert found.forward == 0
    assert abs(found.gradient - 0.02) < 1e-6
    assert not Errors(0.0, math.nan).within(Errors(1.0, 1.0))


def test_memory_is_counted_where_it_can_be(device):
    found = peak(lambda: torch.zeros(2**20, device=device).clone(), device)
    assert found is None if device.type == "cpu" else found == 2**23
