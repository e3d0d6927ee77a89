r"""Computes the terms :math:`T_k(P) X` of a stored graph, in blocks of rows and columns.

A few columns of one term are in memory, everything else is read and written in blocks of rows.
Progress is written after the files that it describes, so that an interrupted computation goes on
where it was, and the files are the same as without interruption.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgnni.disk.matrix_file import read_rows, write_rows
from mgnni.disk.operator_check import check_operator
from mgnni.disk.progress import Progress, SavedProgress
from mgnni.disk.stored_graph import StoredGraph, blocks
from mgnni.errors import ArgumentError, DataError, check_choice
from mgnni.files import read_object, write_object
from mgnni.solve.expansion import recurrence
from mgnni.solve.rounding import LONG_SUM
from mgnni.solve.stored_terms import StoredTerms

FORMAT = 1
NAME, PROGRESS = "sweep.json", "progress.json"
STORAGES = {"float32": np.float32, "float16": np.float16}
SAVE_EVERY = 5.0  # seconds between saves of the progress
BUDGET = 2.0  # GiB for the columns of one term
UNIT = torch.finfo(torch.float32).eps / 2
ROWS = 2**18  # rows that are copied at a time
GROWTH = 1e-3  # of a term over the features, by rounding

OnTerm = Callable[[int, int, float], None]


class Precompute:
    """A computation in a folder; see :func:`precompute`."""

    def __init__(
        self, graph: StoredGraph, folder: Path, settings: dict[str, Any], budget: float
    ) -> None:
        self.graph, self.folder, self.settings = graph, folder, settings
        self.terms = StoredTerms.needed(
            tuple(settings["scales"]), settings["gamma"], settings["tol"], graph.symmetric
        )
        self.kept = {k: place for place, k in enumerate(self.terms.index)}
        self.last = self.terms.index[-1]
        self.storage = np.dtype(STORAGES[settings["storage"]])
        self.width = graph.features + int(settings["constant"])
        per_column = 4 * graph.num_nodes
        self.columns = max(1, min(self.width, int(budget * 2**30 / per_column)))
        self.progress = Progress()
        described = {"settings": settings, "graph": _described(graph), "columns": self.columns}
        self.saved = SavedProgress(folder / PROGRESS, described)
        self.unit = self._column_units()

    def path(self, k: int) -> Path:
        """Return the file of a stored term."""
        return self.folder / f"term-{k:04d}.npy"

    def working(self, k: int) -> Path:
        """Return the float32 file of a term, which the next terms read."""
        own = self.storage == np.float32 and k in self.kept
        return self.path(k) if own else self.folder / f"work-{k % 3}.npy"

    def _column_units(self) -> NDArray[np.float32]:
        """Powers of two by which columns are divided before they are rounded to float16."""
        largest = np.zeros(self.graph.features, dtype=np.float32)
        x = self.graph.array("x")
        for start, stop in blocks(self.graph.num_nodes, ROWS):
            largest = np.maximum(largest, np.abs(x[start:stop]).max(0))
        if not np.isfinite(largest).all():
            raise DataError(
                f"{self.graph.folder}: features must be finite (got nan or inf); impute them"
            )
        largest = np.append(largest, np.float32(1))[: self.width]
        return np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1)))).astype(np.float32)

    def run(self, on_term: OnTerm) -> None:
        """Compute what is missing."""
        self.progress = self.saved.load()
        if not (self.progress.term or self.progress.row or self.progress.column):
            check_operator(self.graph)
        self.saved.save(self.progress)  # from now on, the folder is known to be unfinished
        saved = time.monotonic()
        rows = self.graph.rows_per_block()
        while self.progress.term <= self.last:
            now = self.progress
            k = now.term
            self._make_files(k)
            for first in range(now.column, self.width, self.columns):
                part = slice(first, min(first + self.columns, self.width))
                source = self._load(k - 1, part) if k else None
                for start, stop in blocks(self.graph.num_nodes, rows, now.row):
                    sums = self._compute(k, part, source, start, stop)
                    now.sums = [a + b for a, b in zip(now.sums, sums, strict=True)]
                    now.column, now.row = first, stop
                    done = (first + (part.stop - first) * stop / self.graph.num_nodes) / self.width
                    on_term(k, self.last, done)
                    if time.monotonic() - saved > SAVE_EVERY:
                        self._save()
                        saved = time.monotonic()
                now.column, now.row = part.stop, 0
            self._end_term(k)
        self._finish()

    def _make_files(self, k: int) -> None:
        """Create the files of a term, unless they are there from before an interruption."""
        shape = (self.graph.num_nodes, self.width)
        wanted = [(self.working(k), np.dtype(np.float32))]
        if k in self.kept:
            wanted.append((self.path(k), self.storage))
        for path, dtype in wanted:
            if self.progress.row or self.progress.column:
                continue
            made = np.lib.format.open_memmap(path, "w+", dtype, shape)
            del made

    def _load(self, k: int, part: slice) -> Tensor:
        """Return some columns of a term, and the norms of their rows as one more column."""
        found = torch.empty(self.graph.num_nodes, part.stop - part.start + 1)
        for start, stop in blocks(len(found), ROWS):
            rows = torch.from_numpy(read_rows(self.working(k), start, stop, part))
            found[start:stop, :-1] = rows
            found[start:stop, -1] = torch.linalg.vector_norm(rows, dim=1)
        return found

    def _compute(
        self, k: int, part: slice, source: Tensor | None, start: int, stop: int
    ) -> list[float]:
        """Compute a block of a term; return the squares of its defect, rounding and norm."""
        defect = torch.zeros(stop - start, dtype=torch.float64)
        if source is None:
            x = self.graph.array("x")[start:stop]
            wide = np.concatenate([x, np.ones((stop - start, 1), np.float32)], 1)
            new = torch.from_numpy(wide[:, part].astype(np.float32))
        else:
            factor, beta = recurrence(k, self.graph.symmetric, 1.0)
            matrix, lengths = self.graph.block(start, stop)
            product = (matrix @ source).mul_(factor)
            new, sums = product[:, :-1], product[:, -1].double()
            count = lengths.double()
            units = torch.where(lengths > LONG_SUM, count, count.sqrt()) + 3
            # Entries are not negative, so this bounds the rounding of every row.
            defect = UNIT * (units * sums + 4 * torch.linalg.vector_norm(new, dim=1).double())
            if beta:
                before = torch.from_numpy(read_rows(self.working(k - 2), start, stop, part))
                defect += 2 * UNIT * torch.linalg.vector_norm(before, dim=1).double()
                new.add_(before, alpha=beta)
        rounding = norm = 0.0
        write_rows(self.working(k), start, part, new.numpy())
        if k in self.kept:
            norm = _square(new)
        if k in self.kept and self.storage != np.float32:
            unit = torch.from_numpy(self.unit[part])
            stored = (new / unit).half()
            rounding = _square(new.sub_(stored.float().mul_(unit)))
            if not math.isfinite(rounding):
                raise ArgumentError(
                    f"'storage' must not be 'float16' for these features (got term {k}, which "
                    "exceeds the range of float16 at some node); use 'float32'"
                )
            write_rows(self.path(k), start, part, stored.numpy())
        return [float(defect.square().sum()), rounding, norm]

    def _end_term(self, k: int) -> None:
        now = self.progress
        defect, rounding, norm = (math.sqrt(one) for one in now.sums)
        now.defects.append(defect)
        if k in self.kept:
            now.roundings.append(rounding)
            now.norms.append(norm)
            if norm > now.norms[0] * (1 + GROWTH):  # of polynomials that are at most one
                raise DataError(
                    f"{self.graph.folder}: must hold an operator of norm at most one (got one that "
                    f"makes term {k} larger than the features); normalise it as '"
                    f"{self.graph.normalization}', and remove {self.folder}"
                )
        now.term, now.column, now.row, now.sums = k + 1, 0, 0, [0.0, 0.0, 0.0]
        self._save(k)

    def _save(self, k: int | None = None) -> None:
        """Flush the files of the current term, then write the progress."""
        term = self.progress.term if k is None else k
        for path in {self.working(term), self.path(term)}:
            if path.exists():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        self.saved.save(self.progress)

    def _finish(self) -> None:
        now, terms = self.progress, asdict(self.terms)
        terms |= {"defects": now.defects, "roundings": now.roundings, "norms": now.norms}
        content = {
            "format": FORMAT,
            "graph": _described(self.graph),
            "settings": self.settings,
            "terms": terms,
            "unit": [float(one) for one in self.unit],
            "gram": self._gram().tolist(),
        }
        write_object(self.folder / NAME, content, compact=True)
        for number in range(3):
            (self.folder / f"work-{number}.npy").unlink(missing_ok=True)
        (self.folder / PROGRESS).unlink(missing_ok=True)

    def _gram(self) -> Tensor:
        """Return the products of all pairs of columns, from which the norm of a bias follows."""
        total = torch.zeros(self.width, self.width, dtype=torch.float64)
        x = self.graph.array("x")
        for start, stop in blocks(self.graph.num_nodes, ROWS):
            wide = torch.ones(stop - start, self.width, dtype=torch.float64)
            wide[:, : self.graph.features] = torch.from_numpy(np.array(x[start:stop]))
            total += wide.mT @ wide
        return total


def _described(graph: StoredGraph) -> dict[str, Any]:
    found = {**asdict(graph), "folder": str(graph.folder.resolve())}
    del found["class_names"]  # they do not change the terms
    return found


def _square(x: Tensor) -> float:
    """Return the square of the Frobenius norm; only the sum over rows needs float64."""
    return float(torch.linalg.vector_norm(x, dim=1).double().square().sum())


def precompute(
    graph: StoredGraph,
    folder: Path,
    *,
    scales: tuple[int, ...] = (1, 2),
    gamma: float = 0.8,
    tol: float = 1e-3,
    storage: str = "float32",
    constant: bool = True,
    budget: float = BUDGET,
    on_term: OnTerm | None = None,
) -> Path:
    r"""Computes and stores the terms from which equilibria of some rows can be evaluated.

    Args:
        graph (StoredGraph): The graph.
        folder (Path): Folder for the terms. An interrupted computation in it goes on.
        scales (tuple[int, ...], optional): The scales of the models. (default: :obj:`(1, 2)`)
        gamma (float, optional): The largest factor :math:`\gamma` of the models.
            (default: :obj:`0.8`)
        tol (float, optional): Residual, relative to the bias, that the terms shall suffice for.
            (default: :obj:`1e-3`)
        storage (str, optional): ``"float32"`` or ``"float16"``, of half the size.
            (default: :obj:`"float32"`)
        constant (bool, optional): Whether a column of ones is added to the features, so that the
            bias may be any affine function of them. (default: :obj:`True`)
        budget (float, optional): GiB for the columns of a term that are in memory at a time.
            (default: :obj:`2.0`)
        on_term (Callable, optional): Called with the term in progress, the last one, and the
            fraction of it that is done. (default: :obj:`None`)

    Returns:
        Path: The folder.
    """
    check_choice("storage", storage, STORAGES)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "scales": list(scales),
        "gamma": gamma,
        "tol": tol,
        "storage": storage,
        "constant": constant,
    }
    if (folder / NAME).exists():
        found = read_object(folder / NAME, "remove the folder and compute it again")
        if found.get("settings") != settings or found.get("graph") != _described(graph):
            raise ArgumentError(
                f"{folder} must be empty, or hold terms for the same graph and options (got terms "
                f"for {found.get('settings')}); choose another folder"
            )
        return folder
    with torch.no_grad():
        Precompute(graph, folder, settings, budget).run(on_term or (lambda k, last, part: None))
    return folder
