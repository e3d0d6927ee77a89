from __future__ import annotations

from pathlib import Path

import pytest
import torch

from data.raw import expect, write_gin_folds, write_tu
from mgnni.data.graph_datasets import read_gin_folds
from mgnni.data.registry import load_task
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError

SIZES = [3 + graph % 5 for graph in range(43)]
GRAPHS = {"graphs": 43, "nodes": sum(SIZES), "edges": 2 * sum(SIZES), "classes": 2}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cycles of 3 to 7 nodes in two alternating classes, with and without node labels."""
    write_tu(tmp_path, "MUTAG", SIZES, node_labels=True)
    write_tu(tmp_path, "IMDB-BINARY", SIZES, node_labels=False)
    expect(monkeypatch, "mutag", **GRAPHS)
    expect(monkeypatch, "imdb-binary", **GRAPHS)
    return tmp_path


def check_folds(task: Task) -> None:
    """Every graph is in one part of each fold, and tested on at most once."""
    everything = torch.arange(task.num_units)
    for split in task.splits:
        found = torch.cat([split.train, split.val, split.test])
        assert torch.equal(found.sort().values, everything)
    tested = torch.cat([split.test for split in task.splits])
    assert tested.unique().numel() == tested.numel()


def test_graphs_as_written(root: Path) -> None:
    task = load_task("mutag", root=root)
    assert (task.level, task.unit, task.num_units) == ("graph", "graph", 43)
    assert all_labels(task).tolist() == [graph % 2 for graph in range(43)]
    for size, graph in zip(SIZES, task.graphs, strict=True):
        cycle = {(i, (i + 1) % size) for i in range(size)}
        edges = {tuple(edge) for edge in graph.edge_index.T.tolist()}
        assert edges == cycle | {(b, a) for a, b in cycle}
        assert graph.x.tolist() == torch.eye(3)[torch.arange(size) % 3].tolist()


def test_folds_of_our_own(root: Path) -> None:
    task = load_task("mutag", root=root)
    check_folds(task)
    labels = all_labels(task)
    assert sum(split.test.numel() for split in task.splits) == 43, "every graph is tested on"
    for split in task.splits:
        assert split.test.numel() in (4, 5)
        for part in (split.test, split.val):
            first = int((labels[part] == 0).sum())
            assert abs(2 * first - part.numel()) <= 1, "each class has its half"
        assert split.val.numel() == 4  # a tenth of 38 or 39
    assert any("Folds are our own" in note and "gin_folds/MUTAG" in note for note in task.notes)


def test_folds_of_the_gin_paper(root: Path) -> None:
    write_gin_folds(root / "gin_folds" / "MUTAG", 43, tested=4)
    task = load_task("mutag", root=root)
    check_folds(task)
    for number, split in enumerate(task.splits):
        assert split.test.tolist() == list(range(4 * number, 4 * number + 4))
    assert task.notes[-3:] == (
        "Folds are those of the GIN paper.",
        "3 graphs are in no test fold, and in training in every fold.",
        "Validation holds out 0.1 of each training fold, stratified.",
    )


def test_without_a_validation_part(root: Path) -> None:
    task = load_task("mutag", root=root, val_fraction=0.0)
    check_folds(task)
    assert all(split.val.numel() == 0 for split in task.splits)
    assert task.notes[-1].startswith("Nothing is held out for validation")
    with pytest.raises(ArgumentError, match=r"\[0, 1\) \(got 1.0\)"):
        load_task("mutag", root=root, val_fraction=1.0)


def test_folds_repeat_differ_and_touch_no_other_random_number(root: Path) -> None:
    write_gin_folds(root / "gin_folds" / "MUTAG", 43, tested=1)
    state = torch.get_rng_state()
    one, other = load_task("mutag", root=root), load_task("mutag", root=root)
    assert torch.equal(torch.get_rng_state(), state)
    for split, again in zip(one.splits, other.splits, strict=True):
        assert torch.equal(split.val, again.val)
    assert len({tuple(split.val.tolist()) for split in one.splits}) > 5, "each fold has its own"


def test_degrees_stand_in_for_labels(root: Path) -> None:
    task = load_task("imdb-binary", root=root)
    assert all(graph.x.tolist() == [[2.0]] * graph.num_nodes for graph in task.graphs)
    onehot = load_task("imdb-binary", root=root, degree="onehot")
    assert all(graph.x.tolist() == [[1.0]] * graph.num_nodes for graph in onehot.graphs)


def test_one_column_for_each_degree_that_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "tu" / "IMDB-MULTI" / "raw"
    raw.mkdir(parents=True)
    # Twelve stars: a node in the middle, and 1, 2 or 4 around it.
    edges, owner, start = [], [], 1
    for graph in range(12):
        leaves = (1, 2, 4)[graph % 3]
        for leaf in range(start + 1, start + 1 + leaves):
            edges += [f"{start}, {leaf}", f"{leaf}, {start}"]
        owner += [str(graph + 1)] * (leaves + 1)
        start += leaves + 1
    classes = [str(graph % 3) for graph in range(12)]
    for name, lines in (("A", edges), ("graph_indicator", owner), ("graph_labels", classes)):
        (raw / f"IMDB-MULTI_{name}.txt").write_text("\n".join(lines) + "\n")
    expect(monkeypatch, "imdb-multi", classes=3)
    column = load_task("imdb-multi", root=tmp_path, val_fraction=0)
    assert column.graphs[2].x.tolist() == [[4.0], [1.0], [1.0], [1.0], [1.0]]
    onehot = load_task("imdb-multi", root=tmp_path, val_fraction=0, degree="onehot")
    assert onehot.num_features == 3  # degrees 1, 2 and 4; there is no 3
    assert onehot.graphs[2].x.tolist() == [[0, 0, 1], *[[1, 0, 0]] * 4]
    assert onehot.graphs[1].x.tolist() == [[0, 1, 0], *[[1, 0, 0]] * 2]


def test_what_makes_no_sense_is_refused(root: Path) -> None:
    with pytest.raises(ArgumentError, match=r"'degree' is for graphs without .* 'onehot' for mut"):
        load_task("mutag", root=root, degree="onehot")
    with pytest.raises(ArgumentError, match=r"'degree' must be one of .*did you mean 'onehot'"):
        load_task("imdb-binary", root=root, degree="one-hot")


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("graph_labels", "graphs without a label"),
        ("node_labels", "nodes without a label"),
    ],
)
@pytest.mark.usefixtures("offline")
def test_a_missing_file_is_refused(root: Path, file: str, reason: str) -> None:
    """PyG would go on without it."""
    (root / "tu" / "MUTAG" / "raw" / f"MUTAG_{file}.txt").unlink()
    with pytest.raises(DataError, match=rf"mutag: .*/tu/MUTAG is damaged .*\({reason}\)"):
        load_task("mutag", root=root)


@pytest.mark.parametrize("file", ["A", "graph_indicator", "graph_labels", "node_labels"])
@pytest.mark.parametrize("lines", [2, 20])
def test_a_file_cut_short_is_refused(root: Path, file: str, lines: int) -> None:
    path = root / "tu" / "MUTAG" / "raw" / f"MUTAG_{file}.txt"
    path.write_text("\n".join(path.read_text().split("\n")[: -1 - lines]) + "\n")
    with pytest.raises(DataError, match=r"mutag: .*/tu/MUTAG is damaged"):
        load_task("mutag", root=root)


@pytest.mark.parametrize(
    ("name", "sizes", "untested", "nodes"),
    [
        ("mutag", (170, 18), 8, 17.93),
        ("ptc", (310, 34), 4, 25.56),
        ("proteins", (1002, 111), 3, 39.06),
        ("nci1", (3699, 411), 0, 29.87),
        ("imdb-binary", (900, 100), 0, 19.77),
        ("imdb-multi", (1350, 150), 0, 13.00),
    ],
)
def test_the_real_folds(
    real: Path, name: str, sizes: tuple[int, int], untested: int, nodes: float
) -> None:
    task = load_task(name, root=real)
    check_folds(task)
    tested = sum(split.test.numel() for split in task.splits)
    assert task.num_units - tested == untested
    for split in task.splits:
        assert (split.train.numel() + split.val.numel(), split.test.numel()) == sizes
        assert split.val.numel() == pytest.approx(sizes[0] / 10, abs=0.5)
    average = sum(graph.num_nodes for graph in task.graphs) / task.num_units
    assert average == pytest.approx(nodes, abs=5e-3)


def test_the_real_ptc_mr_has_folds_of_our_own(real: Path) -> None:
    task = load_task("ptc-mr", root=real)
    check_folds(task)
    assert sum(split.test.numel() for split in task.splits) == 344
    average = sum(graph.num_nodes for graph in task.graphs) / 344
    assert average == pytest.approx(14.29, abs=5e-3)


@pytest.mark.parametrize(("name", "degrees"), [("imdb-binary", 65), ("imdb-multi", 59)])
def test_the_real_degrees_one_hot(real: Path, name: str, degrees: int) -> None:
    """As many columns as the GIN paper's code counts."""
    task = load_task(name, root=real, degree="onehot")
    assert task.num_features == degrees
    assert all(torch.equal(g.x.sum(1), torch.ones(g.num_nodes)) for g in task.graphs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_gin_folds(tmp_path / "MINE", num_graphs=23, tested=2)
    return tmp_path / "MINE"


def test_folds_as_written(folder: Path) -> None:
    folds = read_gin_folds(folder, 23)
    assert [test.tolist() for _, test in folds] == [[2 * i, 2 * i + 1] for i in range(10)]
    for train, test in folds:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(23))


def message_of(folder: Path, num_graphs: int = 23) -> str:
    with pytest.raises(DataError) as caught:
        read_gin_folds(folder, num_graphs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_fold_is_named(folder: Path) -> None:
    (folder / "train_idx-7.txt").unlink()
    message = message_of(folder)
    assert message.startswith(f"{folder}/train_idx-7.txt: cannot be read (no such file")
    assert f"remove {folder}" in message


def test_bytes_are_no_indices(folder: Path) -> None:
    (folder / "test_idx-2.txt").write_bytes(b"\xff\xfe3")
    assert message_of(folder).startswith(f"{folder}/test_idx-2.txt: cannot be read (not text)")


@pytest.mark.parametrize("word", ["x", "-1", "1.5", "3 4"])
def test_what_is_no_index_is_named_with_its_row(folder: Path, word: str) -> None:
    (folder / "test_idx-4.txt").write_text(f"6\n{word}\n")
    assert message_of(folder).startswith(
        f"{folder}/test_idx-4.txt, row 2: one index per line is expected (got {word!r})"
    )


def test_a_truncated_fold_is_refused(folder: Path) -> None:
    file = folder / "train_idx-3.txt"
    file.write_text(file.read_text()[:30])
    assert message_of(folder).startswith(
        f"{folder}/test_idx-3.txt: together with train_idx-3.txt it must hold each index"
    )


@pytest.mark.parametrize("num_graphs", [22, 24])
def test_folds_of_another_dataset_are_refused(folder: Path, num_graphs: int) -> None:
    assert f"each index from 0 to {num_graphs - 1} once (got 21 + 2 indices)" in message_of(
        folder, num_graphs
    )


def test_a_graph_tested_on_twice_is_refused(folder: Path) -> None:
    for part in ("train", "test"):
        text = (folder / f"{part}_idx-1.txt").read_text()
        (folder / f"{part}_idx-9.txt").write_text(text)
    assert "test_idx-9.txt: test folds must not overlap (graph 0 is also" in message_of(folder)
