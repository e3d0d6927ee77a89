"""Predictions written to a CSV or Parquet file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor
from torch.nn.functional import one_hot

from mgnni.data.tables.messages import os_reason
from mgnni.data.tables.table import csv, pa, parquet, pc
from mgnni.data.tables.values import NUMBER, is_text
from mgnni.data.targets import is_labeled
from mgnni.errors import ArgumentError, DataError
from mgnni.files import atomic_write

SUFFIXES = (".csv", ".parquet")
FORMULA = r"^[=+@\t\r-]"


def check_target(path: Path, overwrite: bool = False) -> None:
    """Checks that predictions can be written to a file, before they are computed.

    Args:
        path (Path): The file.
        overwrite (bool, optional): Whether the file may exist. (default: :obj:`False`)
    """
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path}: predictions must go to a file that ends in .csv or .parquet (got "
            f"{path.suffix!r}); rename it"
        )
    if not path.parent.is_dir():
        raise DataError(f"{path}: its folder must exist; create {path.parent} first")
    if path.is_dir() or (path.exists() and not overwrite):
        kind = "folder" if path.is_dir() else "file"
        raise DataError(
            f"{path}: there is already a {kind} of this name; choose another name, or pass "
            "--overwrite to replace a file"
        )


def write_predictions(
    path: Path,
    ids: Any,
    classes: Sequence[str],
    chosen: Tensor,
    probabilities: Tensor,
    attention: Tensor | None = None,
    scales: Sequence[int | str] = (),
    *,
    labels: Tensor | None = None,
    split: Sequence[str] | None = None,
    multilabel: bool = False,
    overwrite: bool = False,
) -> None:
    r"""Writes one row per id: prediction, label, split, probabilities and attention weights.

    The columns are ``id``, ``prediction``, ``label``, ``split``, ``p_<class>`` and ``scale_<m>``.
    In a CSV file, text that a spreadsheet would run as a formula, with a leading ``=``, ``+``,
    ``-`` or ``@``, gets a leading apostrophe, unless it is a number.

    Args:
        path (Path): A file that ends in ``.csv`` or ``.parquet``.
        ids (pyarrow.ChunkedArray or sequence): Ids of the rows, see
            :class:`~mgnni.data.tables.graph_file.GraphFile`; they keep their type.
        classes (list of str): Names of the classes, or of the labels.
        chosen (Tensor): Boolean mask of the predicted classes; one per row unless ``multilabel``.
        probabilities (Tensor): Probabilities of the classes.
        attention (Tensor, optional): Attention weights of the scales.
        scales (list of int or str, optional): Names of the scales.
        labels (Tensor, optional): True classes, as in :class:`~mgnni.data.task.Task`; rows without
            a label have an empty cell.
        split (list of str, optional): The set that each row is in.
        multilabel (bool, optional): Whether a row may have several labels; the prediction then
            lists them, separated by ``;``. (default: :obj:`False`)
        overwrite (bool, optional): Whether to replace an existing file. (default: :obj:`False`)

    Shapes:
        - **chosen**, **probabilities:** :math:`(N, C)` for :math:`N` ids and :math:`C` classes
        - **attention:** :math:`(N, M)` for :math:`M` scales
        - **labels:** :math:`(N)`, or :math:`(N, C)` if ``multilabel``
    """
    path = Path(path)
    check_target(path, overwrite)
    column = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
    for name, tensor, names in (
        ("chosen", chosen, classes),
        ("probabilities", probabilities, classes),
        ("attention", attention, scales),
    ):
        expected = (len(column), len(names))
        if tensor is not None and tuple(tensor.shape) != expected:
            raise ArgumentError(
                f"'{name}' must have shape {expected}, one row per id (got "
                f"{tuple(tensor.shape)}); pass the same rows"
            )
    columns: dict[str, Any] = {"id": column}
    columns["prediction"] = _names(chosen, classes, multilabel)
    if labels is not None:
        known = is_labeled(labels)
        true = labels if multilabel else labels.clamp(min=0)
        true = true == 1 if multilabel else one_hot(true, len(classes)).bool()
        columns["label"] = pc.if_else(
            pa.array(known.numpy()), _names(true, classes, multilabel), pa.scalar(None, pa.string())
        )
    if split is not None:
        columns["split"] = pa.array([word or None for word in split], pa.string())
    _add_columns(columns, "p", classes, probabilities)
    if attention is not None:
        _add_columns(columns, "scale", scales, attention)
    _write(path, columns)


def write_numbers(
    path: Path,
    ids: Any,
    names: Sequence[str],
    predicted: Tensor,
    attention: Tensor | None = None,
    scales: Sequence[int | str] = (),
    *,
    labels: Tensor | None = None,
    split: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    r"""Writes one row per id: predicted number, true number, split and attention weights.

    The columns are ``id``, ``prediction``, ``label``, ``split`` and ``scale_<m>``; of several
    targets ``prediction_<name>`` and ``label_<name>``. Predictions have twelve digits, which are
    enough for numbers that differ little, such as dates in seconds; labels are exact.

    Args:
        path (Path): A file that ends in ``.csv`` or ``.parquet``.
        ids (pyarrow.ChunkedArray or sequence): Ids of the rows.
        names (list of str): Names of the targets.
        predicted (Tensor): Predicted numbers.
        attention (Tensor, optional): Attention weights of the scales.
        scales (list of int or str, optional): Names of the scales.
        labels (Tensor, optional): True numbers; nan is an empty cell.
        split (list of str, optional): The set that each row is in.
        overwrite (bool, optional): Whether to replace an existing file. (default: :obj:`False`)

    Shapes:
        - **predicted**, **labels:** :math:`(N, T)` for :math:`N` ids and :math:`T` targets
        - **attention:** :math:`(N, M)` for :math:`M` scales
    """
    path = Path(path)
    check_target(path, overwrite)
    columns: dict[str, Any] = {
        "id": ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
    }
    for what, numbers, digits in (("prediction", predicted, 12), ("label", labels, 17)):
        for place, name in enumerate(names if numbers is not None else ()):
            values = cast(Tensor, numbers)[:, place].tolist()
            title = what if len(names) == 1 else f"{what}_{name}"
            columns[title] = pa.array(
                [None if math.isnan(one) else float(f"{one:.{digits}g}") for one in values],
                pa.float64(),
            )
    if split is not None:
        columns["split"] = pa.array([word or None for word in split], pa.string())
    if attention is not None:
        _add_columns(columns, "scale", scales, attention)
    _write(path, columns)


def _write(path: Path, columns: dict[str, Any]) -> None:
    try:
        with atomic_write(path) as file:
            if path.suffix == ".csv":
                csv.write_csv(pa.table({k: _harmless(v) for k, v in columns.items()}), file)
            else:
                parquet.write_table(pa.table(columns), file)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({os_reason(error)}); choose another place"
        ) from error


def _names(chosen: Tensor, classes: Sequence[str], multilabel: bool) -> Any:
    """Returns the names of the chosen classes, several ones separated by ``;``."""
    if not multilabel:
        best = pa.array(chosen.int().argmax(dim=1).cpu().numpy())
        return pa.array(classes, pa.string()).take(best)
    rows = chosen.tolist()
    picked = (zip(classes, row, strict=True) for row in rows)
    return pa.array([";".join(name for name, yes in row if yes) for row in picked], pa.string())


def _harmless(column: Any) -> Any:
    """Returns text with an apostrophe before what a spreadsheet would take for a formula."""
    if not isinstance(column, (pa.Array, pa.ChunkedArray)) or not is_text(column):
        return column
    formula = pc.and_(
        pc.match_substring_regex(column, FORMULA),
        pc.invert(pc.match_substring_regex(column, NUMBER)),
    )
    quoted = pc.binary_join_element_wise(pa.scalar("'"), column, pa.scalar(""))
    return pc.if_else(formula, quoted, column)


def _add_columns(
    columns: dict[str, Any], prefix: str, names: Sequence[object], values: Tensor
) -> None:
    for name, column in zip(names, values.detach().cpu().float().unbind(1), strict=True):
        columns[f"{prefix}_{name}"] = column.contiguous().numpy()
