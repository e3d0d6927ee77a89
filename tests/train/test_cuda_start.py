"""The first use of CUDA in a process, which tests that share a process do not see."""

import json
import subprocess
import sys

import pytest
import torch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_new_process_trains_on_cuda(tmp_path):
    command = ["train", "chains", "--epochs", "2", "--device", "cuda", "--output", "run", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "mgnni", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cuda" in json.loads(done.stdout)["device"]
