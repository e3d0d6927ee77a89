"""Predictions in a table: one row an id, there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from mgnni.data.tables.arrow import csv, pa, parquet
from mgnni.data.tables.wording import reason
from mgnni.errors import ArgumentError, DataError

SUFFIXES = (".csv", ".parquet")


def check_target(path: Path, overwrite: bool = False) -> None:
    """Refuse a file that predictions cannot go to; worth asking before the work is done."""
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path}: predictions must go to a file that ends in .csv or .parquet (got "
            f"{path.suffix!r}); rename it"
        )
    if not path.parent.is_dir():
        raise DataError(f"{path}: its folder must exist; make {path.parent} first")
    if path.is_dir() or (path.exists() and not overwrite):
        kind = "folder" if path.is_dir() else "file"
        raise DataError(
            f"{path}: there is a {kind} of this name; choose another, or pass --overwrite to "
            "replace a file"
        )


def write_predictions(
    path: Path,
    ids: Any,
    classes: Sequence[str],
    chosen: Tensor,
    probabilities: Tensor,
    attention: Tensor | None = None,
    scales: Sequence[int] = (),
    *,
    multilabel: bool = False,
    overwrite: bool = False,
) -> None:
    """Write ``id``, ``prediction``, ``p_<class>`` of each class and ``scale_<m>`` of each scale.

    Args:
        path: ends in ``.csv`` or ``.parquet``.
        ids: of the rows, as :class:`~mgnni.data.tables.graphfile.GraphFile` has them; they keep
            their type.
        classes: names of the classes, or of the labels.
        chosen: which classes are predicted, boolean, shape ``(rows, classes)``; one in each row,
            if it is not ``multilabel``.
        probabilities: shape ``(rows, classes)``.
        attention: how much each scale counted, shape ``(rows, scales)``.
        scales: the scales.
        multilabel: a row may have several labels: the prediction names all of them, with ``;``
            between them.
        overwrite: replace a file of this name.
    """
    path = Path(path)
    check_target(path, overwrite)
    column = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
    shape = (len(column), len(classes))
    shapes = {"chosen": (chosen, shape), "probabilities": (probabilities, shape)}
    if attention is not None:
        shapes["attention"] = (attention, (len(column), len(scales)))
    for name, (tensor, shape) in shapes.items():
        if tuple(tensor.shape) != shape:
            raise ArgumentError(
                f"'{name}' must have shape {shape}, a row for each id (got {tuple(tensor.shape)}); "
                "give them for the same rows"
            )
    probabilities = probabilities.detach().cpu().float()
    columns: dict[str, Any] = {"id": column}
    if multilabel:
        likely = chosen.tolist()
        columns["prediction"] = pa.array(
            [";".join(c for c, yes in zip(classes, row, strict=True) if yes) for row in likely],
            pa.string(),
        )
    else:
        best = pa.array(chosen.int().argmax(dim=1).cpu().numpy())
        columns["prediction"] = pa.array(classes, pa.string()).take(best)
    for name, values in zip(classes, probabilities.unbind(1), strict=True):
        columns[f"p_{name}"] = values.contiguous().numpy()
    if attention is not None:
        for scale, values in zip(scales, attention.detach().cpu().float().unbind(1), strict=True):
            columns[f"scale_{scale}"] = values.contiguous().numpy()
    _write(path, pa.table(columns))


def _write(path: Path, table: Any) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            if path.suffix == ".csv":
                csv.write_csv(table, file)
            else:
                parquet.write_table(table, file)
        os.replace(draft, path)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({reason(error)}); choose another place"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
