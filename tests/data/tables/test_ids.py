from __future__ import annotations

import pyarrow as pa
import pytest

from mgnni.data.tables.edges import IdIndex, restore_integers


@pytest.mark.parametrize(
    ("ids", "wanted", "positions"),
    [
        (["7", "007", "x"], ["007", "7", "07"], [1, 0, -1]),
        ([30, 10, 20], [10, 20, 40], [1, 2, -1]),
        (["3", "1"], [1, 3], [1, 0]),  # text in one table, integers in the other
        ([3, 1], ["1", "3", "03"], [1, 0, -1]),
        ([3, 1], [1.0, 3.0], [1, 0]),  # integers that met a missing one in a data frame
        (["é", "e\u0301"], ["e\u0301", "é"], [1, 0]),  # they look alike, but are written apart
        (["a", " a", "a "], ["a ", " a", "a"], [2, 1, 0]),
        (["a"], [None], [-1]),
    ],
)
def test_find(ids: list[object], wanted: list[object], positions: list[int]) -> None:
    index = IdIndex(pa.chunked_array([ids]))
    assert index.find(pa.chunked_array([wanted])).tolist() == positions


def test_unsigned_ids_beyond_64_bits_signed() -> None:
    large = [2**64 - 1, 2**63]
    index = IdIndex(pa.chunked_array([pa.array(large, pa.uint64())]))
    assert index.find(pa.chunked_array([pa.array(large[::-1], pa.uint64())])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (["1", "-2", "30"], [1, -2, 30]),
        (["1", "02"], ["1", "02"]),
        (["1", "+2"], ["1", "+2"]),
        (["1", "2.0"], ["1", "2.0"]),
        (["1", str(2**63)], ["1", str(2**63)]),
        (["1", " 2"], ["1", " 2"]),
    ],
)
def test_restored(text: list[str], values: list[object]) -> None:
    assert restore_integers(pa.chunked_array([text])).to_pylist() == values
