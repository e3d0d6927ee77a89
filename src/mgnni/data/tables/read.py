"""One way in for every kind of file that holds a graph."""

from __future__ import annotations

from pathlib import Path

from mgnni.data.tables.graphfile import GraphFile
from mgnni.data.tables.npz import read_npz
from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.pyg import read_pt
from mgnni.data.tables.schema import Schema
from mgnni.data.tables.wording import reason
from mgnni.errors import DataError

TABLES = (".csv", ".tsv", ".gz", ".parquet")


def read_graphs(
    path: Path, options: TableOptions | None = None, schema: Schema | None = None
) -> GraphFile:
    """Read a person's own graph, or graphs.

    Args:
        path: a folder with ``nodes.csv`` and ``edges.csv`` (or ``.tsv``, ``.csv.gz``,
            ``.parquet``), and ``graphs.csv`` if graphs are to be classified; a ``.npz`` with
            ``node_features``, ``node_labels`` and ``edges``, or ``x``, ``y`` and ``edge_index``; or
            a ``.pt`` with a PyG ``Data``, its dict, or a list of these. Nothing in a file is run.
        options: which column is what; found by name where it does not say.
        schema: of the file a model was trained on, to read another one for its predictions:
            features are made as they were then, labels may be missing, splits are not read. Only
            the delimiter may be given besides.

    Raises:
        DataError: the file cannot be used; the message names file, row and remedy.
    """
    path = Path(path)
    options = options or TableOptions()
    if schema is not None:
        options = schema.options_for(options)
    try:
        return _read(path, options, schema)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({reason(error)}); check its permissions, and its folder's"
        ) from error


def _read(path: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    if not path.exists():
        raise DataError(
            f"{path}: must be a folder with nodes.csv and edges.csv, or a .npz or .pt file (got "
            "nothing of this name); check the path"
        )
    if path.is_dir():
        # Here and not above: only tables need pyarrow.
        from mgnni.data.tables.folder import read_folder

        return read_folder(path, options, schema)
    if path.suffix == ".npz":
        return read_npz(path, options, schema)
    if path.suffix in (".pt", ".pth"):
        return read_pt(path, options, schema)
    if path.suffix in TABLES:
        raise DataError(
            f"{path}: a graph in tables is a folder with two of them, nodes.csv and edges.csv (got "
            f"one table); put both into a folder and give that, perhaps {path.parent}"
        )
    raise DataError(
        f"{path}: must be a folder, or a file that ends in .npz or .pt (got {path.suffix!r}); "
        "convert it, or correct its suffix"
    )
