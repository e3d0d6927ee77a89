"""Progress of a computation in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mgnni.errors import ArgumentError
from mgnni.files import read_object, write_object


@dataclass
class Progress:
    """A place in the computation of all terms; numbers survive a round trip through JSON exactly.

    Args:
        term (int, optional): The term in progress. (default: :obj:`0`)
        column (int, optional): Its first column in progress. (default: :obj:`0`)
        row (int, optional): The next row of these columns. (default: :obj:`0`)
        sums (list[float], optional): Squares of defect, rounding and norm of this term so far.
        defects (list[float], optional): Of finished terms, as the next two.
        roundings (list[float], optional): See :class:`mgnni.solve.stored_terms.StoredTerms`.
        norms (list[float], optional): See there.
    """

    term: int = 0
    column: int = 0
    row: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    defects: list[float] = field(default_factory=list)
    roundings: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class SavedProgress:
    """The file with the progress of a computation.

    Args:
        path (Path): The file.
        described (dict[str, Any]): What the computation depends on, as plain data.
    """

    path: Path
    described: dict[str, Any]

    def load(self) -> Progress:
        """Return the saved progress, or the beginning if there is none."""
        if not self.path.exists():
            return Progress()
        data = read_object(self.path, "remove its folder and compute it again")
        before = {key: data.get(key) for key in self.described}
        if before != self.described:
            raise ArgumentError(
                f"{self.path.parent} must be continued with the graph, options and memory that it "
                f"was begun with, {before} (got {self.described}); use them, or another folder"
            )
        return Progress(**data["progress"])

    def save(self, progress: Progress) -> None:
        """Write the progress; the files that it describes must have been written before."""
        write_object(self.path, {**self.described, "progress": asdict(progress)})
