"""Sparse adjacency matrices, against the edges and the dense matrix they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.errors import DataError

EDGES = torch.tensor([[0, 3, 1, 2, 0], [1, 1, 2, 0, 3]])  # directed; the last node has edges in
WEIGHT = torch.tensor([0.5, 2.0, 3.0, 1.0, 0.25])
LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


class TorchSparse:
    """What is read of a torch_sparse.SparseTensor."""

    def __init__(self, edge_index: Tensor, value: Tensor | None = None, size: int = 4) -> None:
        self.source, self.target = edge_index
        self.value, self.size = value, size

    def coo(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.target, self.source, self.value

    def sparse_sizes(self) -> tuple[int, int]:
        return self.size, self.size


def graph(**edges: Any) -> Data:
    return Data(x=torch.eye(4), y=torch.tensor([0, 1, 1, 0]), **edges)


def matrix(weight: Tensor, layout: torch.layout) -> Tensor:
    """Rows are targets, as in PyG."""
    coo = torch.sparse_coo_tensor(EDGES.flip(0), weight, (4, 4)).coalesce()
    return coo if layout is torch.sparse_coo else coo.to_sparse(layout=layout)


def dense(data: Data) -> Tensor:
    """Entry (i, j) is the weight of the edge from i to j."""
    weight = data.edge_weight
    weight = torch.ones(data.num_edges) if weight is None else weight
    return torch.zeros(4, 4).index_put_(tuple(data.edge_index), weight, accumulate=True)


def expected(weight: Tensor) -> Tensor:
    found = torch.zeros(4, 4)
    for source, target, value in zip(*EDGES.tolist(), weight.tolist(), strict=True):
        found[source, target] += value
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_and_weights_of_a_directed_graph(layout: torch.layout, tmp_path: Path) -> None:
    adj_t = matrix(WEIGHT, layout)
    data = graph(adj_t=adj_t)
    torch.save({"x": data.x, "y": data.y, "adj_t": adj_t}, tmp_path / "a.pt")
    for file in (from_pyg(data), from_pyg(data.to_dict()), read_graphs(tmp_path / "a.pt")):
        assert file.schema.weighted
        assert file.directed
        assert torch.equal(dense(file.graphs[0]), expected(WEIGHT))
    assert data.adj_t is adj_t, "the object is as before"
    assert torch.equal(adj_t.to_dense(), expected(WEIGHT).T)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_the_transform_of_pyg(layout: torch.layout) -> None:
    for given in ({}, {"edge_weight": WEIGHT}):
        data = graph(edge_index=EDGES, **given)
        file = from_pyg(ToSparseTensor(layout=layout)(data.clone()))
        own = from_pyg(data)
        assert file.schema == own.schema  # ones are no weights
        assert torch.equal(dense(file.graphs[0]), dense(own.graphs[0]))
        both = from_pyg(ToSparseTensor(layout=layout, remove_edge_index=False)(data.clone()))
        assert torch.equal(dense(both.graphs[0]), dense(own.graphs[0]))


def test_entries_that_were_not_summed_up() -> None:
    twice = torch.cat([EDGES, EDGES[:, :1]], dim=1)
    weight = torch.cat([WEIGHT, torch.ones(1)])
    adj_t = torch.sparse_coo_tensor(twice.flip(0), weight, (4, 4))
    wanted = expected(WEIGHT)
    wanted[0, 1] += 1
    assert torch.equal(dense(from_pyg(graph(adj_t=adj_t)).graphs[0]), wanted)
    assert not adj_t.is_coalesced(), "the matrix is as before"


def test_a_matrix_of_torch_sparse() -> None:
    for value in (None, WEIGHT):
        file = from_pyg(graph(adj_t=TorchSparse(EDGES, value)))
        assert file.schema.weighted == (value is not None)
        wanted = expected(torch.ones(5) if value is None else value)
        assert torch.equal(dense(file.graphs[0]), wanted)


def test_a_matrix_of_ones_for_a_model_with_weights_and_without() -> None:
    """As always has weights of 1 if the training had weights."""
    ones = graph(adj_t=matrix(torch.ones(5), torch.sparse_csr))
    weighted = from_pyg(graph(adj_t=matrix(WEIGHT, torch.sparse_csr))).schema
    file = from_pyg(ones, schema=weighted)
    assert file.graphs[0].edge_weight.tolist() == [1.0] * 5
    plain = from_pyg(ones).schema
    file = from_pyg(graph(adj_t=matrix(WEIGHT, torch.sparse_csr)), schema=plain)
    assert file.graphs[0].edge_weight is None
    several = [graph(adj_t=matrix(weight, torch.sparse_csr)) for weight in (WEIGHT, torch.ones(5))]
    found = from_pyg(several).graphs
    for data, weight in zip(found, (WEIGHT, torch.ones(5)), strict=True):
        assert torch.equal(dense(data), expected(weight))


def test_the_number_of_nodes_is_that_of_the_matrix() -> None:
    adj_t = matrix(WEIGHT, torch.sparse_csr)
    bare = Data(adj_t=adj_t, y=torch.tensor([0, 1, 1, 0]))
    assert from_pyg(bare).graphs[0].num_nodes == 4
    with pytest.raises(DataError, match=r"x must have one row per node, 4 \(got 3\)"):
        from_pyg(Data(x=torch.eye(3), adj_t=adj_t, y=torch.tensor([0, 1, 1])))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            {"adj_t": torch.eye(4)},
            r"adj_t must be a sparse matrix .*\(got torch.strided\); convert",
        ),
        ({"adj_t": "edges"}, r"adj_t must be a sparse matrix .*\(got str\); convert"),
        (
            {"adj_t": torch.ones(4, 3).to_sparse()},
            r"one row and one column per node \(got shape \(4, 3\)\); correct it",
        ),
        ({"adj_t": torch.ones(4).to_sparse()}, r"one row and one column per node \(got shape"),
        (
            {"adj_t": matrix(WEIGHT, torch.sparse_coo), "edge_weight": WEIGHT},
            r"must be the values of adj_t \(got edge_weight as well\); remove it",
        ),
        ({"adj_t": matrix(-WEIGHT, torch.sparse_coo)}, "must be finite and not negative"),
        (
            {"adj_t": torch.full((4, 4, 2), 2.0).to_sparse(2)},
            r"must hold one number per edge, 16 \(got 32",
        ),
    ],
)
def test_what_is_no_adjacency_is_refused(edges: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"^data.*{message}"):
        from_pyg(graph(**edges).to_dict())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_with_indices_out_of_range(layout: torch.layout, tmp_path: Path) -> None:
    if layout is torch.sparse_coo:
        adj_t = torch.sparse_coo_tensor(EDGES + 9, WEIGHT, (4, 4), check_invariants=False)
    else:
        starts, ends = torch.tensor([0, 1, 2, 5, 900]), torch.tensor([1, 2, 3, 0, 7])
        adj_t = torch.sparse_compressed_tensor(
            starts, ends, WEIGHT, (4, 4), layout=layout, check_invariants=False
        )
    torch.save(
        {"x": torch.eye(4), "y": torch.tensor([0, 1, 1, 0]), "adj_t": adj_t}, tmp_path / "a.pt"
    )
    with pytest.raises(DataError, match=r"a\.pt: must hold a PyG Data"):
        read_graphs(tmp_path / "a.pt")


def test_weights_that_are_missing() -> None:
    weighted, plain = graph(edge_index=EDGES, edge_weight=WEIGHT), graph(edge_index=EDGES)
    schema = from_pyg(weighted).schema
    message = (
        r"^data: there must be an edge_weight, one number per edge, as in training \(got .*add"
    )
    with pytest.raises(DataError, match=message):
        from_pyg(plain, schema=schema)
    with pytest.raises(DataError, match=r"^data, graph 1 .* as other graphs have \(got .*; add it"):
        from_pyg([weighted, plain])
    empty = graph(edge_index=torch.empty(2, 0, dtype=torch.long))
    assert from_pyg(empty, schema=schema).graphs[0].edge_weight.tolist() == []
