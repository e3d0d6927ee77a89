"""A small good graph in tables, to be read as it is or with one thing wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

NODES = """id,size,colour,label,split
a,1,red,x,train
b,2,blue,y,train
c,3,red,x,val
d,4,blue,y,test
"""
EDGES = "source,target\na,b\nb,c\nc,d\n"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a folder: nodes and edges as above unless given, other files by their name.

    ``None`` leaves a file out; text is written as UTF-8, and compressed if the name says so.
    """

    def make(
        nodes: str | bytes | None = NODES,
        edges: str | bytes | None = EDGES,
        files: Mapping[str, str | bytes] | None = None,
        name: str = "graph",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        every = {"nodes.csv": nodes, "edges.csv": edges, **(files or {})}
        for file, content in every.items():
            if content is not None:
                data = content.encode() if isinstance(content, str) else content
                zipped = file.endswith(".gz") and isinstance(content, str)
                (folder / file).write_bytes(gzip.compress(data) if zipped else data)
        return folder

    return make
