"""Bad input: one helpful line, an exit status, no traceback, and an unchanged disk."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from filelock import FileLock

from cli.tables import QUICK, changed, edge_rows, listing, node_rows, write_graphs, write_nodes

Call = Callable[..., Any]  # see conftest.py
Rows = list[str]
Refused = Callable[..., str]  # see refused

NODES, EDGES = node_rows(), edge_rows()


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graphs in files, and a training on each and on a benchmark."""
    folder = tmp_path_factory.mktemp("trained")
    write_nodes(folder / "mine")
    write_graphs(folder / "many")
    for data in ("mine", "many"):
        assert call("train", folder / data, *QUICK, "--output", folder / f"{data}-run").status == 0
    assert call("train", "chains", "--epochs", "2", "--output", folder / "chains-run").status == 0
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, which is the current folder."""
    shutil.copytree(trained, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path / "no-data"))
    # It contains the full path of its data.
    for run in ("mine-run", "many-run"):
        config = tmp_path / "place" / run / "config.json"
        config.write_text(config.read_text().replace(str(trained), str(tmp_path / "place")))
    return tmp_path / "place"


@pytest.fixture
def refused(call: Call, place: Path) -> Refused:
    """Run a command that must fail, check that it leaves nothing behind, return its message.

    A training that has begun has described its data on standard output.
    """

    def run(*args: str | Path, status: int, begun: bool = False) -> str:
        before = listing(place)
        ended = call(*args)
        assert ended.err.count("\n") == 1, ended
        assert ended.err.startswith(f"mgnni {args[0]}: error: "), ended
        assert "Traceback" not in ended.err
        assert not re.search(r"\w+Error\b", ended.err), (
            "the name of a Python error says nothing to a user"
        )
        assert (ended.status, ended.out != "") == (status, begun), ended
        assert listing(place) == before
        return str(ended.err).removeprefix(f"mgnni {args[0]}: error: ").strip()

    return run


def without(column: int) -> Rows:
    return [",".join(c for i, c in enumerate(row.split(",")) if i != column) for row in NODES]


MASKS = [
    "id,a,label,train_mask,val_mask,test_mask",
    *(f"n{i:02d},{i},{'xy'[i % 2]},1,{int(i == 7)},0" for i in range(24)),
]


def says(line: str, *facts: str) -> None:
    """Check that a message contains the facts, whatever the rest of its words."""
    assert all(fact in line for fact in facts), line


@pytest.mark.parametrize(
    ("nodes", "edges", "facts"),
    [
        (without(3), EDGES, ("nodes.csv", "label", "--label")),
        (NODES, [*EDGES, "n01,zz"], ("edges.csv", "row 50", "'zz'")),
        ([*NODES, NODES[3]], EDGES, ("nodes.csv", "row 26", "'n02'", "row 4")),
        (changed(NODES, 5, 1, "inf"), EDGES, ("nodes.csv", "row 6", "'inf'")),
        (changed(NODES, 5, 1, "big"), EDGES, ("nodes.csv", "row 6", "'big'", "--categorical a")),
        ([row.replace("blue", "red") for row in NODES], EDGES, ("nodes.csv", "'label'", "'red'")),
        ([row.replace("train", "val") for row in NODES], EDGES, ("nodes.csv", "'split'", "train")),
        (MASKS, EDGES, ("nodes.csv", "row 9", "'train_mask'", "'val_mask'")),
        (changed(NODES, 4, 3, "green"), EDGES, ("nodes.csv", "'green'", "--allow-unseen")),
        (changed(NODES, 4, 4, "tset"), EDGES, ("nodes.csv", "row 5", "'tset'", "'test'")),
        ([*NODES[:5], NODES[5] + ",x"], EDGES, ("nodes.csv", "row 6", "6")),
        ([row.replace(",", ";") for row in NODES], EDGES, ("nodes.csv", "--delimiter")),
    ],
    ids=[
        *("no-label", "dangling-edge", "same-id", "inf", "text", "one-class", "no-train"),
        *("masks-overlap", "unseen-class", "split-word", "ragged", "delimiter"),
    ],
)
def test_a_bad_table_is_named_with_its_row(
    refused: Refused, place: Path, nodes: Rows, edges: Rows, facts: tuple[str, ...]
) -> None:
    write_nodes(place / "bad", nodes, edges)
    says(refused("train", "bad", *QUICK, status=1), *facts)


def cut_parquet(folder: Path) -> None:
    table = pyarrow.csv.read_csv(folder / "nodes.csv")
    (folder / "nodes.csv").unlink()
    pyarrow.parquet.write_table(table, folder / "nodes.parquet")
    whole = (folder / "nodes.parquet").read_bytes()
    (folder / "nodes.parquet").write_bytes(whole[:-20])


def in_latin_1(folder: Path) -> None:
    (folder / "nodes.csv").write_bytes("\n".join(changed(NODES, 3, 3, "röd")).encode("latin-1"))


@pytest.mark.parametrize(
    ("spoil", "facts"),
    [
        (cut_parquet, ("bad/nodes.parquet", "Parquet")),
        (in_latin_1, ("bad/nodes.csv", "row 4", "UTF-8")),
        (lambda f: (f / "nodes.csv").write_bytes(b""), ("bad/nodes.csv", "empty")),
        (lambda f: (f / "edges.csv").unlink(), ("bad", "edges")),
        (lambda f: (f / "nodes.tsv").touch(), ("bad", "nodes")),
    ],
    ids=["cut-parquet", "latin-1", "empty", "no-edges", "two-tables"],
)
def test_a_bad_file_is_named(
    refused: Refused, place: Path, spoil: Callable[[Path], None], facts: tuple[str, ...]
) -> None:
    spoil(write_nodes(place / "bad"))
    says(refused("train", "bad", *QUICK, status=1), *facts)


@pytest.mark.parametrize(
    ("args", "facts"),
    [
        ("--epoch 3", ("--epoch", "did you mean --epochs?")),
        ("--epochs many", ("--epochs", "a whole number", "'many'")),
        ("--gamma big", ("--gamma", "a number", "'big'")),
        ("--patience soon", ("--patience", "a whole number, or none", "'soon'")),
        ("--scales 1;2", ("--scales", "'1;2'", "spaces")),
        ("--directed maybe", ("--directed", "true or false", "'maybe'")),
        ("--lr", ("--lr", "--help")),
        ("many", ("many", "--help")),
        ("--gamma 1.5", ("--gamma", "[0, 1)", "1.5")),
        ("--scales 0", ("--scales", "got 0")),
        ("--scales 1 1", ("--scales", "(1, 1)")),
        ("--lr -1", ("--lr", "-1.0")),
        ("--weight-decay nan", ("--weight-decay", "nan")),
        ("--dropout 1", ("--dropout", "[0, 1)", "1.0")),
        ("--solver picrad", ("--solver", "did you mean 'picard'?")),
        ("--rule validaton", ("--rule", "did you mean 'validation'?")),
        ("--preset author", ("--preset", "did you mean 'authors'?")),
        ("--metric acuracy", ("--metric", "did you mean 'accuracy'?")),
        ("--device cudo", ("--device", "did you mean 'cuda'?")),
        ("--head lineal", ("--head", "did you mean 'linear'?")),
        ("--precision 16", ("--precision", "'32', '64', 'bf16'")),
        ("--split 5", ("--split", "got 5")),
        ("--split first", ("--split", "all", "first")),
        ("--split 0 0", ("--split", "[0, 0]")),
        ("--seeds 1 2 1", ("--seeds", "[1, 2, 1]")),
        ("--seeds -1", ("--seeds", "got -1")),
        ("--num-splits 0", ("--num-splits", "at least 1")),
        ("--checkpoint-every -1", ("--checkpoint-every", "at least 0")),
        ("--option undirected=true", ("--option", "undirected")),
        ("--option undirected", ("--option", "NAME=VALUE", "'undirected'")),
        ("--input-map identity", ("--hidden-channels", "--input-map mlp")),
        ("--head graph", ("--head graph", "linear or residual")),
        ("--batch-norm --head residual", ("--batch-norm", "--head linear")),
        ("--hidden-channels 0", ("--hidden-channels", "got 0")),
        ("--epochs 0", ("--epochs", "at least 1", "got 0")),
        ("--delimiter ab", ("--delimiter", "one character")),
        ("--features a a", ("--features", "['a', 'a']")),
    ],
)
def test_a_bad_option_is_named_with_its_value(
    refused: Refused, args: str, facts: tuple[str, ...]
) -> None:
    says(refused("train", "mine", *QUICK, *args.split(), status=2), *facts)


@pytest.mark.parametrize(
    ("args", "status", "facts"),
    [
        ("mine --label topic", 1, ("mine/nodes.csv", "'topic'")),
        ("chians", 2, ("'chians'", "did you mean chains?", "mgnni datasets")),
        ("nowhere/at/all", 2, ("'nowhere/at/all'", "nodes.csv")),
        ("", 2, ("DATA", "--help")),
        ("mine/nodes.csv", 1, ("mine/nodes.csv", "folder", "mine")),
        ("chains --label topic", 2, ("label", "chains")),
        ("chains --option leng=3", 2, ("chains option", "did you mean 'length'?")),
        ("chains --option length=0", 2, ("'length'", "got 0")),
        ("chains --option length=3 length=4", 2, ("--option", "length")),
        ("ppi-recon", 1, ("ppi-recon", "MGNNI_DATA")),
    ],
)
def test_bad_data_are_named(
    refused: Refused, args: str, status: int, facts: tuple[str, ...]
) -> None:
    says(refused("train", *args.split(), *QUICK, status=status), *facts)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there(refused: Refused) -> None:
    line = refused("train", "mine", *QUICK, "--device", "cuda", "--output", "a/b", status=2)
    says(line, "--device", "cuda", "cpu")


@pytest.mark.parametrize(
    ("data", "args", "facts"),
    [
        ("mine", "", ("--resume", "--output")),
        ("mine", "--resume --lr 0.5", ("config.lr", "0.01", "0.5")),
        ("mine", "--resume --seeds 1", ("runs",)),
        ("mine", "--resume --rule gin", ("rule", "'validation'", "--output")),
        ("many", "--resume", ("--output",)),
    ],
)
def test_a_folder_in_use_is_kept(
    refused: Refused, data: str, args: str, facts: tuple[str, ...]
) -> None:
    output = ("--output", "mine-run", *args.split())
    says(refused("train", data, *QUICK, *output, status=1), "mine-run", *facts)


def new_data(place: Path) -> None:
    (place / "mine" / "nodes.csv").write_text("\n".join(changed(NODES, 4, 1, "0.123")))


def new_version(place: Path) -> None:
    file = place / "mine-run" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "versions": {"mgnni": "0.0.1"}}))


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (new_data, "data.fingerprint"),
        (new_version, "versions."),
        (lambda place: (place / "mine-run" / "config.json").write_text("{"), "config.json"),
    ],
    ids=["other-data", "other-version", "damaged"],
)
def test_another_training_is_not_resumed(
    refused: Refused, place: Path, change: Callable[[Path], object], fact: str
) -> None:
    change(place)
    line = refused("train", "mine", *QUICK, "--output", "mine-run", "--resume", status=1)
    says(line, "mine-run", fact)


@pytest.mark.parametrize("output", ["mine/nodes.csv", "mine/nodes.csv/x", "/proc/x", "/dev/null/x"])
def test_an_output_that_cannot_be_a_folder_is_refused(refused: Refused, output: str) -> None:
    line = refused("train", "mine", *QUICK, "--output", output, status=2)
    says(line, "--output", f"'{output}'", "choose another")


def test_an_output_with_other_files_is_refused(refused: Refused, place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "model.pt").write_text("not ours")
    says(refused("train", "mine", *QUICK, "--output", "other", status=1), "other", "model.pt")


def test_an_output_in_use_by_another_process_is_refused(refused: Refused, place: Path) -> None:
    (place / "busy").mkdir()
    with FileLock(place / "busy" / ".lock"):
        line = refused("train", "mine", *QUICK, "--output", "busy", status=1)
    says(line, "busy", "another process")


def test_a_diverged_training_leaves_nothing(refused: Refused) -> None:
    line = refused(
        "train", "mine", *QUICK, "--lr", "1e30", "--output", "deep/in/here", status=1, begun=True
    )
    says(line, "diverged", "split 0", "lr", "1e+30")


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, name, full)
    line = refused("train", "mine", *QUICK, "--output", "new", status=1)
    says(line, "no space left", "free")


def in_another_process(place: Path, *args: str, most: int | None = None) -> Any:
    """Run the command as a user does; files may grow to ``most`` bytes."""

    def limit() -> None:
        import resource  # not on every system

        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        [sys.executable, "-m", "mgnni", *args],
        cwd=place,
        preexec_fn=limit,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "most", "status", "fact"),
    [
        (("train", "mine", *QUICK, "--output", "new"), 4096, 1, "file too large"),
        (("predict", "mine-run", "mine"), 512, 1, "predictions.csv"),
        (("train", "chians"), None, 2, "chains"),
    ],
    ids=["full-disk", "full-disk-predict", "name"],
)
def test_a_failure_of_the_process_is_one_line(
    place: Path, args: tuple[str, ...], most: int | None, status: int, fact: str
) -> None:
    before = listing(place)
    done = in_another_process(place, *args, most=most)
    assert done.returncode == status
    assert "test accuracy" not in done.stdout  # no result
    (line,) = done.stderr.splitlines()
    says(line, f"mgnni {args[0]}: error: ", fact)
    assert listing(place) == before


class Evil:
    """Makes a folder when it is loaded by pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("evil",)


def evil(zipped: bool = True) -> bytes:
    if not zipped:
        return pickle.dumps(Evil())
    buffer = io.BytesIO()
    torch.save({"kind": "mgnni-model", "format": 1, "x": Evil()}, buffer)
    return buffer.getvalue()


def rewritten(model: Path, **changes: Any) -> bytes:
    content = torch.load(model, weights_only=True)
    buffer = io.BytesIO()
    torch.save({**content, **changes}, buffer)
    return buffer.getvalue()


def test_an_evil_file_runs_code_when_unpickled(place: Path) -> None:
    torch.load(io.BytesIO(evil()), weights_only=False)
    assert (place / "evil").is_dir(), "the files below contain code"


@pytest.mark.parametrize(
    "make",
    [
        lambda model: model.read_bytes()[: model.stat().st_size // 2],
        lambda model: b"",
        lambda model: b"hello",
        lambda model: evil(),
        lambda model: evil(False),
        lambda model: rewritten(model, kind="other"),
        lambda model: rewritten(model, format=99),
        lambda model: rewritten(model, num_features=9),
        lambda model: rewritten(model, config={"mode": 1}),
        lambda model: rewritten(model, weights=[]),
    ],
    ids=[
        *("cut", "empty", "text", "evil", "evil-pickle", "another-kind", "another-format"),
        *("another-width", "another-config", "no-weights"),
    ],
)
def test_a_bad_model_is_named(refused: Refused, place: Path, make: Callable[[Path], bytes]) -> None:
    (place / "bad").mkdir()
    (place / "bad" / "model.pt").write_bytes(make(place / "mine-run" / "model.pt"))
    says(refused("predict", "bad", "mine", status=1), "bad/model.pt: ", ";")


def a_state_dict(place: Path) -> None:
    torch.save(torch.nn.Linear(2, 2).state_dict(), place / "other.pt")


def evil_graph(place: Path) -> None:
    (place / "evil.pt").write_bytes(evil())


def without_a_feature(place: Path) -> None:
    write_nodes(place / "narrow", without(1))


def arrays(place: Path) -> None:
    """A chain with three features, where the benchmark has another number."""
    np.savez(
        place / "three.npz",
        x=np.eye(3, dtype=np.float32),
        y=np.array([0, 1, 0]),
        edge_index=np.array([[0, 1], [1, 2]]),
    )


@pytest.mark.parametrize(
    ("prepare", "args", "status", "facts"),
    [
        (None, "", 2, ("MODEL", "--help")),
        (None, "mine-run", 2, ("GRAPH", "--help")),
        (None, "nowhere mine", 2, ("MODEL", "'nowhere'", "model.pt")),
        (None, "mine mine", 2, ("MODEL", "'mine'", "model.pt")),
        (None, "mine mine-run", 2, ("swap", "mgnni predict mine-run mine")),
        (None, "chains chains-run/model.pt", 2, ("swap", "mgnni predict chains-run/model.pt")),
        (None, "mine-run mien", 2, ("'mien'", "mgnni datasets")),
        (None, "mine-run chains", 2, ("mine-run", "./chains")),
        (None, "mine-run many", 1, ("many", "graphs.csv")),
        (None, "many-run mine", 1, ("mine", "graphs.csv")),
        (None, "mine-run mine --run-number 3", 2, ("--run-number", "got 3")),
        (None, "mine-run mine --run-number x", 2, ("--run-number", "a whole number", "'x'")),
        (None, "mine-run mine --output mine/nodes.csv", 1, ("mine/nodes.csv", "--overwrite")),
        (None, "mine-run mine --output mine.txt", 1, ("mine.txt", ".csv or .parquet")),
        (None, "mine-run mine --output no/p.csv", 1, ("no/p.csv", "folder")),
        (None, "mine-run mine --option length=3", 2, ("--option", "benchmark")),
        (None, "chains-run chains --option length=0", 2, ("'length'", "got 0")),
        (None, "chains-run colors", 1, ("features",)),
        (a_state_dict, "other.pt mine", 1, ("other.pt", "model.pt")),
        (evil_graph, "mine-run evil.pt", 1, ("evil.pt", "Data")),
        (without_a_feature, "mine-run narrow", 1, ("narrow/nodes.csv", "features")),
        (arrays, "chains-run three.npz", 1, ("features",)),
    ],
)
def test_a_bad_prediction_is_refused(
    refused: Refused,
    place: Path,
    prepare: Callable[[Path], None] | None,
    args: str,
    status: int,
    facts: tuple[str, ...],
) -> None:
    if prepare is not None:
        prepare(place)
    says(refused("predict", *args.split(), status=status), *facts)


def test_an_evil_graph_is_not_trained_on(refused: Refused, place: Path) -> None:
    allowed = set(torch.serialization.get_safe_globals())
    evil_graph(place)
    says(refused("train", "evil.pt", *QUICK, status=1), "evil.pt", "Data")
    assert set(torch.serialization.get_safe_globals()) == allowed, "PyG needs what it has allowed"
