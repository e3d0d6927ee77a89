"""Directions, against PyG's own functions and a dense adjacency."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import coalesce, is_undirected, to_undirected

from mgnni.data.tables.edges import IdIndex, restore_integers
from mgnni.data.tables.graph_file import directed_edges
from mgnni.errors import DataError

NODES = 5
EDGES = st.lists(st.tuples(*[st.integers(0, NODES - 1)] * 2), max_size=15)


def read(edges: object, weight: object = None, directed: bool | None = None) -> tuple:
    index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    weights = None if weight is None else np.array(weight, dtype=np.float32)
    return directed_edges(index, weights, NODES, directed, "edges.csv", str)


def dense(edges: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    matrix = np.zeros((NODES, NODES))
    np.add.at(matrix, tuple(edges), 1 if weight is None else weight)
    return matrix


@settings(max_examples=100)
@given(edges=EDGES)
def test_found_to_be_undirected_as_the_dense_matrix_is_symmetric(
    edges: list[tuple[int, int]],
) -> None:
    got, _, directed, _ = read(edges)
    matrix = dense(got, None)
    assert got.T.tolist() == [list(edge) for edge in edges]
    assert directed == (not np.array_equal(matrix, matrix.T))


@settings(max_examples=100)
@given(edges=EDGES.map(lambda edges: sorted(set(edges))))
def test_made_undirected_as_pyg_does(edges: list[tuple[int, int]]) -> None:
    got, _, directed, _ = read(edges, directed=False)
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    expected = to_undirected(index, num_nodes=NODES)
    assert not directed
    assert torch.equal(coalesce(torch.from_numpy(got), num_nodes=NODES), expected)
    assert got.shape[1] == expected.size(1)  # nothing twice
    assert is_undirected(torch.from_numpy(got), num_nodes=NODES)


def test_weights_are_mirrored_with_their_edges() -> None:
    got, weight, directed, notes = read(
        [[0, 1], [0, 1], [2, 2], [3, 4], [4, 3]], [1, 2, 3, 4, 4], False
    )
    expected = np.zeros((NODES, NODES))
    expected[0, 1] = expected[1, 0] = expected[2, 2] = 3
    expected[3, 4] = expected[4, 3] = 4
    np.testing.assert_array_equal(dense(got, weight), expected)
    assert not directed
    assert "1 edge listed more than once: kept, weights add up" in notes
    assert "1 self-loop kept" in notes
    assert "2 edges listed one way: reverse added" in notes


def test_weights_decide_with_the_edges() -> None:
    both = [[0, 1], [1, 0]]
    assert read(both, [1, 1])[2] is False
    assert read(both, [1, 2])[2] is True
    assert read([*both, [1, 0]])[2] is True  # two edges one way, one the other
    assert read([*both, [1, 0]], [3, 1, 2])[2] is False  # but as heavy
    assert read(both, [1, 1], directed=True)[2] is True


@pytest.mark.parametrize(
    ("edges", "weight"),
    [([[0, 1], [1, 0]], [1, 2]), ([[0, 1], [0, 1], [1, 0]], None)],
)
def test_an_undirected_edge_has_one_weight(edges: object, weight: object) -> None:
    with pytest.raises(DataError, match=r"^edges.csv: .*from '0' to '1' than back"):
        read(edges, weight, directed=False)


def test_one_way_edges_come_with_advice() -> None:
    assert "directed=False" in read([[0, 1]])[3][-1]
    assert "directed=False" not in read([[0, 1], [1, 0], [1, 0]])[3][-1]


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


def test_weights_of_zero_are_noted() -> None:
    *_, notes = read([(0, 1), (1, 2), (2, 3)], [0, 1, 1e-60])
    assert "2 edges with weight 0: without effect" in notes
