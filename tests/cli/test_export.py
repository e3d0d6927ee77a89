"""``mgnni export``: a training in, a program of torch.export out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
import torch

from cli.tables import QUICK, write_graphs, write_nodes

Call = Callable[..., Any]  # see conftest.py


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_nodes(folder / "mine")
    write_graphs(folder / "many")
    for name, *options in (("mine",), ("many",)):
        args = ["train", folder / name, *QUICK, *options, "--no-report"]
        ended = call(*args, "--output", folder / f"{name}-run")
        assert ended.status == 0, ended.err
    return folder


def test_an_export_returns_the_probabilities_of_predict(call: Call, trained: Path) -> None:
    run = trained / "mine-run"
    ended = call("export", run)
    assert (ended.status, ended.err) == (0, "")
    assert "features of shape" in ended.out
    program = torch.export.load(run / "model.pt2")
    (x,) = program.example_inputs[0]
    scores = program.module()(x)
    assert call("predict", run, trained / "mine").status == 0
    table = pyarrow.csv.read_csv(run / "predictions.csv").to_pydict()
    columns = [table[name] for name in table if name.startswith("p_")]
    torch.testing.assert_close(scores, torch.tensor(columns).mT, rtol=0, atol=1e-6)


def test_an_existing_file_is_kept_unless_asked(call: Call, trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.pt2"
    output.write_bytes(b"precious")
    args = ["export", trained / "mine-run", "--output", output]
    ended = call(*args)
    assert ended.status == 2
    assert "exists; pass --overwrite" in ended.err
    assert output.read_bytes() == b"precious"
    found = json.loads(call(*args, "--overwrite", "--json").out)
    assert (found["command"], found["output"], found["run"]) == ("export", str(output), 0)
    assert output.stat().st_size > 1000


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["many-run"], "RUN must predict nodes to be exported"),
        (["mine"], "which has no model.pt); train one"),
        (["mine-run", "--output", "model.onnx"], "must be a file that ends in .pt2"),
        (["mine-run", "--run-number", "7"], "--run-number must lie between 0 and"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    call: Call, trained: Path, args: list[str], message: str
) -> None:
    ended = call("export", trained / args[0], *args[1:])
    assert ended.status in (1, 2)
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_data_that_have_moved_are_exported(call: Call, tmp_path: Path) -> None:
    write_nodes(tmp_path / "mine")
    run, other = tmp_path / "run", tmp_path / "other.pt2"
    assert call("train", tmp_path / "mine", *QUICK, "--no-report", "--output", run).status == 0
    assert call("export", run).status == 0
    (tmp_path / "mine").rename(tmp_path / "elsewhere")
    ended = call("export", run, "--output", other)
    assert (ended.status, ended.out) == (2, "")
    assert "restore it, or say with --data where it is now" in ended.err
    ended = call("export", run, "--output", other, "--data", tmp_path / "elsewhere")
    assert (ended.status, ended.err) == (0, "")
    (x,) = torch.export.load(run / "model.pt2").example_inputs[0]
    torch.testing.assert_close(torch.export.load(other).example_inputs[0][0], x)
