"""Processes that share a study neither lose nor repeat a trial, also if one of them is killed."""

import json
import os

import pytest

from distributed.several import run_script


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_four_processes_of_which_one_is_killed_try_every_point_once(tmp_path):
    alone, four = json.loads(run_script("studies.py", tmp_path).splitlines()[-1])
    assert (alone, four) == ([0], [0, 0, -9, 0])
    results = [
        json.loads((tmp_path / name / "preset.json").read_text()) for name in ("alone", "four")
    ]
    values = [
        sorted((json.dumps(one["params"]), one["value"], one["loss"]) for one in result["trials"])
        for result in results
    ]
    assert len(values[0]) == 12
    assert values[0] == values[1]
    assert results[0]["chosen"] == results[1]["chosen"]
    # The survivors did what the killed process had begun, and no trial twice.
    seen = [json.loads((tmp_path / f"four/seen-{rank}.json").read_text()) for rank in (0, 1, 3)]
    trained = [name for one in seen for name in one]
    assert len(trained) == len(set(trained)) == 12
    assert not list((tmp_path / "four").glob(".trial-*"))
