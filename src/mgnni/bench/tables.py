"""The tables by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mgnni.bench import epoch, large, ppi, scaling, small, solve
from mgnni.bench.row import Row
from mgnni.bench.settings import Settings


@dataclass(frozen=True)
class Table:
    """What is measured, how to call it, and where it can be.

    Attributes:
        title: one line.
        rows: measures, row after row.
        cuda_only: whether it is too large for anything else, unless it is to be quick.
    """

    title: str
    rows: Callable[[Settings], Iterator[Row]]
    cuda_only: bool = False


TABLES: dict[str, Table] = {
    "epoch": Table("One epoch of training and validation", epoch.rows),
    "ppi": Table("Graphs shaped as PPI's: an epoch, and the solves of one step", ppi.rows),
    "small": Table("A training step on 128 graphs of 18 nodes", small.rows),
    "solve": Table("Solving forward and backward, to 1e-6 and gradients to 1e-5", solve.rows),
    "scaling": Table("Cost against edges, width, contraction and scales", scaling.rows),
    "large": Table("A large graph, forward and backward, to 1e-5", large.rows, cuda_only=True),
}
