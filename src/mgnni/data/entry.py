"""What is known about a dataset before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Counts(NamedTuple):
    """How large a dataset is: over all graphs, and with one edge for each direction.

    ``None`` stands for a number that is not known. With several labels a node, ``classes`` is
    the number of labels.
    """

    graphs: int | None
    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None
    splits: int | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset: what it should hold, where it comes from, and what to beware of.

    Attributes:
        name: what to ask for.
        family: which loader it has.
        key: its name in the files it comes in.
        level: ``"node"`` or ``"graph"``: what has a label.
        counts: the published ones, of the task as it is loaded without options.
        metric: the one that counts.
        licence: of the data.
        source: who publishes it.
        traps: what a reader of any number on it should know.
        place: its folder or file, below the folder of all datasets; empty if it is made in code.
        copies: files below that folder; any one of these sets of files is a copy.
        remedy: how to get a dataset that has no download; empty if it has one.
    """

    name: str
    family: str
    key: str
    level: str = "node"
    counts: Counts
    metric: str = "accuracy"
    licence: str
    source: str
    traps: tuple[str, ...] = ()
    place: str = ""
    copies: tuple[tuple[str, ...], ...] = ()
    remedy: str = ""

    def on_disk(self, root: Path) -> bool:
        """Tell whether it can be loaded without a download."""
        if not self.place:
            return True
        return any(all((root / file).is_file() for file in files) for files in self.copies)
