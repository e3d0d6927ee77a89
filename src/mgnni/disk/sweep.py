"""Stored terms of a graph, read by rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgnni.disk.matrix_file import gather_rows
from mgnni.disk.precompute import FORMAT, NAME, PROGRESS
from mgnni.disk.stored_graph import NAME as GRAPH
from mgnni.disk.stored_graph import StoredGraph
from mgnni.errors import DataError
from mgnni.files import read_object
from mgnni.solve.stored_terms import StoredTerms


@dataclass(frozen=True, eq=False)
class Sweep:
    """The stored terms of a graph; make one with :meth:`open`.

    Args:
        folder (Path): Their folder.
        graph (StoredGraph): The graph.
        terms (StoredTerms): What is known about them.
        constant (bool): Whether a column of ones was added to the features.
        unit (Tensor): What the columns were divided by.
        gram (Tensor): Products of all pairs of columns of the features.

    Shapes:
        - **unit:** ``(columns,)``
        - **gram:** ``(columns, columns)``, float64
    """

    folder: Path
    graph: StoredGraph
    terms: StoredTerms
    constant: bool
    unit: Tensor
    gram: Tensor

    @classmethod
    def open(cls, folder: Path) -> Sweep:
        """Open the output folder of :func:`mgnni.disk.precompute.precompute`."""
        if not (folder / NAME).exists() and (folder / PROGRESS).exists():
            raise DataError(
                f"{folder}: must hold all terms (got an interrupted computation); repeat "
                "mgnni precompute with the same options to go on"
            )
        data = read_object(folder / NAME, "give the output folder of mgnni precompute")
        try:
            if data["format"] != FORMAT:
                raise ValueError("format")
            known = {one.name for one in fields(StoredTerms)}
            terms = StoredTerms(**{k: _tuple(v) for k, v in data["terms"].items() if k in known})
            place, constant = data["graph"]["folder"], data["settings"]["constant"]
            unit, gram = torch.tensor(data["unit"]), torch.tensor(data["gram"]).double()
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{folder / NAME}: must describe stored terms of format {FORMAT} (got other "
                "fields); compute them again"
            ) from error
        inside = folder / "graph"  # where mgnni precompute writes it, also after both were moved
        place = inside if (inside / GRAPH).exists() else Path(place)
        scaled = data["settings"]["storage"] != "float32"
        unit = unit if scaled else torch.ones_like(unit)
        return cls(folder, StoredGraph.open(place), terms, constant, unit, gram)

    def rows(self, nodes: NDArray[np.int64]) -> Tensor:
        """Return the terms of some nodes, in float32.

        Args:
            nodes (NDArray): The nodes; reading is fastest if they are sorted.

        Shapes:
            - **nodes:** ``(rows,)``
            - **output:** ``(rows, terms, columns)``
        """
        out = torch.empty(len(nodes), len(self.terms.index), len(self.unit))
        for place, k in enumerate(self.terms.index):
            found = gather_rows(self.folder / f"term-{k:04d}.npy", nodes)
            out[:, place] = torch.from_numpy(found)  # torch converts float16 faster
        return out.mul_(self.unit)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
