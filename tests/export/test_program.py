"""Exported programs: they equal the model, also in a process without the training code."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import mgnni
from mgnni import ArgumentError, DataError, Fitted, export_model
from mgnni.export.program import export_program
from mgnni.models.catalog import MODELS
from mgnni.train.config import Config, options_class
from mgnni.train.ensemble import build_model
from mgnni.train.runs import Run

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
NODES, FEATURES = 20, 6
REFUSED = {"ignn", "cgs", "sse", "gind", "mignn", "fdgnn"}  # their equations are nonlinear
GRAPHS_ONLY = {"dgcnn"}
NOT_WRITABLE = "ignore:The given buffer is not writable"  # torch.export.load of torch 2.11


def graph(seed: int = 0) -> Data:
    """A directed graph."""
    torch.manual_seed(seed)
    edges = torch.randint(NODES, (2, 3 * NODES))
    return Data(x=torch.randn(NODES, FEATURES), edge_index=edges, num_nodes=NODES)


def fitted(name: str = "mgnni", level: str = "node", **options: Any) -> Fitted:
    """An untrained model as if it were trained."""
    torch.manual_seed(3)
    own = options_class(name)(**{"hidden_channels": FEATURES, **options})
    config = Config(architecture=name, model=own)
    model = build_model(config, FEATURES, 3, level)
    return Fitted(
        *(config, level, False, ("a", "b", "c"), FEATURES, "accuracy"),
        runs=(Run(split=0, seed=0),),
        val=({"accuracy": 1.0},),
        weights=(model.state_dict(),),
        data=(graph(),),
    )


@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED | GRAPHS_ONLY])
def test_an_exported_model_returns_the_probabilities_of_the_model(name: str) -> None:
    one = fitted(name)
    module = export_program(one, one.read(None)).module()
    other = graph()
    other.x = other.x.flip(0)  # not the features that were recorded
    torch.testing.assert_close(module(other.x), one.predict_proba(other), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_nonlinear_model_says_why_it_is_not_exported(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"nonlinear equation .* depends on the features"):
        export_model(fitted(name), tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


def test_a_model_of_whole_graphs_says_why_it_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="holds one fixed graph; use mgnni predict"):
        export_model(fitted(level="graph"), tmp_path / "model.pt2")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a file that ends in \.pt2"):
        export_model(fitted(), tmp_path / "model.pt")


LOADED = """
import sys, torch
import mgnni.serve
program = torch.export.load(sys.argv[1])
torch.save(program.module()(torch.load(sys.argv[2])), sys.argv[3])
foreign = ("torch_geometric", "scipy", "mgnni.models", "mgnni.layers", "mgnni.train", "mgnni.data")
print([name for name in foreign if name in sys.modules])
"""


def run(code: str, *args: Path) -> str:
    """Run a script in a new process, in which warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", NOT_WRITABLE, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.filterwarnings(NOT_WRITABLE)
def test_another_process_needs_torch_and_the_ops_only(tmp_path: Path) -> None:
    one = fitted(directions="both", blocks=2)
    info = export_model(one, tmp_path / "model.pt2")
    assert (info["nodes"], info["features"], info["classes"]) == (NODES, FEATURES, ["a", "b", "c"])
    extra = {"mgnni.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    assert json.loads(extra["mgnni.json"]) == info
    other = graph()
    other.x = 2 * other.x
    torch.save(other.x, tmp_path / "x.pt")
    files = [tmp_path / name for name in ("model.pt2", "x.pt", "scores.pt")]
    assert run(LOADED, *files) == "[]"
    scores = torch.load(tmp_path / "scores.pt")
    torch.testing.assert_close(scores, one.predict_proba(other), rtol=0, atol=1e-6)


def test_a_regression_returns_its_numbers() -> None:
    one = dataclasses.replace(fitted(), regression=True)
    model = build_model(one.config, FEATURES, 3, "node", True)
    one = dataclasses.replace(one, weights=(model.state_dict(),))
    scores = export_program(one, one.read(None)).module()(graph().x)
    torch.testing.assert_close(scores, one.predict(), rtol=0, atol=1e-6)


def test_several_graphs_are_exported_as_one() -> None:
    one = fitted()
    graphs = [graph(0), graph(1)]
    module = export_program(one, graphs).module()
    scores = module(torch.cat([one.x for one in graphs]))
    expected = torch.cat([one.predict_proba(each) for each in graphs])
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)


def test_the_script_of_the_documentation_serves_a_model(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(# serve\.py\n.*?)```", PAGE.read_text("utf-8"), re.S)
    assert sum(bool(line.strip()) for line in script.splitlines()[1:]) <= 10
    (tmp_path / "serve.py").write_text(script)
    one = fitted()
    export_model(one, tmp_path / "model.pt2")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "serve.py", "model.pt2", str(port)]
    place = {**os.environ, "PYTHONPATH": str(Path(mgnni.__file__).parents[1])}
    server = subprocess.Popen(command, cwd=tmp_path, env=place, stderr=subprocess.PIPE)
    try:
        x = graph().x
        body = json.dumps(x.tolist()).encode()
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://localhost:{port}", body) as answer:
                    scores = torch.tensor(json.load(answer))
                break
            except urllib.error.URLError:  # not listening yet
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        server.kill()
        server.communicate()
    torch.testing.assert_close(scores, one.predict_proba(), rtol=0, atol=1e-6)
