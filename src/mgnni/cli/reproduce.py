"""``mgnni reproduce``: train the tables of the MGNNI paper again."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.folders import writable_folder
from mgnni.errors import MgnniError
from mgnni.files import to_json

if TYPE_CHECKING:
    from mgnni.reproduce.study import Cell


class FailedCells(MgnniError):
    """Some trainings have failed."""


@dataclass(frozen=True, kw_only=True)
class Reproduce(Command):
    """Train the tables of the paper again.

    EXPERIMENT is heterophilic, ppi or graphs (the tables of accuracies), scales, attention or
    attention-values (ablations), gamma or efficiency (times), chains, colors, colors-explicit,
    varying-gamma or lattice (synthetic studies of long ranges), generalised (our generalisation
    of MGNNI, not in the paper), or all. Every row of a table on every dataset is one training
    with all splits and several seeds. Finished ones are skipped and interrupted ones continued,
    so the command can be repeated at any time.

    The tables show the published number, ours by the rule that made it, and ours with the epoch
    chosen on validation data.

    Example: mgnni reproduce heterophilic --quick
    Example: mgnni reproduce heterophilic --model mgnni gcn --data texas
    Example: mgnni reproduce all --device cuda --jobs 4
    Example: mgnni reproduce heterophilic --table
    """

    experiments: tuple[str, ...] = field(
        default=(), metadata={"metavar": "EXPERIMENT", "positional": True, "unset": "none"}
    )
    """Which experiments, or all."""
    model: tuple[str, ...] = field(default=(), metadata={"unset": "all"})
    """Rows, by the name of their folder or of their model."""
    data: tuple[str, ...] = field(default=(), metadata={"unset": "all"})
    """Datasets."""
    seeds: tuple[int, ...] | None = field(
        default=None, metadata={"unset": "0 to 4 for MGNNI, mostly 0 and 1 for others"}
    )
    """Seeds of the initial weights and of dropout."""
    split: tuple[int, ...] | None = field(default=None, metadata={"unset": "all"})
    """Splits, to divide a long training: the other splits can be added by a later command."""
    quick: bool = False
    """Few rows, two splits, one seed and 20 epochs, in the folder quick: to see that it works."""
    table: bool = False
    """Train nothing, only show what is stored."""
    replace: bool = False
    """Train again what was made with other settings, also if it was interrupted. If only seeds or
    splits are missing and epochs are chosen on validation data, they are added without this
    option."""
    device: str = field(default="auto", metadata={"choices": ("auto", "cpu", "cuda")})
    """Where to compute; auto uses a GPU if there is one."""
    jobs: int | None = field(default=None, metadata={"unset": "one, in as many processes as help"})
    """Number of trainings at the same time, each in its own process."""
    output: Path = field(default=Path("runs/reproduce"), metadata={"metavar": "FOLDER"})
    """Folder for the reports, one folder per experiment, row and dataset."""

    def run(self) -> None:
        """Train what is missing, and show the tables."""
        from mgnni.reproduce.definitions import select, study_names

        if not self.experiments:
            raise UsageError(f"EXPERIMENT must be one of {', '.join(study_names())}, or all")
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs must be at least 1 (got {self.jobs})")
        for name, asked in (("--seeds", self.seeds), ("--split", self.split)):
            if asked is not None and (min(asked, default=-1) < 0 or len(set(asked)) < len(asked)):
                raise UsageError(
                    f"{name} must be distinct numbers, at least 0 (got "
                    f"{' '.join(map(str, asked)) or 'none'}); for example {name} 0 1 2"
                )
        cells = select(
            self.experiments,
            models=self.model,
            data=self.data,
            seeds=self.seeds,
            splits=self.split,
            quick=self.quick,
        )
        if not cells:
            raise UsageError("no row has this --model and --data; see mgnni reproduce --help")
        # Imported late because they are slow to import.
        from mgnni.cli.reproduce_output import show_studies
        from mgnni.reproduce.overview import stored_cells, summary
        from mgnni.reproduce.store import DONE

        output = self.output / "quick" if self.quick else self.output
        failed = {} if self.table else self._train(cells, output)
        found = stored_cells(cells, output)
        for cell, one in found.items():
            if one.state == DONE:
                failed.pop(str(cell), None)  # another process was training it, and is done
        if self.json:
            sys.stdout.write(to_json({"cells": summary(found), "failed": failed}))
        else:
            show_studies(found, output, quick=self.quick)
        if failed:
            names = ", ".join(f"{name} ({error})" for name, error in failed.items())
            raise FailedCells(
                f"{len(failed)} of {len(cells)} trainings failed, the others are stored; repeat "
                f"the command to try again: {names}"
            )

    def _train(self, cells: list[Cell], output: Path) -> dict[str, str]:
        """Train what is missing; return why cells failed."""
        from mgnni.cli.reproduce_output import Progress
        from mgnni.reproduce.more_runs import can_add
        from mgnni.reproduce.overview import stored_cells
        from mgnni.reproduce.run import run_cells
        from mgnni.reproduce.store import DONE, OTHER

        writable_folder(output)
        found = stored_cells(cells, output)
        kept = (DONE,) if self.replace else (DONE, OTHER)
        missing = [
            cell for cell, one in found.items() if one.state not in kept or can_add(cell, one)
        ]
        progress = Progress(found, missing, self.jobs)
        outcomes = run_cells(
            missing,
            output,
            device=self.device,
            jobs=self.jobs,
            follow=progress.follow,
            replaces=self.replace,
        )
        failed = {}
        try:
            with closing(outcomes), progress:
                for outcome in outcomes:
                    progress.show(outcome)
                    if outcome.error:
                        failed[str(outcome.cell)] = outcome.error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command to continue"
            ) from None
        return failed
