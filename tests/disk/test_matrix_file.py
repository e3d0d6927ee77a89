"""Rows of matrices in files."""

import numpy as np
import pytest

from mgnni.disk.matrix_file import gather_rows

ROWS = np.arange(100_000)


@pytest.mark.parametrize(
    "index",
    [
        ROWS,
        ROWS[ROWS % 5 < 3][:5000],  # with small gaps
        np.concatenate([ROWS[100:300], ROWS[50_000:50_400], ROWS[-7:]]),  # a few long runs
        np.concatenate([ROWS[900:1200], ROWS[100:500]]),  # not sorted
        ROWS[::999],  # far from each other
        np.array([3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7]),  # repeated
        np.array([7]),
        np.array([], dtype=np.int64),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_of_a_file_are_those_of_the_matrix(index, dtype, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(len(ROWS), 3)).astype(dtype)
    np.save(tmp_path / "matrix.npy", matrix)
    found = gather_rows(tmp_path / "matrix.npy", index)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, matrix[index])
