"""Small graphs in tables to train on through the command line, and a look at the whole disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

PARTS = ("train", "train", "val", "test")
QUICK = ("--model", "mgnni", "--epochs", "3", "--hidden-channels", "4", "--device", "cpu")


def node_rows(count: int = 24, *, labels: bool = True, splits: bool = True) -> list[str]:
    """A table of nodes: the first half is red and has a larger ``a``; ids are text."""
    rows = [",".join(["id", "a", "b", *["label"] * labels, *["split"] * splits])]
    for i in range(count):
        red = i < count // 2
        cells = [f"n{i:02d}", f"{(7 * i % 5) / 5 + red:.2f}", f"{(3 * i % 7) / 7:.2f}"]
        rows.append(
            ",".join([*cells, *["red" if red else "blue"] * labels, *[PARTS[i % 4]] * splits])
        )
    return rows


def edge_rows(count: int = 24) -> list[str]:
    """Two circles with chords, one of each colour; every edge is listed one way."""
    half = count // 2
    rows = ["source,target"]
    for i in range(count):
        first = 0 if i < half else half
        rows += [f"n{i:02d},n{first + (i - first + step) % half:02d}" for step in (1, 3)]
    return rows


def write_nodes(
    folder: Path, nodes: list[str] | None = None, edges: list[str] | None = None
) -> Path:
    """Write a folder whose nodes are to be classified."""
    return write(folder, nodes=nodes or node_rows(), edges=edges or edge_rows())


def write_graphs(folder: Path, count: int = 16, *, labels: bool = True) -> Path:
    """Write a folder of rings and paths, to be told apart."""
    nodes, edges = ["id,graph,a"], ["source,target"]
    graphs = ["graph,label,split" if labels else "graph"]
    first = 0
    for index in range(count):
        ring, size = index % 2 == 1, 4 + index % 3
        kind, part = ("ring" if ring else "path"), PARTS[(index // 2) % 4]
        graphs.append(f"g{index},{kind},{part}" if labels else f"g{index}")
        nodes += [f"v{first + i},g{index},{i / size:.2f}" for i in range(size)]
        edges += [f"v{first + i},v{first + (i + 1) % size}" for i in range(size - 1 + ring)]
        first += size
    return write(folder, nodes=nodes, edges=edges, graphs=graphs)


def write(folder: Path, **tables: list[str]) -> Path:
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def changed(rows: list[str], row: int, column: int, value: str) -> list[str]:
    """The same table with one other cell; the header is row 0."""
    cells = rows[row].split(",")
    cells[column] = value
    return [*rows[:row], ",".join(cells), *rows[row + 1 :]]


def listing(folder: Path) -> dict[str, str]:
    """Everything under a folder, hidden files too, with a hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }
