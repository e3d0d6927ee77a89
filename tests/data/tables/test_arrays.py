"""What works without pyarrow, and what is said where it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, KarateClub

from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError, DataError

X = np.array([[1.0, 2], [3, 4], [5, 6]])
TRAIN = np.array([[True, True, False], [False, True, True]])


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_the_names_of_published_benchmarks(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz",
        node_features=X,
        node_labels=np.array([5, 3, 5]),
        edges=np.array([[0, 1], [2, 1]]),
        train_masks=TRAIN,
        val_masks=np.zeros_like(TRAIN),
        test_masks=~TRAIN,
    )
    file = read_graphs(path)
    assert file.graphs[0].edge_index.tolist() == [[0, 2], [1, 1]]
    assert file.graphs[0].x.tolist() == X.tolist()
    assert file.labels is not None
    assert file.labels.tolist() == [1, 0, 1]
    assert file.classes == ("3", "5")
    assert [split.train.tolist() for split in file.splits] == [[0, 1], [1, 2]]
    assert [split.test.tolist() for split in file.splits] == [[2], [0]]
    assert list(file.ids) == [0, 1, 2]
    assert file.task().num_features == 2


def test_the_names_of_pyg(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz",
        x=X[:, :1],
        y=np.array([0.0, np.nan, 1.0]),
        edge_index=np.array([[0, 2], [1, 1]], dtype=np.int32),
        edge_weight=np.array([1, 2]),
        train_mask=TRAIN.T,
    )
    file = read_graphs(path, TableOptions(allow_unseen=True))
    assert file.graphs[0].edge_index.tolist() == [[0, 2], [1, 1]]
    assert file.graphs[0].edge_weight.tolist() == [1, 2]
    assert file.labels is not None
    assert file.labels.tolist() == [0, -1, 1]
    assert [split.train.tolist() for split in file.splits] == [[0, 1], [1, 2]]


def test_labels_that_are_text(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz", x=X, y=np.array(["b", "a", ""]), edges=np.zeros((0, 2), dtype=int)
    )
    file = read_graphs(path)
    assert file.classes == ("a", "b")
    assert file.labels is not None
    assert file.labels.tolist() == [1, 0, -1]


def test_a_schema_of_arrays(tmp_path: Path) -> None:
    edges = np.array([[0, 1]])
    train = saved(tmp_path / "a.npz", x=X, y=np.array([0, 1, 1]), edges=edges)
    options = TableOptions(standardize=True, degree=True, directed=False)
    schema = read_graphs(train, options).schema
    new = saved(tmp_path / "b.npz", x=X + 2, edges=edges)
    file = read_graphs(new, schema=schema)
    assert file.labels is None
    assert file.graphs[0].edge_index.tolist() == [[0, 1], [1, 0]]
    # Means 3 and 4, deviations sqrt(8/3); of the degrees 1, 1, 0: mean 2/3, deviation sqrt(2)/3.
    expected = torch.tensor((X + 2 - [3, 4]) / (8 / 3) ** 0.5).float()
    torch.testing.assert_close(file.graphs[0].x[:, :2], expected)
    degrees = torch.tensor([1 / 2**0.5, 1 / 2**0.5, -(2**0.5)])
    torch.testing.assert_close(file.graphs[0].x[:, 2], degrees)
    with pytest.raises(DataError, match=r"those of training, 2 columns \(got 1"):
        read_graphs(saved(tmp_path / "c.npz", x=X[:, :1], edges=edges), schema=schema)
    with pytest.raises(DataError, match=r"training file \(got '7'\)"):
        read_graphs(saved(tmp_path / "d.npz", x=X, y=[0, 1, 7], edges=edges), schema=schema)


def test_options_that_name_columns_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=X, y=[0, 1, 1], edges=np.array([[0, 1]]))
    message = (
        r"^of the options for tables, only --task, .*--allow-unseen apply to .npz .*got --label, "
    )
    with pytest.raises(ArgumentError, match=message + r"--split-column\)"):
        read_graphs(path, TableOptions(label="y", split_column="fold"))


def test_another_unit_than_in_training_is_noted(tmp_path: Path) -> None:
    edges = np.array([[0, 1]])
    numbers = np.stack([np.arange(6.0) + 170, [0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]], axis=1)
    train = saved(tmp_path / "a.npz", x=numbers, y=[0, 1] * 3, edges=edges)
    scaled = read_graphs(train, TableOptions(standardize=True))
    plain = read_graphs(train)
    assert not any("same?" in note for note in scaled.notes)
    other = saved(tmp_path / "b.npz", x=numbers * [1000, 5000, 1], edges=edges)
    notes = read_graphs(other, schema=scaled.schema).notes
    assert (
        "column 'x_0': most values are more than 10 standard deviations from the mean of the "
        "training, 172.5; is the unit the same?"
    ) in notes
    assert (
        "column 'x_1': most values other than 0 are more than 10 times as large as in training; "
        "is the unit the same?"
    ) in notes
    assert not any("same?" in note for note in read_graphs(other, schema=plain.schema).notes)


def test_a_column_that_is_constant_in_training_is_zero(tmp_path: Path) -> None:
    x = np.array([[7.0, 0], [7, 0], [9, 1]])  # the second one is a flag, as in one-hot features
    mask = np.array([True, True, False])
    path = saved(
        tmp_path / "a.npz",
        x=x,
        y=[0, 1, 1],
        edges=np.array([[0, 1]]),
        train_mask=mask,
        test_mask=~mask,
    )
    file = read_graphs(path, TableOptions(standardize=True))
    assert file.graphs[0].x.tolist() == [[0, 0], [0, 0], [0, 1]]
    note = "column 'x_0': no two different values in the training rows: encoded as 0 everywhere"
    assert note in file.notes


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
    with pytest.raises(DataError, match="list of graphs"):
        from_pyg(new, schema=schema)


def test_a_class_of_ones_own_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(Foreign(x=torch.ones(1, 1)), path)
    with pytest.raises(DataError, match=r"a reference to \S*Foreign.*data.to_dict\(\)"):
        read_graphs(path)


class Foreign(Data):
    """Not a class of PyG."""


CODE = """
import sys
sys.modules["pyarrow"] = None
import torch
from pathlib import Path
from torch_geometric.datasets import KarateClub
from mgnni.data.tables.read import from_pyg
from mgnni.data.tables.read import read_graphs
from mgnni.errors import DataError
assert from_pyg(KarateClub()[0]).graphs[0].num_nodes == 34
try:
    read_graphs(Path("."))
except DataError as error:
    assert "pip install 'mgnni[files]'" in str(error), error
else:
    sys.exit("a folder of tables was read without pyarrow")
"""


def test_only_tables_need_pyarrow() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
