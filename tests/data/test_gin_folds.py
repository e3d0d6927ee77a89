from __future__ import annotations

from pathlib import Path

import pytest

from data.raw import write_gin_folds
from mgnni.data.graph_datasets import read_gin_folds
from mgnni.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_gin_folds(tmp_path / "MINE", num_graphs=23, tested=2)
    return tmp_path / "MINE"


def test_folds_as_written(folder: Path) -> None:
    folds = read_gin_folds(folder, 23)
    assert [test.tolist() for _, test in folds] == [[2 * i, 2 * i + 1] for i in range(10)]
    for train, test in folds:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(23))


def said(folder: Path, num_graphs: int = 23) -> str:
    with pytest.raises(DataError) as caught:
        read_gin_folds(folder, num_graphs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "train_idx-7.txt").unlink()
    message = said(folder)
    assert message.startswith(f"{folder}/train_idx-7.txt: cannot be read (no such file")
    assert f"remove {folder}" in message


def test_bytes_are_no_indices(folder: Path) -> None:
    (folder / "test_idx-2.txt").write_bytes(b"\xff\xfe3")
    assert said(folder).startswith(f"{folder}/test_idx-2.txt: cannot be read (not text)")


@pytest.mark.parametrize("word", ["x", "-1", "1.5", "3 4"])
def test_what_is_no_index_is_named_with_its_row(folder: Path, word: str) -> None:
    (folder / "test_idx-4.txt").write_text(f"6\n{word}\n")
    assert said(folder).startswith(
        f"{folder}/test_idx-4.txt, row 2: one index a line is expected (got {word!r})"
    )


def test_a_file_cut_short_is_refused(folder: Path) -> None:
    file = folder / "train_idx-3.txt"
    file.write_text(file.read_text()[:30])
    assert said(folder).startswith(
        f"{folder}/test_idx-3.txt: with train_idx-3.txt it must hold each index from 0 to 22 once"
    )


@pytest.mark.parametrize("num_graphs", [22, 24])
def test_folds_of_another_dataset_are_refused(folder: Path, num_graphs: int) -> None:
    assert f"each index from 0 to {num_graphs - 1} once (got 21 + 2 indices)" in said(
        folder, num_graphs
    )


def test_a_graph_tested_on_twice_is_refused(folder: Path) -> None:
    for part in ("train", "test"):
        text = (folder / f"{part}_idx-1.txt").read_text()
        (folder / f"{part}_idx-9.txt").write_text(text)
    assert "test_idx-9.txt: folds must not overlap (graph 0 is also" in said(folder)
