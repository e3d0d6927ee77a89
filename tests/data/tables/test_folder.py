"""Whole folders, against a plain reading with the csv module and dictionaries."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError, DataError

Write = Callable[..., Path]


def edges_by_id(file: GraphFile) -> list[tuple[Any, Any]]:
    ids = file.ids.to_pylist()
    return [(ids[a], ids[b]) for a, b in file.graphs[0].edge_index.T.tolist()]


def test_a_small_graph_is_read_as_it_stands(write: Write) -> None:
    file = read_graphs(write())
    (graph,) = file.graphs
    # size as it is, then colour=blue, colour=red
    assert graph.x.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1], [4, 1, 0]]
    assert graph.x.dtype == torch.float32
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert graph.edge_index.dtype == torch.int64
    assert "edge_weight" not in graph
    assert file.labels is not None
    assert file.labels.tolist() == [0, 1, 0, 1]
    assert file.classes == ("x", "y")
    assert file.ids.to_pylist() == ["a", "b", "c", "d"]
    (split,) = file.splits
    assert [split.part(name).tolist() for name in ("train", "val", "test")] == [[0, 1], [2], [3]]
    assert file.level == "node"
    assert file.directed
    assert file.schema.feature_names == ("size", "colour=blue", "colour=red")
    task = file.task("mine")
    assert (task.name, task.num_rows, task.num_features) == ("mine", 4, 3)
    assert task.targets(0, "train").tolist() == [0, 1]


ROWS = [
    ["7", "1.5", "red", "x", "train"],
    ["8", "", "", "y", "train"],
    ["9", "3", "red", "x", "val"],
]
NAMES = ["id", "size", "colour", "label", "split"]
ENDS = [["7", "8"], ["9", "7"], ["9", "9"]]


def delimited(rows: list[list[str]], delimiter: str = ",", end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in rows)


def columnar(rows: list[list[str]], names: list[str], numbers: tuple[str, ...]) -> bytes:
    """The table in Parquet, with numbers as numbers and empty cells as nulls."""
    columns = {}
    for place, name in enumerate(names):
        cells = [row[place] or None for row in rows]
        if name in numbers:
            cells = [None if cell is None else float(cell) for cell in cells]
        columns[name] = pa.array(cells)
        if name in ("id", "source", "target"):
            columns[name] = pa.array([int(cell) for cell in cells], pa.int32())
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "kind",
    ["csv", "tsv", "csv.gz", "tsv.gz", "parquet", "mark", "windows", "semicolon", "blank lines"],
)
def test_every_format_says_the_same(kind: str, write: Write) -> None:
    tables = {"nodes": [NAMES, *ROWS], "edges": [["source", "target"], *ENDS]}
    options, files = TableOptions(), {}
    for name, rows in tables.items():
        text = delimited(rows)
        match kind:
            case "csv" | "csv.gz":
                files[f"{name}.{kind}"] = text
            case "tsv" | "tsv.gz":
                files[f"{name}.{kind}"] = delimited(rows, "\t")
            case "mark":
                files[f"{name}.csv"] = "\ufeff" + text
            case "windows":
                files[f"{name}.csv"] = delimited(rows, end="\r\n")
            case "blank lines":
                files[f"{name}.csv"] = text.replace("\n", "\n\n")
            case "semicolon":
                files[f"{name}.csv"] = delimited(rows, ";")
                options = TableOptions(delimiter=";")
            case "parquet":
                files[f"{name}.parquet"] = columnar(rows[1:], rows[0], ("size",))
    file = read_graphs(write(None, None, files), options)
    assert file.graphs[0].x.tolist() == [
        [1.5, 0, 1, 0],
        [1.5, 1, 0, 1],  # the only size in training, marked; no colour is a colour of its own
        [3, 0, 1, 0],
    ]
    assert file.schema.feature_names == ("size", "size_missing", "colour=red", "colour_missing")
    assert file.ids.to_pylist() == [7, 8, 9]
    assert edges_by_id(file) == [(7, 8), (9, 7), (9, 9)]
    assert file.classes == ("x", "y")
    assert [file.splits[0].part(p).tolist() for p in ("train", "val", "test")] == [[0, 1], [2], []]


def test_tables_of_two_formats_meet(write: Write) -> None:
    files = {"nodes.csv": delimited([NAMES, *ROWS])}
    files["edges.parquet"] = columnar(ENDS, ["source", "target"], ())
    assert edges_by_id(read_graphs(write(None, None, files))) == [(7, 8), (9, 7), (9, 9)]


def test_quoted_cells_may_hold_anything(write: Write) -> None:
    nodes = 'id,"a, b",label\n"x\ny",1,"say ""hi"""\n"p,q",2,no\n'
    edges = 'source,target\n"p,q","x\ny"\n'
    file = read_graphs(write(nodes, edges))
    assert file.ids.to_pylist() == ["x\ny", "p,q"]
    assert file.classes == ("no", 'say "hi"')
    assert file.schema.feature_names == ("a, b",)
    assert file.graphs[0].edge_index.tolist() == [[1], [0]]


def test_a_quoted_cell_may_be_longer_than_the_limit_of_the_csv_module(write: Write) -> None:
    limit = csv.field_size_limit()
    nodes = f'id,label,text\na,x,"{"long, " * limit}"\nb,y,short\n'
    file = read_graphs(write(nodes, "source,target\na,b\n"), TableOptions(ignore="text"))
    assert file.ids.to_pylist() == ["a", "b"]
    assert csv.field_size_limit() == limit


def test_names_found_and_names_given(write: Write) -> None:
    nodes = "Name,CLASS,Split_1,split_0,f\na,0,test,train,1\nb,1,train,train,2\nc,1,train,test,3\n"
    edges = "V,u,W\na,b,0.5\nc,b,2\n"
    folder = write(nodes, edges)
    file = read_graphs(folder, TableOptions(allow_unseen=True))
    options = file.schema.options
    assert (options.id, options.label, options.split_column) == (
        "Name",
        ("CLASS",),
        ("split_0", "Split_1"),
    )
    assert (options.source, options.target, options.weight) == ("u", "V", "W")
    assert file.graphs[0].edge_index.tolist() == [[1, 1], [0, 2]]
    assert file.graphs[0].edge_weight.tolist() == [0.5, 2]
    assert [split.train.tolist() for split in file.splits] == [[0, 1], [1, 2]]
    assert file.schema.feature_names == ("f",)
    given = TableOptions(
        source="V", target="u", ignore="f", split_column="Split_1", allow_unseen=True
    )
    file = read_graphs(folder, given)
    assert file.graphs[0].edge_index.tolist() == [[0, 2], [1, 1]]
    assert len(file.splits) == 1
    # The other split is a column like any other now; that is noted.
    assert file.schema.feature_names == ("split_0=test", "split_0=train")
    assert any("'split_0' used as features" in note for note in file.notes)


def test_the_id_is_the_first_column_if_none_is_called_so(write: Write) -> None:
    file = read_graphs(write("label,page,f\nx,a,1\ny,b,2\n", "src,dst\na,b\n"))
    assert file.ids.to_pylist() == ["a", "b"]
    assert any("'page', the first column" in note for note in file.notes)


def test_no_edges_are_a_graph_too(write: Write) -> None:
    file = read_graphs(write(edges="source,target\n"))
    assert file.graphs[0].edge_index.shape == (2, 0)
    assert any("no edges" in note for note in file.notes)


def test_no_features_become_a_constant_or_the_degree(write: Write) -> None:
    folder = write("id,label\na,x\nb,y\nc,y\n", "source,target\na,b\nc,b\nb,c\nb,b\n")
    file = read_graphs(folder)
    assert file.graphs[0].x.tolist() == [[1], [1], [1]]
    assert any("constant 1" in note for note in file.notes)
    file = read_graphs(folder, TableOptions(degree=True))
    assert file.graphs[0].x.tolist() == [[0], [3], [1]]  # edges that end in a, b, c
    file = read_graphs(folder, TableOptions(degree=True, directed=False))
    assert file.graphs[0].x.tolist() == [[1], [3], [1]]


GRAPHS = "graph_id,label,split,place\ng2,x,train,1\ng1,y,train,2\ng3,x,test,3\n"
MEMBERS = "id,graph_id,f\na,g1,1\nb,g2,2\nc,g1,3\nd,g3,4\ne,g2,5\nf,g1,6\n"


def check_graphs(file: GraphFile) -> None:
    assert file.level == "graph"
    assert file.ids.to_pylist() == ["g2", "g1", "g3"]
    assert [graph.x.squeeze(1).tolist() for graph in file.graphs] == [[2, 5], [1, 3, 6], [4]]
    assert [graph.edge_index.tolist() for graph in file.graphs] == [
        [[1], [0]],  # e -> b
        [[0, 2], [1, 0]],  # a -> c, f -> a
        [[], []],
    ]
    assert [graph.edge_weight.tolist() for graph in file.graphs] == [[4], [1, 2], []]
    assert file.labels is not None
    assert file.labels.tolist() == [0, 1, 0]
    assert file.splits[0].train.tolist() == [0, 1]
    assert file.splits[0].test.tolist() == [2]
    assert any("not used: 'place'" in note for note in file.notes)
    assert file.task().unit == "graph"


def test_graphs_whose_nodes_are_interleaved(write: Write) -> None:
    edges = "source,target,weight\na,c,1\ne,b,4\nf,a,2\n"
    check_graphs(read_graphs(write(MEMBERS, edges, {"graphs.csv": GRAPHS})))


def test_ids_that_are_unique_within_their_graph_only(write: Write) -> None:
    members = "id,graph_id,f\n0,g1,1\n0,g2,2\n1,g1,3\n0,g3,4\n1,g2,5\n2,g1,6\n"
    edges = "graph_id,source,target,weight\ng1,0,1,1\ng2,1,0,4\ng1,2,0,2\n"
    check_graphs(read_graphs(write(members, edges, {"graphs.csv": GRAPHS})))
    stray = edges.replace("g1,0,1,1", "g2,2,1,1")
    one_graph = "source,target\n0,1\n"
    twice = members + "1,g2,7\n"
    for name, nodes, ends, message in (
        ("stray", members, stray, r"edges.csv, row 2: .*of the edge's graph .*'2'"),
        ("one graph", members, one_graph, r"nodes.csv, row 3: .*'0', as in row 2"),
        ("twice", twice, edges, r"nodes.csv, row 8: .*'1', as in row 6"),
    ):
        with pytest.raises(DataError, match=message):
            read_graphs(write(nodes, ends, {"graphs.csv": GRAPHS}, name=name))


def test_a_label_of_nodes_is_a_feature_when_graphs_are_classified(write: Write) -> None:
    members = MEMBERS.replace("f\n", "label\n", 1)
    file = read_graphs(write(members, "source,target\n", {"graphs.csv": GRAPHS}))
    assert file.schema.feature_names == ("label",)
    assert any("'label' used as features" in note for note in file.notes)


def test_reading_for_prediction(write: Write) -> None:
    train = read_graphs(write(), TableOptions(standardize=True))
    nodes = "extra,colour,id,size\n1,blue,z,3\n2,green,y,\n3,,x,1.5\n"
    file = read_graphs(write(nodes, "source,target\nz,x\n", name="new"), schema=train.schema)
    # Training nodes have sizes 1 and 2: mean 1.5, deviation 0.5. A missing size is that mean.
    assert file.graphs[0].x.tolist() == [[3, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert file.labels is None
    assert file.splits == ()
    assert file.classes == ("x", "y")
    assert file.schema == train.schema
    notes = " | ".join(file.notes)
    assert "not used: 'extra'" in notes
    assert "'colour': 2 values not seen in training" in notes
    assert "'size': 1 missing value, none in training: using 1.5" in notes
    with pytest.raises(DataError, match="labels are needed"):
        file.task()


def test_the_training_file_reads_alike_with_its_schema(write: Write) -> None:
    folder = write()
    train = read_graphs(folder)
    again = read_graphs(folder, schema=train.schema)
    assert torch.equal(again.graphs[0].x, train.graphs[0].x)
    assert again.labels is not None
    assert again.labels.tolist() == [0, 1, 0, 1]
    assert again.splits == ()


def test_prediction_refuses_what_training_did_not_know(write: Write) -> None:
    schema = read_graphs(write()).schema
    cases = {
        "id,label,colour\na,x,red\n": r"nodes.csv: .*missing: 'size'",
        "id,size,colour,label\na,1,red,z\n": r"row 2: .*training file \(got 'z'\).*'x', 'y'",
        "id,size,colour\na,big,red\n": r"row 2: column 'size' must hold numbers \(got 'big'\)",
        "key,size,colour\na,1,red\n": r"there is no column 'id'",
    }
    for number, (nodes, message) in enumerate(cases.items()):
        with pytest.raises(DataError, match=message):
            read_graphs(write(nodes, "source,target\n", name=f"case {number}"), schema=schema)
    with pytest.raises(ArgumentError, match=r"got \['label'\]"):
        read_graphs(write(name="options"), TableOptions(label="label"), schema)
    graphs = write(MEMBERS, "source,target\n", {"graphs.csv": GRAPHS}, name="graphs")
    with pytest.raises(DataError, match=r"predicts nodes.*remove graphs.csv"):
        read_graphs(graphs, schema=schema)


def test_weights_in_prediction_are_as_in_training(write: Write) -> None:
    plain = write()
    weighted = write(edges="source,target,weight\na,b,2\n", name="weighted")
    schema = read_graphs(weighted).schema
    with pytest.raises(DataError, match="no column 'weight' of the training; the columns are"):
        read_graphs(plain, schema=schema)
    file = read_graphs(weighted, schema=read_graphs(plain).schema)
    assert "edge_weight" not in file.graphs[0]
    assert any("edges that are not used: 'weight'" in note for note in file.notes)


def test_empty_labels_are_no_labels_in_prediction(write: Write) -> None:
    folder = write()
    schema = read_graphs(folder).schema
    nodes = "id,size,colour,label\na,1,red,\nb,1,red,\n"
    assert read_graphs(write(nodes, "source,target\n", name="new"), schema=schema).labels is None


def test_several_labels(write: Write) -> None:
    nodes = "id,f,u,v,split\na,1,1,0,train\nb,2,true,1,train\nc,3,,,test\nd,4,0,FALSE,test\n"
    folder = write(nodes)
    file = read_graphs(folder, TableOptions(label=("u", "v")))
    assert file.labels is not None
    assert file.labels.nan_to_num(-9).tolist() == [[1, 0], [1, 1], [-9, -9], [0, 0]]
    assert file.classes == ("u", "v")
    assert file.schema.multilabel
    assert file.task().multilabel
    assert file.task().rows(0, "test").tolist() == [3]
    assert read_graphs(folder, schema=file.schema).classes == ("u", "v")


# Ids as people write them: with leading zeros, blanks, quotes, other alphabets.
IDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=5)


@settings(max_examples=40)
@given(ids=st.lists(IDS, min_size=2, max_size=8, unique=True), data=st.data())
def test_any_ids_give_the_edges_of_a_plain_reading(ids: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=12))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, header, rows in (
            ("nodes.csv", ["id", "label"], [[key, str(i % 2)] for i, key in enumerate(ids)]),
            ("edges.csv", ["source", "target"], [list(pair) for pair in ends]),
        ):
            text = io.StringIO()
            csv.writer(text).writerows([header, *rows])
            (folder / file).write_text(text.getvalue(), encoding="utf-8", newline="")
        read = read_graphs(folder, TableOptions(directed=True))
    place = {key: i for i, key in enumerate(ids)}
    assert read.graphs[0].edge_index.T.tolist() == [[place[a], place[b]] for a, b in ends]
    assert [str(key) for key in read.ids.to_pylist()] == ids


def test_another_format_or_a_missing_header_is_named(write: Write) -> None:
    with pytest.raises(DataError, match=r"save 'nodes.xlsx' as nodes.csv"):
        read_graphs(write(None, files={"nodes.xlsx": b""}))
    headless = write("a,1,x\nb,2,y\n", name="headless")
    with pytest.raises(DataError, match="write the names of the columns above it"):
        read_graphs(headless, TableOptions(label="label"))


@pytest.mark.parametrize("word", ["none", "None"])
def test_weights_may_be_left_out(write: Write, word: str) -> None:
    edges = "source,target,weight\na,b,-1\nb,c,2\n"
    file = read_graphs(write(edges=edges), TableOptions(weight=word))
    assert file.graphs[0].edge_weight is None
    assert not file.schema.weighted
    again = read_graphs(write(edges=edges, name="new"), schema=file.schema)
    assert again.graphs[0].edge_weight is None
    assert again.graphs[0].edge_index.tolist() == [[0, 1], [1, 2]]
