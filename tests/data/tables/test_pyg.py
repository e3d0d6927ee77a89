from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, KarateClub

from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import DataError


def graph(label: int, nodes: int = 3, **more: Any) -> Data:
    index = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return Data(
        x=torch.arange(nodes * 2.0).view(nodes, 2),
        edge_index=index,
        y=torch.tensor([label]),
        **more,
    )


def test_the_karate_club() -> None:
    data = KarateClub()[0]
    file = from_pyg(data, name="karate")
    assert file.name == "karate"
    assert torch.equal(file.graphs[0].x, data.x)
    assert torch.equal(file.graphs[0].edge_index, data.edge_index)
    assert file.labels is not None
    assert torch.equal(file.labels, data.y)
    assert not file.directed
    assert file.splits[0].train.tolist() == data.train_mask.nonzero().squeeze(1).tolist()
    assert file.graphs[0].x.data_ptr() != data.x.data_ptr()


def test_a_dataset_of_one_graph_is_that_graph() -> None:
    assert from_pyg(KarateClub()).level == "node"


def test_a_dataset_of_graphs() -> None:
    dataset = FakeDataset(num_graphs=12, avg_num_nodes=6, num_classes=2)
    file = from_pyg(dataset)
    assert file.level == "graph"
    assert file.labels is not None
    assert file.labels.tolist() == [int(data.y) for data in dataset]
    for own, data in zip(file.graphs, dataset, strict=True):
        assert torch.equal(own.x, data.x)
        assert torch.equal(own.edge_index, data.edge_index)


@pytest.mark.parametrize("form", ["data", "dict", "list", "list of dicts"])
def test_files(form: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    one = KarateClub()[0]
    several = [graph(0), graph(1, nodes=1, edge_attr=torch.ones(0, 2)), graph(0, nodes=4)]
    value = {
        "data": one,
        "dict": one.to_dict(),
        "list": several,
        "list of dicts": [data.to_dict() for data in several],
    }[form]
    torch.save(value, path)
    file = read_graphs(path)
    expected = from_pyg(several if "list" in form else one)
    assert file.name == "mine"
    assert file.level == expected.level
    assert file.labels is not None
    assert expected.labels is not None
    assert torch.equal(file.labels, expected.labels)
    for own, other in zip(file.graphs, expected.graphs, strict=True):
        assert torch.equal(own.x, other.x)
        assert torch.equal(own.edge_index, other.edge_index)


def test_several_graphs_whose_nodes_are_classified() -> None:
    several = [graph(0, nodes) for nodes in (3, 1, 2)]
    for data in several:
        data.y = torch.eye(2)[torch.arange(data.num_nodes) % 2]
    file = from_pyg(several)
    assert file.level == "node"
    assert file.schema.multilabel
    assert file.labels is not None
    assert file.labels[:, 1].tolist() == [0, 1, 0, 0, 0, 1]
    assert file.task().unit == "graph"
    assert len(file.ids) == 6


def test_graphs_without_features() -> None:
    several = [Data(edge_index=g.edge_index, y=g.y, num_nodes=3) for g in (graph(0), graph(1))]
    assert from_pyg(several).graphs[1].x.tolist() == [[1], [1], [1]]
    file = from_pyg(several, TableOptions(degree=True))
    assert file.graphs[1].x.tolist() == [[0], [1], [1]]


def test_a_schema_of_graphs() -> None:
    schema = from_pyg([graph(0), graph(1)], TableOptions(directed=False)).schema
    new = Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0], [1]]))
    file = from_pyg([new], schema=schema)
    assert file.level == "graph"
    assert file.labels is None
    assert file.graphs[0].edge_index.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(DataError, match="give a list of graphs"):
        from_pyg(new, schema=schema)


def test_a_class_of_ones_own_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(Foreign(x=torch.ones(1, 1)), path)
    with pytest.raises(DataError, match=r"a reference to \S*Foreign.*data.to_dict\(\)"):
        read_graphs(path)


class Foreign(Data):
    """Not a class of PyG."""
