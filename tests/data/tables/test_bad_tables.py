"""Every kind of bad input: one line that names the file, the row and a remedy; no file changes."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.tables.refusals import parquet_bytes, refused
from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import DataError

HEADER = "id,size,colour,label,split\n"
ROWS = ["a,1,red,x,train", "b,2,blue,y,train", "c,3,red,x,val", "d,4,blue,y,test"]


def nodes(*rows: str, header: str = HEADER) -> str:
    """The table of nodes with its last rows replaced."""
    kept = ROWS[: len(ROWS) - len(rows)]
    return header + "".join(f"{row}\n" for row in [*kept, *rows])


CATEGORIES = HEADER + "".join(f"n{i},{i},c{i},{i % 2},train\n" for i in range(1001))
NAMES = HEADER + "".join(f"n{i},{i},word {i},{i % 2},train\n" for i in range(30))
LONG = HEADER + "".join(f"n{i},{i},red,{i % 2},train\n" for i in range(200))
MASKS = "id,label,train_mask,val_mask\na,x,1,0\nb,y,1,1\n"
GRAPHS = "graph,label,split\ng,x,train\nh,y,train\n"
MEMBERS = "id,graph,size\na,g,1\nb,g,2\nc,h,3\nd,h,4\n"
PAIRS = "source,target\na,b\nc,d\n"

# name of the case: files, options, what the message says after the path of the folder
CASES: dict[str, tuple[Mapping[str, Any], dict[str, Any], str]] = {
    "no nodes": ({"nodes.csv": None}, {}, r": .*table of nodes.*got 'edges.csv'"),
    "no edges": ({"edges.csv": None}, {}, r": .*table of edges, edges.csv.*got 'nodes.csv'"),
    "empty folder": ({"nodes.csv": None, "edges.csv": None}, {}, r": .*an empty folder"),
    "two tables of nodes": (
        {"nodes.tsv": HEADER.replace(",", "\t")},
        {},
        r": .*one table of nodes \(got 'nodes.csv', 'nodes.tsv'\)",
    ),
    "empty file": ({"nodes.csv": ""}, {}, r"/nodes.csv: .*an empty file"),
    "blank file": ({"edges.csv": "\n  \n"}, {}, r"/edges.csv: .*an empty file"),
    "header only": ({"nodes.csv": HEADER}, {}, r"/nodes.csv: .*a header only"),
    "no label column": (
        {"nodes.csv": "id,size\na,1\n"},
        {},
        r"/nodes.csv: .*label.*got 'id', 'size'.*--label",
    ),
    "two label columns": (
        {"nodes.csv": "id,label,y\na,x,1\nb,y,2\n"},
        {},
        r"/nodes.csv: .*got 'label', 'y'.*--label",
    ),
    "unknown label column": (
        {},
        {"label": "colours"},
        r"/nodes.csv: .*'colours' \(--label\); the columns are 'id', 'size'.*mean 'colour'",
    ),
    "unknown id column": ({}, {"id": "key"}, r"/nodes.csv: .*'key' \(--id\)"),
    "unknown feature": ({}, {"features": "sizes"}, r"/nodes.csv: .*'sizes'.*did you mean 'size'"),
    "unknown ignored column": ({}, {"ignore": "idd"}, r"/nodes.csv: .*'idd' \(--ignore\)"),
    "unknown split column": (
        {},
        {"split_column": "fold"},
        r"/nodes.csv: .*'fold' \(--split-column\)",
    ),
    "unknown source column": ({}, {"source": "a"}, r"/edges.csv: .*'a' \(--source\)"),
    "unknown weight column": ({}, {"weight": "w"}, r"/edges.csv: .*'w' \(--weight\)"),
    "label as a feature": ({}, {"features": "label"}, r"/nodes.csv: .*got 'label'.*--features"),
    "label is the split": ({}, {"label": "split"}, r"/nodes.csv: .*label and split"),
    "id is the label": ({}, {"id": "label"}, r"/nodes.csv: .*got 'label'.*--id"),
    "categorical label": ({}, {"categorical": "label"}, r"/nodes.csv: .*'label'.*--categorical"),
    "source is the target": (
        {},
        {"source": "target"},
        r"/edges.csv: source, target, .*different columns \(got 'target' twice\).*--target",
    ),
    "weight is the source": (
        {"edges.csv": "source,target\n1,2\n", "nodes.csv": "id,label\n1,x\n2,y\n"},
        {"weight": "source"},
        r"/edges.csv: source, target, .*got 'source' twice",
    ),
    "edges without a target": (
        {"edges.csv": "source,end\na,b\n"},
        {},
        r"/edges.csv: .*target.*got 'source', 'end'.*--target",
    ),
    "another delimiter": (
        {"edges.csv": "source;target\na;b\n"},
        {},
        r"/edges.csv: .*is the delimiter ';'\?.*--delimiter",
    ),
    "dangling source": (
        {"edges.csv": "source,target\na,b\nz,b\nz,a\n"},
        {},
        r"/edges.csv, row 3: column 'source' .*'z'.*; 2 such edges",
    ),
    "dangling target after blank lines": (
        {"edges.csv": "source,target\n\na,b\n\n\na,z\n"},
        {},
        r"/edges.csv, row 6: column 'target' .*'z'",
    ),
    "dangling by a blank": (
        {"edges.csv": "source,target\na, b\n"},
        {},
        r"/edges.csv, row 2: .*' b'.*'b' differs .*only in spaces",
    ),
    "dangling by leading zeros": (
        {"nodes.csv": "id,label\n007,x\n8,y\n", "edges.csv": "source,target\n8,7\n"},
        {},
        r"/edges.csv, row 2: .*'7'.*'007' is another id",
    ),
    "edge without a source": (
        {"edges.csv": "source,target\n,b\n"},
        {},
        r"/edges.csv, row 2: .*an empty cell",
    ),
    "duplicate id": (
        {"nodes.csv": nodes("b,9,red,x,test")},
        {},
        r"/nodes.csv, row 5: .*'b', as in row 3",
    ),
    "missing id": ({"nodes.csv": nodes(",9,red,x,test")}, {}, r"/nodes.csv, row 5: .*empty cell"),
    "infinity": ({"nodes.csv": nodes("d,-inf,red,x,test")}, {}, r", row 5: .*finite.*'-inf'"),
    "too large for float32": ({"nodes.csv": nodes("d,1e39,red,x,test")}, {}, r"row 5: .*'1e39'"),
    "text among numbers": (
        {"nodes.csv": nodes("c,three,red,x,val", "d,4,red,x,test")},
        {},
        r"/nodes.csv, row 4: column 'size' .*numbers.*'three'.*--categorical size",
    ),
    "decimal comma": (
        {"nodes.csv": 'id,size,label\na,"1,5",x\nb,"2,5",y\n'},
        {},
        r"/nodes.csv, row 2: column 'size' .*'1,5'",
    ),
    "commas between thousands": (
        {"nodes.csv": 'id,size,label\na,"1,200",x\nb,"2,500",y\n'},
        {},
        r"/nodes.csv, row 2: column 'size' .*'1,200'.*and 1200, not 1,200",
    ),
    "commas between thousands and decimals": (
        {"nodes.csv": 'id,size,label\na,"1,200.50",x\nb,"2,500.75",y\n'},
        {},
        r"/nodes.csv, row 2: column 'size' .*'1,200.50'",
    ),
    "points between thousands": (
        {"nodes.csv": 'id,size,label\na,"1.200,50",x\nb,"2.500,75",y\n'},
        {},
        r"/nodes.csv, row 2: column 'size' .*'1.200,50'",
    ),
    "a column of nothing": (
        {"nodes.csv": "id,size,label\na,,x\nb,,y\n"},
        {},
        r"/nodes.csv: column 'size' .*only empty.*--ignore size",
    ),
    "latin-1": (
        {"nodes.csv": nodes("d,4,blé,y,test").encode("latin-1")},
        {},
        r"/nodes.csv, row 5: .*UTF-8.*byte 0xe9 at position 6.*iconv",
    ),
    "latin-1 in the header": (
        {"nodes.csv": nodes(header="id,size,couléur,label,split\n").encode("latin-1")},
        {},
        r"/nodes.csv, row 1: .*UTF-8.*byte 0xe9",
    ),
    "utf-16": ({"nodes.csv": nodes().encode("utf-16")}, {}, r"/nodes.csv, row 1: .*UTF-16.*byte 0"),
    "utf-16 without a mark": ({"nodes.csv": nodes().encode("utf-16-le")}, {}, r"s.csv: .*binary"),
    "binary junk": ({"edges.csv": bytes(range(256)) * 4}, {}, r"/edges.csv: .*binary data"),
    "gzip without its suffix": ({"nodes.csv": gzip.compress(b"id")}, {}, r"s.csv: .*gzip data"),
    "short row": ({"nodes.csv": nodes("d,4,red,y")}, {}, r"/nodes.csv, row 5: .*5 cells.*got 4"),
    "long row": ({"nodes.csv": nodes("d,4,red,y,,")}, {}, r"/nodes.csv, row 5: .*5 cells.*got 6"),
    "open quote": (
        {"edges.csv": 'source,target\na,b\nb,"c\nc,d\n'},
        {},
        r"/edges.csv, after row 2: every quote must be closed",
    ),
    "two stray quotes": (
        {"edges.csv": 'source,target\na,"b\nb,c\nc,d"e\n'},
        {},
        r"/edges.csv, row 2: a closing quote must end the cell",
    ),
    "text after a closing quote": (
        {"nodes.csv": nodes('c,3,"red";,x,val', "d,4,blue,y,test")},
        {},
        r"/nodes.csv, row 4: a closing quote must end the cell",
    ),
    "text after a quote that follows a delimiter": (
        {"nodes.csv": nodes('d,4,"red,"blue,y,test')},
        {},
        r"/nodes.csv, row 5: a closing quote must end the cell",
    ),
    "duplicated column": (
        {"nodes.csv": nodes(header="id,size,size,label,split\n")},
        {},
        r"/nodes.csv, row 1: .*'size' for columns 2 and 3",
    ),
    "unnamed column": (
        {"nodes.csv": nodes(header=",size,colour,label,split\n")},
        {},
        r"/nodes.csv, row 1: .*got none for column 1.*index=False",
    ),
    "one class": (
        {"nodes.csv": "id,label\na,x\nb,x\nc,\nd,x\n"},
        {},
        r"/nodes.csv, column 'label': .*two classes.*got 'x' only",
    ),
    "no label at all": ({"nodes.csv": "id,label\na,\nb,\n"}, {}, r"'label': some rows .*a label"),
    "nan as a label": ({"nodes.csv": nodes("d,4,red,NaN,test")}, {}, r"row 5: .*class.*'NaN'"),
    "NA as a label": (
        {"nodes.csv": nodes("d,4,red,NA,test")},
        {},
        r"/nodes.csv, row 5: column 'label' .*class.*'NA'.*empty",
    ),
    "NA as one of several labels": (
        {"nodes.csv": "id,u,v\na,0,1\nb,NA,NA\n"},
        {"label": ("u", "v")},
        r"/nodes.csv, row 3: column 'u' .*0 or 1.*'NA'",
    ),
    "NA in a mask": (
        {"nodes.csv": "id,label,train_mask\na,x,1\nb,y,NA\n"},
        {},
        r"/nodes.csv, row 3: column 'train_mask' .*'NA'",
    ),
    "NA as a split": (
        {"nodes.csv": nodes("d,4,red,y,NA")},
        {},
        r"/nodes.csv, row 5: column 'split' .*'NA'",
    ),
    "NA as a weight": ({"edges.csv": "source,target,w\na,b,NA\n"}, {}, r"s.csv, row 2: .*'NA'"),
    "only missing values": (
        {"nodes.csv": "id,size,label\na,NA,x\nb,nan,y\n"},
        {},
        r"/nodes.csv: column 'size' .*--ignore size",
    ),
    "measurements": (
        {"nodes.csv": "id,label\na,1.25\nb,2.5\nc,3.75\nd,0.5\n"},
        {},
        r"/nodes.csv, column 'label': .*4 different numbers.*--task regression",
    ),
    "names as labels": (
        {"nodes.csv": NAMES},
        {"label": "colour"},
        r"/nodes.csv, column 'colour': .*30 different ones in 30",
    ),
    "a label that is not 0 or 1": (
        {"nodes.csv": "id,u,v\na,0,1\nb,2,0\n"},
        {"label": ("u", "v")},
        r"/nodes.csv, row 3: column 'u' .*0 or 1.*'2'",
    ),
    "a row with some labels": (
        {"nodes.csv": "id,u,v\na,0,1\nb,1,\n"},
        {"label": ("u", "v")},
        r"/nodes.csv, row 3: .*all labels or none.*'v'",
    ),
    "unknown split word": (
        {"nodes.csv": nodes("d,4,red,y,tets")},
        {},
        r"/nodes.csv, row 5: column 'split' .*'tets'.*did you mean 'test'",
    ),
    "no training part": (
        {"nodes.csv": "id,label,split\na,x,val\nb,y,test\n"},
        {},
        r"/nodes.csv, column 'split': the training set is empty",
    ),
    "training part without labels": (
        {"nodes.csv": "id,label,split\na,,train\nb,y,test\nc,x,test\n"},
        {},
        r"/nodes.csv, column 'split': the training set has no label",
    ),
    "overlapping masks": ({"nodes.csv": MASKS}, {}, r", row 3: .*'train_mask', 'val_mask'"),
    "masks without training": (
        {"nodes.csv": "id,label,val_mask\na,x,1\nb,y,0\n"},
        {},
        r"/nodes.csv: masks must include train_mask",
    ),
    "masks and words": (
        {"nodes.csv": "id,label,split,train_mask\na,x,train,1\nb,y,train,1\n"},
        {},
        r"/nodes.csv: the split .*'split', 'train_mask'.*--split-column",
    ),
    "class that training does not see": (
        {"nodes.csv": nodes("d,4,red,z,test")},
        {},
        r"/nodes.csv, column 'split': .*'z' in test only.*--allow-unseen",
    ),
    "too many categories": (
        {"nodes.csv": CATEGORIES, "edges.csv": "source,target\n"},
        {},
        r"/nodes.csv: column 'colour' .*got 1001 .*--ignore colour",
    ),
    "a category a row": ({"nodes.csv": NAMES}, {}, r"/nodes.csv: column 'colour' .*got 30 in 30"),
    "negative weight": (
        {"edges.csv": "source,target,weight\na,b,1\nb,c,-0.5\n"},
        {},
        r"/edges.csv, row 3: column 'weight' .*negative.*-0.5",
    ),
    "negative weight, remedy": (
        {"edges.csv": "source,target,weight\na,b,-1\n"},
        {},
        r"encode the sign as a feature, or pass --weight none to use no weights$",
    ),
    "ids in another column": (
        {
            "nodes.csv": "member num,name,label\n-1,ann,x\n-2,ben,y\n-3,eve,y\n",
            "edges.csv": "source,target\n-1,-2\n-2,-3\n-3,ann\n",
        },
        {},
        r"/edges.csv, row 2: .*got '-1'.*ids are read from column 'name' of nodes.csv, but "
        r"'member num' has most of them: pass --id 'member num'$",
    ),
    "ids in no column": (
        {"edges.csv": "source,target\nz,a\ny,b\n"},
        {},
        r"/edges.csv, row 2: .*ids are read from column 'id' of nodes.csv; name another with --id$",
    ),
    "a column with spaces": (
        {"nodes.csv": "id,full size,label\na,,x\nb,,y\n"},
        {},
        r"/nodes.csv: column 'full size' .*--ignore 'full size'$",
    ),
    "a column with a dash": (
        {"nodes.csv": "id,-x,label\na,,x\nb,,y\n"},
        {},
        r"/nodes.csv: column '-x' .*--ignore=-x$",
    ),
    "uneven number of directed edges": (
        {"edges.csv": "source,target\na,b\na,b\nb,a\n"},
        {"directed": False},
        r"/edges.csv: .*list it once, or train with --undirected true instead of --directed false",
    ),
    "nan weight": (
        {"edges.csv": "source,target,w\na,b,NaN\n"},
        {},
        r"/edges.csv, row 2: .*'NaN'.*remove the edge",
    ),
    "text weight": ({"edges.csv": "source,target,w\na,b,hi\n"}, {}, r"/edges.csv, row 2: .*'hi'"),
    "missing weight": ({"edges.csv": "source,target,w\na,b,\n"}, {}, r"s.csv, row 2: .*empty cell"),
    "uneven undirected edge": (
        {"edges.csv": "source,target,w\na,b,1\nb,a,2\n"},
        {"directed": False},
        r"/edges.csv: .*both directions.*'a' to 'b'",
    ),
    "edge between graphs": (
        {"nodes.csv": MEMBERS, "graphs.csv": GRAPHS, "edges.csv": "source,target\na,b\nb,c\n"},
        {},
        r"/edges.csv, row 3: .*nodes of one graph.*'b' and 'c'",
    ),
    "graph without nodes": (
        {"nodes.csv": MEMBERS, "graphs.csv": GRAPHS + "i,x,test\n", "edges.csv": PAIRS},
        {},
        r"/graphs.csv, row 4: .*'i'",
    ),
    "node of no graph": (
        {"nodes.csv": MEMBERS + "e,j,5\n", "graphs.csv": GRAPHS, "edges.csv": PAIRS},
        {},
        r"/nodes.csv, row 6: column 'graph' .*graphs.csv.*'j'",
    ),
    "edge of no graph": (
        {
            "nodes.csv": MEMBERS,
            "graphs.csv": GRAPHS,
            "edges.csv": "graph,source,target\ng,a,b\nk,c,d\n",
        },
        {},
        r"/edges.csv, row 3: column 'graph' .*'k'",
    ),
    "graphs, but nodes say nothing of them": (
        {"graphs.csv": GRAPHS},
        {},
        r"/nodes.csv: .*the graph of each node.*--graph",
    ),
    "nodes of graphs, but no graphs": (
        {"nodes.csv": MEMBERS},
        {},
        r"/nodes.csv: column 'graph' .*graphs.csv.*--ignore graph",
    ),
    "duplicate graph": (
        {"nodes.csv": MEMBERS, "graphs.csv": GRAPHS + "g,x,test\n", "edges.csv": PAIRS},
        {},
        r"/graphs.csv, row 4: .*'g', as in row 2",
    ),
    "cut Parquet": (
        {"nodes.csv": None, "nodes.parquet": parquet_bytes(id=["a"], label=["x"])[:-9]},
        {},
        r"/nodes.parquet: must be a complete Parquet file",
    ),
    "text named Parquet": (
        {"nodes.csv": None, "nodes.parquet": nodes()},
        {},
        r"/nodes.parquet: must be a complete Parquet file",
    ),
    "infinity in Parquet": (
        {
            "nodes.csv": None,
            "nodes.parquet": parquet_bytes(id=["a", "b"], f=[1.0, np.inf], label=["x", "y"]),
        },
        {},
        r"/nodes.parquet, row 1 \(from 0\): column 'f' .*inf",
    ),
    "a list in Parquet": (
        {"nodes.csv": None, "nodes.parquet": parquet_bytes(id=["a"], f=[[1, 2]], label=["x"])},
        {},
        r"/nodes.parquet: column 'f' .*list.*--ignore f",
    ),
    "text that is no UTF-8 in Parquet": (
        {
            "nodes.csv": None,
            "nodes.parquet": parquet_bytes(id=["aQb"], label=["x"]).replace(b"aQb", b"a\xffb"),
        },
        {},
        r"/nodes.parquet: must be a complete Parquet file .*UTF",
    ),
    "cut gzip": (
        {"edges.csv": None, "edges.csv.gz": gzip.compress(LONG.encode())[:-20]},
        {},
        r"/edges.csv.gz: cannot be read",
    ),
    "text named gzip": (
        {"edges.csv": None, "edges.csv.gz": b"source,target\na,b\n"},
        {},
        r"/edges.csv.gz: cannot be read ",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_tables(case: str, write: Any) -> None:
    files, options, pattern = CASES[case]
    every = {"nodes.csv": nodes(), "edges.csv": "source,target\n", **files}
    content = {name: data for name, data in every.items() if data is not None}
    folder = write(None, None, content)
    message = refused(folder, folder, TableOptions(**options))
    assert re.search(pattern, message.removeprefix(str(folder))), message


def test_the_cases_differ_from_a_good_graph(write: Any) -> None:
    folder = write(nodes(), "source,target\na,b\nb,c\n")
    assert read_graphs(folder).graphs[0].num_nodes == 4


def test_a_folder_where_a_table_should_be(write: Any) -> None:
    folder = write(nodes=None)
    (folder / "nodes.csv").mkdir()
    message = refused(folder, folder)
    assert "nodes.csv: must be a file (got a folder)" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read every file")
@pytest.mark.parametrize("name", ["nodes.csv", "nodes.parquet", "a.npz", "a.pt", ""])
def test_a_file_without_permission(name: str, write: Any) -> None:
    files = {"nodes.parquet": parquet_bytes(id=["a"], label=["x"]), "a.npz": b"", "a.pt": b""}
    folder = write(None if name == "nodes.parquet" else nodes(), files=files)
    if name != "nodes.parquet":
        (folder / "nodes.parquet").unlink()
    (folder / name).chmod(0)
    with pytest.raises(DataError, match=r"cannot be read \(permission denied\); .*permissions"):
        read_graphs(folder / name if name.startswith("a.") else folder)


@pytest.mark.parametrize("name", ["nodes.csv", "a.npz"])
def test_a_file_the_system_refuses(name: str, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(files={"a.npz": b""})
    unpatched = Path.open

    def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == name:
            raise PermissionError(13, "Permission denied")
        return unpatched(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        DataError, match=rf"{name}: cannot be read \(permission denied\); .* its permissions"
    ):
        read_graphs(folder if name == "nodes.csv" else folder / name)
