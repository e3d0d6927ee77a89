"""Whether a graph has the direction of the training, and what is said if not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import Schema, TableOptions

Write = Callable[..., Path]
ONE_WAY = [(0, 1), (1, 2), (2, 2)]
BOTH_WAYS = [*ONE_WAY, (1, 0), (2, 1)]


def graph(edges: list[tuple[int, int]], weight: list[float] | None = None) -> Data:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    data = Data(x=torch.eye(3), edge_index=index, y=torch.tensor([0, 1, 1]))
    if weight is not None:
        data.edge_weight = torch.tensor(weight)
    return data


def table(edges: list[tuple[int, int]]) -> str:
    return "source,target\n" + "".join(f"{'abc'[u]},{'abc'[v]}\n" for u, v in edges)


@pytest.mark.parametrize(
    ("training", "new", "directed", "warned"),
    [
        (BOTH_WAYS, ONE_WAY, None, True),
        (BOTH_WAYS, BOTH_WAYS, None, False),
        (BOTH_WAYS, [], None, False),
        (ONE_WAY, BOTH_WAYS, None, False),
        (ONE_WAY, ONE_WAY, None, False),
        ([], ONE_WAY, None, False),
        (BOTH_WAYS, ONE_WAY, False, False),  # reverse edges are added to both
        (ONE_WAY, ONE_WAY, False, False),
        (BOTH_WAYS, ONE_WAY, True, False),  # used as listed, as asked
        (BOTH_WAYS, [*BOTH_WAYS, (0, 2)], None, True),
    ],
)
def test_edges_that_lack_their_reverse_after_an_undirected_training(
    write: Write,
    training: list[tuple[int, int]],
    new: list[tuple[int, int]],
    directed: bool | None,
    warned: bool,
) -> None:
    nodes, options = "id,f,label\na,1,x\nb,2,y\nc,3,y\n", TableOptions(directed=directed)
    file = read_graphs(write(nodes, table(training), name="old"), options)
    objects = from_pyg(graph(training), options)
    again = read_graphs(write(nodes, table(new), name="new"), schema=file.schema)
    for one in (file, objects):
        assert one.warnings == ()
        assert one.schema.undirected == (
            directed is not True and training != [] and (training is BOTH_WAYS or directed is False)
        )
    for found in (again, from_pyg(graph(new), schema=objects.schema)):
        assert len(found.warnings) == warned
        for text in found.warnings:
            assert text.startswith(
                "the training graph was undirected, but not every edge of this one has its reverse;"
            )
            assert "train with --directed false" in text


def test_weights_belong_to_an_edge_and_its_reverse() -> None:
    schema = from_pyg(graph([(0, 1), (1, 0)], [2, 2])).schema
    assert schema.undirected
    assert from_pyg(graph([(0, 1), (1, 0)], [3, 3]), schema=schema).warnings == ()
    (text,) = from_pyg(graph([(0, 1), (1, 0)], [3, 1]), schema=schema).warnings
    assert "has its reverse with the same weight;" in text
    assert not from_pyg(graph([(0, 1), (1, 0)], [2, 1])).schema.undirected


def test_a_schema_of_an_earlier_state_warns_of_nothing() -> None:
    plain = from_pyg(graph(BOTH_WAYS)).schema.to_dict()
    assert plain["undirected"] is True
    assert Schema.from_dict(plain).undirected
    del plain["undirected"]
    schema = Schema.from_dict(plain)
    assert not schema.undirected
    assert from_pyg(graph(ONE_WAY), schema=schema).warnings == ()
