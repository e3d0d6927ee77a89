"""Killed at any moment, a training goes on to the very same end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mgnni.train.fitted import Fitted
from train.cases import assert_same_bits

TESTS = Path(__file__).parents[1]
KILLS = 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
def test_ten_kills_change_nothing(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    # Children are forked, which CUDA does not survive; what is tested here are the files.
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    around = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(TESTS / "train" / "killing.py"), whole, killed, str(KILLS)],
        env={**os.environ, **around},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == KILLS
    assert sum(kill["killed"] for kill in found) >= 7, found  # and not after the end
    places = {tuple(kill["at"]) for kill in found if "at" in kill}
    assert len(places) >= 3, found  # at different moments of it

    kept = {"config.json", "log.jsonl", "model.pt", "report.json"}
    for folder in (whole, killed):
        assert set(os.listdir(folder)) - {".lock"} == kept
    one, other = (json.loads((folder / "report.json").read_text()) for folder in (whole, killed))
    for measured in ("seconds", "peak_memory"):
        assert one.pop(measured) > 0
        assert other.pop(measured) > 0
    assert one == other
    assert (whole / "log.jsonl").read_bytes() == (killed / "log.jsonl").read_bytes()
    assert (whole / "config.json").read_bytes() == (killed / "config.json").read_bytes()
    for a, b in zip(Fitted.load(whole).weights, Fitted.load(killed).weights, strict=True):
        assert_same_bits(a, b)
