"""Whatever is wrong: one line that helps, a status, and a disk as it was before."""

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

NODES, EDGES = node_rows(), edge_rows()


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two graphs of one's own, and a training on each and on a benchmark."""
    folder = tmp_path_factory.mktemp("trained")
    write_nodes(folder / "mine")
    write_graphs(folder / "many")
    for data in ("mine", "many"):
        assert call("train", folder / data, *QUICK, "--output", folder / f"{data}-run").status == 0
    assert call("train", "chains", "--epochs", "2", "--output", folder / "chains-run").status == 0
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a folder of its own, which is where commands run."""
    shutil.copytree(trained, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path / "no-data"))
    # It names its data by their full path.
    for run in ("mine-run", "many-run"):
        config = tmp_path / "place" / run / "config.json"
        config.write_text(config.read_text().replace(str(trained), str(tmp_path / "place")))
    return tmp_path / "place"


@pytest.fixture
def refused(call: Call, place: Path) -> Callable[..., str]:
    """Run a command that must fail, see that it left nothing behind, and return what it said."""

    def run(*args: str | Path, status: int) -> str:
        before = listing(place)
        ended = call(*args)
        assert ended.err.count("\n") == 1, ended
        assert ended.err.startswith(f"mgnni {args[0]}: error: "), ended
        assert "Traceback" not in ended.err
        assert not re.search(r"\w+Error\b", ended.err), (
            "the name of a Python error says nothing to a user"
        )
        assert (ended.status, ended.out) == (status, ""), ended
        assert listing(place) == before
        return str(ended.err).removeprefix(f"mgnni {args[0]}: error: ").strip()

    return run


def without(column: int) -> Rows:
    return [",".join(c for i, c in enumerate(row.split(",")) if i != column) for row in NODES]


MASKS = [
    "id,a,label,train_mask,val_mask,test_mask",
    *(f"n{i:02d},{i},{'xy'[i % 2]},1,{int(i == 7)},0" for i in range(24)),
]


@pytest.mark.parametrize(
    ("nodes", "edges", "said", "remedy"),
    [
        (without(3), EDGES, "bad/nodes.csv: a column must be the label", "--label"),
        (NODES, [*EDGES, "n01,zz"], "bad/edges.csv, row 50: .* 'zz'", "add the node, or remove"),
        ([*NODES, NODES[3]], EDGES, "bad/nodes.csv, row 26: .*'n02', as in row 4", "remove one"),
        (changed(NODES, 5, 1, "nan"), EDGES, "bad/nodes.csv, row 6: .*'nan'", "leave it empty"),
        (changed(NODES, 5, 1, "inf"), EDGES, "bad/nodes.csv, row 6: .*'inf'", "leave it empty"),
        (changed(NODES, 5, 1, "big"), EDGES, "bad/nodes.csv, row 6: .*'big'", "--categorical a"),
        (
            [row.replace("blue", "red") for row in NODES],
            EDGES,
            "bad/nodes.csv, column 'label': labels must be of two classes .*'red' only",
            "check the label column",
        ),
        (
            [row.replace("train", "val") for row in NODES],
            EDGES,
            "bad/nodes.csv, column 'split': the training part is empty",
            "give at least one",
        ),
        (MASKS, EDGES, "bad/nodes.csv, row 9: .*'train_mask', 'val_mask'", "set all but one to 0"),
        (
            changed(NODES, 4, 3, "green"),
            EDGES,
            "bad/nodes.csv, column 'split': .*'green' in test, not in train",
            "--allow-unseen",
        ),
        (changed(NODES, 4, 4, "tset"), EDGES, "bad/nodes.csv, row 5: .*'tset'", "mean 'test'"),
        ([*NODES[:5], NODES[5] + ",x"], EDGES, "bad/nodes.csv, row 6: .*got 6", "complete the row"),
        ([row.replace(",", ";") for row in NODES], EDGES, "bad/nodes.csv: ", "--delimiter"),
    ],
    ids=[
        *("no-label", "dangling-edge", "same-id", "nan", "inf", "text", "one-class", "no-train"),
        *("masks-overlap", "unseen-class", "split-word", "ragged", "delimiter"),
    ],
)
def test_a_bad_table(
    refused: Callable[..., str], place: Path, nodes: Rows, edges: Rows, said: str, remedy: str
) -> None:
    write_nodes(place / "bad", nodes, edges)
    line = refused("train", "bad", *QUICK, status=1)
    assert re.match(said, line), line
    assert remedy in line


def cut_parquet(folder: Path) -> None:
    table = pyarrow.csv.read_csv(folder / "nodes.csv")
    (folder / "nodes.csv").unlink()
    pyarrow.parquet.write_table(table, folder / "nodes.parquet")
    whole = (folder / "nodes.parquet").read_bytes()
    (folder / "nodes.parquet").write_bytes(whole[:-20])


def in_latin_1(folder: Path) -> None:
    (folder / "nodes.csv").write_bytes("\n".join(changed(NODES, 3, 3, "röd")).encode("latin-1"))


@pytest.mark.parametrize(
    ("spoil", "said", "remedy"),
    [
        (cut_parquet, "bad/nodes.parquet: must be a complete Parquet file", "write it again"),
        (in_latin_1, "bad/nodes.csv, row 4: must be UTF-8", "iconv"),
        (lambda f: (f / "nodes.csv").write_bytes(b""), "bad/nodes.csv: .*empty file", "write the"),
        (lambda f: (f / "edges.csv").unlink(), "bad: there must be a table of edges", "add it"),
        (lambda f: (f / "nodes.tsv").touch(), "bad: there must be one table of nodes", "move"),
    ],
    ids=["cut-parquet", "latin-1", "empty", "no-edges", "two-tables"],
)
def test_a_bad_file(
    refused: Callable[..., str],
    place: Path,
    spoil: Callable[[Path], None],
    said: str,
    remedy: str,
) -> None:
    spoil(write_nodes(place / "bad"))
    line = refused("train", "bad", *QUICK, status=1)
    assert re.match(said, line), line
    assert remedy in line


@pytest.mark.parametrize(
    ("args", "said", "remedy"),
    [
        ("--epoch 3", "Unrecognized options: --epoch", "perhaps you meant --epochs"),
        ("--epochs many", "--epochs must be a whole number (got 'many')", "--help"),
        ("--gamma big", "--gamma must be a number (got 'big')", "--help"),
        ("--patience soon", "--patience must be a whole number, or none (got 'soon')", "--help"),
        ("--seeds 0 one", "--seeds must be a whole number (got 'one')", "--help"),
        ("--directed maybe", "--directed must be true or false, or none (got 'maybe')", "--help"),
        ("--lr", "Missing value for argument '--lr'", "--help"),
        ("many", "Unrecognized options: many", "--help"),
        ("--gamma 1.5", "--gamma must lie in [0, 1)", "(got 1.5); 0.8 is"),
        ("--scales 0", "--scales must hold ints of at least 1", "(got 0); use 1"),
        ("--scales 1 1", "--scales must not repeat a scale", "(got (1, 1))"),
        ("--lr -1", "--lr must be", "at least 0 and finite (got -1.0)"),
        ("--weight-decay nan", "--weight-decay must be", "at least 0 and finite (got nan)"),
        ("--dropout 1", "--dropout must lie in [0, 1) (got 1.0)", "0 switches it off"),
        ("--solver picrad", "--solver must be one of", "did you mean 'picard'?"),
        ("--rule validaton", "--rule must be one of", "did you mean 'validation'?"),
        ("--preset author", "--preset must be one of", "did you mean 'authors'?"),
        ("--metric acuracy", "--metric must be one of", "did you mean 'accuracy'?"),
        ("--device cudo", "--device must be one of", "did you mean 'cuda'?"),
        ("--head lineal", "--head must be one of", "did you mean 'linear'?"),
        ("--precision 16", "--precision must be one of", "'32', '64', 'bf16'"),
        ("--split 5", "--split must be 0, the only one", "(got 5)"),
        ("--split first", "--split must be numbers from 0, or all", "(got first)"),
        ("--split 0 0", "--split must not repeat a number", "(got [0, 0])"),
        ("--seeds 1 2 1", "--seeds must not repeat a number", "(got [1, 2, 1])"),
        ("--seeds -1", "--seeds must lie between 0 and", "(got -1)"),
        ("--num-splits 0", "--num-splits must be", "at least 1 (got 0)"),
        ("--checkpoint-every -1", "--checkpoint-every must be", "at least 0 seconds"),
        ("--option undirected=true", "--option", "leave them out"),
        ("--option undirected", "--option must be NAME=VALUE", "write length=80"),
        ("--input-map identity", "--hidden-channels must equal", "or use --input-map mlp"),
        ("--head graph", "--head graph is for whole graphs", "use linear, or residual"),
        ("--batch-norm --head residual", "--batch-norm belongs to --head linear", "leave it out"),
        ("--hidden-channels 0", "--hidden-channels must be", "a positive int (got 0)"),
        ("--epochs 0", "--epochs must be", "at least 1 and finite (got 0)"),
        ("--patience 0", "--patience must be", "at least 1 and finite (got 0)"),
        ("--delimiter ab", "--delimiter must be one character", "',' ';' and"),
        ("--features a a", "--features must name each column once", "(got ['a', 'a'])"),
    ],
)
def test_a_bad_option(refused: Callable[..., str], args: str, said: str, remedy: str) -> None:
    line = refused("train", "mine", *QUICK, *args.split(), status=2)
    assert line.startswith(said), line
    assert remedy in line


@pytest.mark.parametrize(
    ("args", "status", "said", "remedy"),
    [
        ("mine --label topic", 1, "mine/nodes.csv: there must be a column 'topic'", "columns are"),
        ("chians", 2, "'chians' is neither a benchmark (did you mean chains?)", "mgnni datasets"),
        ("nowhere/at/all", 2, "'nowhere/at/all' is neither a benchmark nor a path", "nodes.csv"),
        ("", 2, "DATA is missing", "--help"),
        ("mine/nodes.csv", 1, "mine/nodes.csv: a graph in tables is a folder", "perhaps mine"),
        ("chains --label topic", 2, "columns are for data in files", "leave them out"),
        ("chains --option leng=3", 2, "'chains option' must be one of", "did you mean 'length'?"),
        ("chains --option length=0", 2, "'length' must be an int", "length=1 is the smallest"),
        ("chains --option length=3 length=4", 2, "--option must give each name once", "length"),
        ("ppi-recon", 1, "ppi-recon: not found in ", "MGNNI_DATA"),
        ("many --rule gin --split 0 --metric roc", 2, "--metric must be one of", "'roc_auc'"),
    ],
)
def test_bad_data(
    refused: Callable[..., str], args: str, status: int, said: str, remedy: str
) -> None:
    line = refused("train", *args.split(), *QUICK, status=status)
    assert line.startswith(said), line
    assert remedy in line


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there(refused: Callable[..., str]) -> None:
    line = refused("train", "mine", *QUICK, "--device", "cuda", "--output", "a/b", status=2)
    assert line == "--device cuda is not available here; use cpu, or auto"


@pytest.mark.parametrize(
    ("data", "args", "said", "remedy"),
    [
        ("mine", "", "mine-run: already holds a training", "--resume, or choose another"),
        ("mine", "--resume --lr 0.5", "mine-run: .*config.lr = 0.01 .*0.5", "repeat its options"),
        ("mine", "--resume --seeds 1", "mine-run: holds another training, with runs", "repeat"),
        ("mine", "--resume --rule gin", "mine-run: .* rule = 'validation'", "another --output"),
        ("many", "--resume", "mine-run: holds another training, with ", "another --output"),
    ],
)
def test_a_folder_in_use(
    refused: Callable[..., str], data: str, args: str, said: str, remedy: str
) -> None:
    output = ("--output", "mine-run", *args.split())
    line = refused("train", data, *QUICK, *output, status=1)
    assert re.match(said, line), line
    assert remedy in line


def test_a_training_on_data_that_have_changed(refused: Callable[..., str], place: Path) -> None:
    (place / "mine" / "nodes.csv").write_text("\n".join(changed(NODES, 4, 1, "0.123")))
    line = refused("train", "mine", *QUICK, "--output", "mine-run", "--resume", status=1)
    assert line.startswith("mine-run: holds another training, with data.fingerprint = ")


def test_a_training_by_another_version(refused: Callable[..., str], place: Path) -> None:
    file = place / "mine-run" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "versions": {"mgnni": "0.0.1"}}))
    line = refused("train", "mine", *QUICK, "--output", "mine-run", "--resume", status=1)
    assert line.startswith("mine-run: holds another training, with versions.")


def test_a_damaged_training(refused: Callable[..., str], place: Path) -> None:
    (place / "mine-run" / "config.json").write_text("{")
    line = refused("train", "mine", *QUICK, "--output", "mine-run", "--resume", status=1)
    assert line == "mine-run/config.json: cannot be read as JSON; choose another --output"


@pytest.mark.parametrize("output", ["mine/nodes.csv", "mine/nodes.csv/x", "/proc/x", "/dev/null/x"])
def test_an_output_that_cannot_be_a_folder(refused: Callable[..., str], output: str) -> None:
    line = refused("train", "mine", *QUICK, "--output", output, status=2)
    assert line.startswith(f"--output must be a folder that can be written to (got '{output}': ")
    assert line.endswith("; choose another with --output FOLDER")


def test_an_output_with_something_else_in_it(refused: Callable[..., str], place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "model.pt").write_text("not ours")
    line = refused("train", "mine", *QUICK, "--output", "other", status=1)
    assert line == "other: holds a model.pt of something else; choose another --output"


def test_an_output_where_another_process_is_at_work(
    refused: Callable[..., str], place: Path
) -> None:
    (place / "busy").mkdir()
    with FileLock(place / "busy" / ".lock"):
        line = refused("train", "mine", *QUICK, "--output", "busy", status=1)
    assert line.startswith("busy: another process is training here; wait for it")


def test_a_training_that_diverges(refused: Callable[..., str]) -> None:
    line = refused("train", "mine", *QUICK, "--lr", "1e30", "--output", "deep/in/here", status=1)
    assert line.startswith("training diverged: weights of split 0, seed 0 overflowed in epoch ")
    assert "lower lr (got 1e+30)" in line


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_full_disk(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, name, full)
    line = refused("train", "mine", *QUICK, "--output", "new", status=1)
    assert line.startswith("no space left on device; free some space, then repeat the command")


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
    ("args", "most", "status", "said"),
    [
        (("train", "mine", *QUICK, "--output", "new"), 4096, 1, "file too large; free some space"),
        (("predict", "mine-run", "mine"), 512, 1, "predictions.csv: cannot be written (file too"),
        (("train", "chians"), None, 2, "'chians' is neither a benchmark (did you mean chains?)"),
    ],
    ids=["full-disk", "full-disk-predict", "name"],
)
def test_in_a_process_of_its_own(
    place: Path, args: tuple[str, ...], most: int | None, status: int, said: str
) -> None:
    before = listing(place)
    done = in_another_process(place, *args, most=most)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mgnni {args[0]}: error: {said}")
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


def test_evil_is_evil(place: Path) -> None:
    torch.load(io.BytesIO(evil()), weights_only=False)
    assert (place / "evil").is_dir(), "the files below would run code if they were let"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda m: m.read_bytes()[: m.stat().st_size // 2], "is not a checkpoint of mgnni, or it"),
        (lambda m: b"", "is not a checkpoint of mgnni, or it is damaged"),
        (lambda m: b"hello", "is not a checkpoint of mgnni, or it is damaged"),
        (lambda m: evil(), "is not a checkpoint of mgnni, or it is damaged (nothing in it was"),
        (lambda m: evil(False), "is not a checkpoint of mgnni, or it is damaged (nothing in it"),
        (lambda m: rewritten(m, kind="other"), "is not a model of mgnni; pass the model.pt"),
        (lambda m: rewritten(m, format=99), "was written by mgnni "),
        (lambda m: rewritten(m, num_features=9), "its fields do not fit together"),
        (lambda m: rewritten(m, config={"mode": 1}), "its fields do not fit together"),
        (lambda m: rewritten(m, weights=[]), "its fields do not fit together"),
    ],
    ids=[
        *("cut", "empty", "text", "evil", "evil-pickle", "another-kind", "another-format"),
        *("another-width", "another-config", "no-weights"),
    ],
)
def test_a_model_that_is_none(
    refused: Callable[..., str], place: Path, make: Callable[[Path], bytes], said: str
) -> None:
    (place / "bad").mkdir()
    (place / "bad" / "model.pt").write_bytes(make(place / "mine-run" / "model.pt"))
    line = refused("predict", "bad", "mine", status=1)
    assert line.startswith(f"bad/model.pt: {said}"), line
    assert "train again" in line or "pass the model.pt" in line


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
    ("prepare", "args", "status", "said", "remedy"),
    [
        (None, "", 2, "MODEL is missing", "--help"),
        (None, "mine-run", 2, "GRAPH is missing", "--help"),
        (None, "nowhere mine", 1, "nowhere: no such file", "model.pt"),
        (None, "mine mine", 1, "mine/model.pt: no such file", "a training that is complete"),
        (None, "mine-run mien", 2, "'mien' is neither a benchmark", "mgnni datasets"),
        (None, "mine-run chains", 2, "mine-run was trained on files", "./chains"),
        (None, "mine-run many", 1, "many: nodes are to be classified", "remove graphs.csv"),
        (None, "many-run mine", 1, "mine: graphs are to be classified", "add graphs.csv"),
        (None, "mine-run mine --run-number 3", 2, "--run-number must lie between 0 and 0", "got 3"),
        (None, "mine-run mine --run-number x", 2, "--run-number must be a whole number", "got 'x'"),
        (
            None,
            "mine-run mine --output mine/nodes.csv",
            1,
            "mine/nodes.csv: there is a file",
            "--o",
        ),
        (None, "mine-run mine --output mine.txt", 1, "mine.txt: predictions must go to", ".csv or"),
        (None, "mine-run mine --output no/p.csv", 1, "no/p.csv: its folder must exist", "make no"),
        (None, "mine-run mine --option length=3", 2, "--option is for a benchmark", "leave it out"),
        (None, "chains-run chains --option length=0", 2, "'length' must be an int", "smallest"),
        (None, "chains-run colors", 1, "", "features"),
        (a_state_dict, "other.pt mine", 1, "other.pt: is not a model of mgnni", "model.pt of a"),
        (evil_graph, "mine-run evil.pt", 1, "evil.pt: must hold a PyG Data", "no code of a file"),
        (without_a_feature, "mine-run narrow", 1, "narrow/nodes.csv: the features", "add these"),
        (arrays, "chains-run three.npz", 1, "", "features"),
    ],
)
def test_predictions_that_cannot_be(
    refused: Callable[..., str],
    place: Path,
    prepare: Callable[[Path], None] | None,
    args: str,
    status: int,
    said: str,
    remedy: str,
) -> None:
    if prepare is not None:
        prepare(place)
    line = refused("predict", *args.split(), status=status)
    assert line.startswith(said), line
    assert remedy in line


def test_an_evil_graph_is_not_trained_on(refused: Callable[..., str], place: Path) -> None:
    allowed = set(torch.serialization.get_safe_globals())
    evil_graph(place)
    line = refused("train", "evil.pt", *QUICK, status=1)
    assert line.startswith("evil.pt: must hold a PyG Data")
    assert "no code of a file is run" in line
    assert set(torch.serialization.get_safe_globals()) == allowed, "PyG needs what it has allowed"
