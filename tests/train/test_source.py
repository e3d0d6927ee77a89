from pathlib import Path

import numpy
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub

from mgnni import fit
from mgnni.data.split import PARTS
from mgnni.data.tables.schema import TableOptions
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError
from mgnni.train.source import FEW, find_source
from train.cases import graph_task, inductive_task, node_data, node_task

SMALL = {"num_chains_per_class": 2, "length": 12}


def labelled() -> Data:
    data, data.y = node_data()
    return data


def test_a_benchmark():
    for name in ("colors", "Colors"):
        source = find_source(name, options=SMALL)
        assert source.task.name == "colors"
        assert source.task.num_rows == 48
        assert source.schema is None
        assert source.origin == name


def test_another_metric_of_a_benchmark():
    assert find_source("colors", options=SMALL, metric="macro_f1").task.metric == "macro_f1"
    assert find_source("colors", options=SMALL).task.metric == "accuracy"
    with pytest.raises(ArgumentError, match="'metric' must be one of"):
        find_source("colors", options=SMALL, metric="f1")


def test_a_task_is_taken_as_it_is():
    task = node_task(2)
    source = find_source(task)
    assert source.task is task
    assert (source.schema, source.origin) == (None, "nodes")
    other = find_source(task, metric="macro_f1").task
    assert (other.metric, task.metric) == ("macro_f1", "accuracy")
    assert other.splits == task.splits


def test_a_task_without_splits_is_given_some():
    bare = node_task(2).with_splits([])
    assert len(find_source(bare, num_splits=3).task.splits) == 3
    assert bare.splits == ()


def test_splits_of_several_labels_per_row_are_not_called_stratified():
    graph = labelled()
    graph.y = torch.nn.functional.one_hot(graph.y, 3).float()
    task = find_source(graph, num_splits=2).task
    assert task.multilabel
    assert task.notes[-1] == "no splits in the data: 2 drawn at random, 60/20/20, seed 0"


def several_labels(known: int) -> Data:
    """Three labels per node; only the nodes at every other place have them."""
    graph = labelled()
    graph.y = torch.nn.functional.one_hot(graph.y, 3).float()
    graph.y[torch.arange(40) % 2 == 0] = float("nan")
    graph.y[2 * known :] = float("nan")
    return graph


def test_rows_without_their_several_labels_are_in_no_set():
    task = find_source(several_labels(20), num_splits=4).task
    labeled = set(range(1, 40, 2))
    for place, split in enumerate(task.splits):
        assert [split.part(part).numel() for part in PARTS] == [12, 4, 4]
        assert {*torch.cat([split.part(part) for part in PARTS]).tolist()} == labeled
        assert [task.rows(place, part).numel() for part in PARTS] == [12, 4, 4]
    folds = find_source(several_labels(20), folds=5).task.splits
    for split in folds:
        assert [split.part(part).numel() for part in PARTS] == [13, 3, 4]  # a fifth of 16
        assert {*torch.cat([split.part(part) for part in PARTS]).tolist()} == labeled
    assert sorted(torch.cat([split.test for split in folds]).tolist()) == sorted(labeled)


def test_too_few_rows_with_several_labels_are_refused():
    message = "'folds' must be from 2 to the number of labelled units, 4 .got 5"
    with pytest.raises(ArgumentError, match=message):
        find_source(several_labels(4), folds=5)
    message = "too few labels to draw a split: .* % of 2 units with labels.; label more units"
    with pytest.raises(ArgumentError, match=message):
        find_source(several_labels(2))


def test_a_graph_without_splits_is_given_some():
    source = find_source(labelled(), num_splits=3)
    task = source.task
    assert len(task.splits) == 3
    assert task.notes[-1] == (
        "no splits in the data: 3 drawn at random, stratified, 60/20/20, seed 0"
    )
    labels = all_labels(task)
    for split in task.splits:
        assert [part.numel() for part in (split.train, split.val, split.test)] == [24, 8, 8]
        for part in (split.train, split.val, split.test):
            share = torch.bincount(labels[part], minlength=3) / part.numel()
            every = torch.bincount(labels, minlength=3) / 40
            assert bool(((share - every).abs() <= 1 / part.numel()).all())
    assert source.schema is not None
    again = find_source(labelled(), num_splits=3).task
    for one, other in zip(task.splits, again.splits, strict=True):
        assert torch.equal(one.train, other.train)


@pytest.mark.parametrize("make", [node_task, graph_task, inductive_task])
def test_folds_test_every_unit_once(make):
    source = find_source(make().with_splits([]), folds=4)
    task = source.task
    tested = torch.cat([split.test for split in task.splits])
    assert len(task.splits) == 4
    assert tested.unique().numel() == tested.numel() >= task.num_units - 2  # two have no label
    assert all(split.val.numel() for split in task.splits)
    assert source.given == {"folds": 4}
    # Graphs whose nodes have labels have no class by which they could be stratified.
    stratified = "" if make is inductive_task else "stratified, "
    note = f"no splits in the data: 4 folds, {stratified}a fifth of the rest for validation, seed 0"
    assert task.notes[-1] == note


def test_folds_that_cannot_be_are_refused():
    bare = node_task(1).with_splits([])
    for task, options, message in (
        (node_task(2), {"folds": 5}, "'folds' are for data without splits .got 5 for nodes, which"),
        (bare, {"folds": 5, "num_splits": 3}, "'folds' are the splits .got 5, and also num_splits"),
        (bare, {"folds": 1}, "'folds' must be from 2 to the number of labelled units, 38 .got 1."),
        (bare, {"folds": 39}, "'folds' must be from 2 to"),
    ):
        with pytest.raises(ArgumentError, match=message):
            find_source(task, **options)


def test_splits_of_the_data_are_kept():
    data = labelled()
    data.train_mask = torch.arange(40) < 20
    data.val_mask = (torch.arange(40) >= 20) & (torch.arange(40) < 30)
    data.test_mask = torch.arange(40) >= 30
    for given in ({}, {"num_splits": 1}):  # the default
        (split,) = find_source(data, **given).task.splits
        assert split.train.tolist() == list(range(20))
    message = "'num_splits' is for data without splits .got 7 for data, which has 1.; leave it out"
    with pytest.raises(ArgumentError, match=message):
        find_source(data, num_splits=7)
    with pytest.raises(ArgumentError, match=message):
        fit(data, num_splits=7)


def test_many_graphs_are_dealt_out_whole():
    for task in (graph_task(), inductive_task(), inductive_task(multilabel=False)):
        found = find_source(task.with_splits([])).task
        (split,) = found.splits
        units = torch.cat([split.train, split.val, split.test])
        assert units.unique().numel() == units.numel()
        assert int(units.max()) < len(task.graphs)


def test_a_dataset_of_one_graph_is_a_graph():
    task = find_source(KarateClub()).task
    assert (task.unit, task.num_rows, len(task.classes)) == ("node", 34, 4)


def test_a_file(tmp_path, monkeypatch):
    torch.save(labelled().to_dict(), tmp_path / "graph.pt")
    monkeypatch.chdir(tmp_path)
    for path in ("graph.pt", "./graph.pt", Path("graph.pt")):
        source = find_source(path)
        assert source.task.num_rows == 40
        assert source.origin == str(tmp_path.resolve() / "graph.pt")


def test_a_path_is_no_benchmark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (Path("colors"), Path("./colors"), "./colors"):
        with pytest.raises(DataError, match="is neither a benchmark nor a path"):
            find_source(path)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("cornel", {}, "'cornel' is neither a benchmark nor a path; benchmarks: cornell"),
        ("colors", {"options": {"lenght": 3}}, "did you mean 'length'"),
        (
            "colors",
            {"tables": TableOptions(label="y")},
            r"columns are for data in files \(got label",
        ),
        (
            "./x",
            {"options": {"length": 3}},
            r"'options' are for benchmarks only \(got \['length'\]",
        ),
        (None, {}, r"'data' must be a benchmark's name.*got NoneType"),
        (3, {}, "got int"),
        ([], {}, "."),
    ],
)
def test_what_is_no_data_is_refused(data, options, message):
    with pytest.raises((ArgumentError, DataError), match=message):
        find_source(data, **options)


def test_options_that_would_have_no_effect_are_refused():
    for data in (node_task(), labelled(), [labelled()]):
        with pytest.raises(ArgumentError, match="'options' are for benchmarks only"):
            find_source(data, options={"length": 3})
    with pytest.raises(ArgumentError, match="columns are for data in files"):
        find_source(node_task(), tables=TableOptions(label="y"))
    assert isinstance(find_source(node_task(), tables=TableOptions()).task, Task)


def test_data_without_labels_cannot_be_learnt():
    data, _ = node_data()
    with pytest.raises(DataError, match="labels"):
        find_source(data)


def test_files_are_read_with_features_of_one_scale_and_the_degree(tmp_path):
    rows = [f"{i},{10 * i},{i % 2},{'ab'[i % 2]}" for i in range(10)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,size,flag,label", *rows]) + "\n")
    edges = [f"{i},0" for i in range(1, 10)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    source = find_source(tmp_path)
    (graph,) = source.task.graphs
    assert source.schema is not None
    assert source.schema.feature_names == ("size", "flag", "degree")
    size = torch.arange(10.0) * 10
    torch.testing.assert_close(graph.x[:, 0], (size - size.mean()) / size.std(correction=0))
    assert graph.x[:, 1].tolist() == [i % 2 for i in range(10)], "zeros and ones are left alone"
    assert graph.x[0, 2] == 3, "one degree of 9 among zeros: mean 0.9, deviation 2.7"
    assert any("--no-standardize" in note for note in source.task.notes)
    assert "columns" not in source.given, "these are defaults"
    plain = find_source(tmp_path, tables=TableOptions(standardize=False, degree=False))
    assert plain.task.graphs[0].x.tolist() == [[10 * i, i % 2] for i in range(10)]
    data = Data(x=size[:, None], edge_index=graph.edge_index, y=torch.arange(10) % 2)
    assert torch.equal(find_source(data).task.graphs[0].x, data.x), "objects are taken as they are"


def test_the_degree_is_added_to_few_features_only(tmp_path):
    for count, more in ((FEW, 1), (FEW + 1, 0)):
        x = torch.rand(6, count).numpy()
        edges = torch.tensor([[0, 1], [1, 2]]).numpy()
        numpy.savez(tmp_path / "a.npz", x=x, y=[0, 1, 0, 1, 0, 1], edges=edges)
        assert find_source(tmp_path / "a.npz").task.num_features == count + more
