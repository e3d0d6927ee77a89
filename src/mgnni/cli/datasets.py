"""``mgnni datasets``: the benchmarks by name."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import Any

from mgnni.cli.arguments import Command
from mgnni.data.catalog import ENTRIES, find_entry
from mgnni.data.entry import Entry
from mgnni.data.storage import data_root


@dataclass(frozen=True, kw_only=True)
class Datasets(Command):
    """List the datasets, or describe one of them.

    Without NAME: every dataset with its size, and whether it is on this machine. With NAME also
    its licence, source, options and known problems; if it is on this machine, the size found in
    its files is shown next to the expected one.

    Datasets are read from, and downloaded to, the folder in the environment variable MGNNI_DATA,
    or else ~/.cache/mgnni.

    Example: mgnni datasets chameleon
    """

    name: str = field(
        default="", metadata={"metavar": "NAME", "positional": True, "unset": "list all"}
    )
    """Name of a dataset."""

    def run(self) -> None:
        """Find out and print."""
        root = data_root()
        if self.name:
            found = measured(find_entry(self.name), root)
        else:
            found = {"folder": str(root), "datasets": [listed(e, root) for e in ENTRIES.values()]}
        if self.json:
            sys.stdout.write(dumps(found, indent=2, ensure_ascii=False) + "\n")
            return
        from mgnni.cli.terminal import show_dataset, show_datasets

        (show_dataset if self.name else show_datasets)(found)


def listed(entry: Entry, root: Path) -> dict[str, Any]:
    """Return what is known without loading anything."""
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


def measured(entry: Entry, root: Path) -> dict[str, Any]:
    """Return what is known about one dataset; it is loaded if that needs no download."""
    from mgnni.data.registry import counts, load_task, options_of

    found = {**listed(entry, root), "options": options_of(entry), "measured": None}
    if found["on_disk"]:
        task = load_task(entry.name, root=root)
        parts = [[s.train.numel(), s.val.numel(), s.test.numel()] for s in task.splits]
        notes = [note for note in task.notes if note not in entry.traps]
        found.update(measured=counts(task)._asdict(), parts=parts, notes=notes)
    return found
