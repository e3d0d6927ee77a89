"""Distances against scipy's shortest paths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.range import hops
from mgnni.range.hops import hops_from, hops_to
from range.graphs import chain, random_graph


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_distances_are_shortest_paths(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "AT_ONCE", at_once)
    for seed in range(60):
        propagation = random_graph(seed)
        rows = csr_matrix(propagation.to_dense().numpy() != 0)
        expected = shortest_path(rows, unweighted=True)  # [q, p], along entries P[q, p]
        expected = np.where(np.isinf(expected), -1, expected).astype(np.int32)
        nodes = torch.arange(propagation.num_nodes)
        assert np.array_equal(hops_to(propagation, nodes).numpy(), expected)
        assert np.array_equal(hops_from(propagation, nodes).numpy(), expected.T)


def test_distances_follow_the_direction_of_edges() -> None:
    propagation = chain(4, directed=True)
    assert hops_from(propagation, torch.tensor([1])).tolist() == [[-1, 0, 1, 2]]
    assert hops_to(propagation, torch.tensor([1])).tolist() == [[1, 0, -1, -1]]
    assert hops_to(propagation, torch.tensor([], dtype=torch.long)).shape == (0, 4)


@pytest.mark.parametrize("nodes", [torch.tensor([4]), torch.tensor([-1]), torch.tensor([0.5])])
def test_wrong_nodes_are_refused(nodes: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match="nodes must be int64 indices from 0 to 3"):
        hops_to(chain(4, directed=True), nodes)


def test_nodes_are_indices_or_a_mask() -> None:
    propagation = chain(4, directed=True)
    mask = torch.tensor([False, True, False, True])
    assert torch.equal(hops_to(propagation, mask), hops_to(propagation, torch.tensor([1, 3])))
    with pytest.raises(ArgumentError, match=r"nodes must be a tensor of indices \(got list\)"):
        hops_to(propagation, [0])  # type: ignore[arg-type]


def test_zero_entries_are_no_edges_and_the_operator_stays_as_it_is() -> None:
    edges, weight = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([1.0, 0.0, 1.0])
    propagation = Propagation.from_edge_index(edges, 4, weight, normalization="none")
    before = propagation.pattern.col.clone(), propagation.values.clone()
    expected = [[0, -1, -1, -1], [1, 0, -1, -1], [-1, -1, 0, -1], [-1, -1, 1, 0]]
    assert hops_to(propagation, torch.arange(4)).tolist() == expected
    assert torch.equal(propagation.pattern.col, before[0])
    assert torch.equal(propagation.values, before[1])
