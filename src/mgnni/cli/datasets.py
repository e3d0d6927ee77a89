"""``mgnni datasets``: which tasks have a name, how large they are, and what to beware of."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mgnni.cli.errors import UsageError
from mgnni.data.catalog import ENTRIES, find_entry
from mgnni.data.entry import Entry
from mgnni.data.storage import data_root
from mgnni.errors import ArgumentError

if TYPE_CHECKING:
    Name = str
else:
    try:
        from tyro.conf import Positional, arg

        Name = Annotated[Positional[str], arg(metavar="[NAME]")]
    except ImportError:  # `main` says so, when a command is called
        Name = str


@dataclass(frozen=True)
class Datasets:
    """List the datasets, or tell all about one.

    Without a name: every dataset with its size, and whether it is on this machine. With a name
    also its licence, its source, its options and its known traps; and if it is on this machine,
    the size it has when it is loaded beside the one it should have.

    Datasets are looked for in, and downloaded to, the folder that the environment variable
    MGNNI_DATA names; without it, mgnni in your cache.

    Example: mgnni datasets chameleon
    """

    name: Name = ""
    """Which one; all are listed if it is left out."""
    json: bool = False
    """Print everything as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Look, and show."""
        root = data_root()
        if self.name:
            try:
                found = inspected(find_entry(self.name), root)
            except ArgumentError as error:
                raise UsageError(str(error)) from error
        else:
            found = {"folder": str(root), "datasets": [known(e, root) for e in ENTRIES.values()]}
        if self.json:
            sys.stdout.write(dumps(found, indent=2, ensure_ascii=False) + "\n")
            return
        from mgnni.cli.dataset_screen import show_all, show_one

        (show_one if self.name else show_all)(found)


def known(entry: Entry, root: Path) -> dict[str, Any]:
    """What can be said without loading anything."""
    return {
        "name": entry.name,
        "family": entry.family,
        "level": entry.level,
        "metric": entry.metric,
        "expected": entry.counts._asdict(),
        "licence": entry.licence,
        "source": entry.source,
        "traps": list(entry.traps),
        "made_in_code": not entry.place,
        "on_disk": entry.on_disk(root),
        "place": str(root / entry.place) if entry.place else None,
        "remedy": entry.remedy or None,
    }


def inspected(entry: Entry, root: Path) -> dict[str, Any]:
    """What can be said about one dataset, after loading it if that needs no download."""
    from mgnni.data.registry import counts, load_task, options_of

    found = {**known(entry, root), "options": options_of(entry), "measured": None}
    if found["on_disk"]:
        task = load_task(entry.name, root=root)
        parts = [[s.train.numel(), s.val.numel(), s.test.numel()] for s in task.splits]
        notes = [note for note in task.notes if note not in entry.traps]
        found.update(measured=counts(task)._asdict(), parts=parts, notes=notes)
    return found
