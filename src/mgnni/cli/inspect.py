"""``mgnni inspect``: what was read, before anything is trained."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from mgnni.cli.arguments import UsageError
from mgnni.cli.data import DataCommand, benchmark_options, check_data
from mgnni.cli.folders import default_folder, result_folder, write_result
from mgnni.cli.option_details import CHOICES
from mgnni.files import to_json

FILES = ("inspect.json", "inspect.png")


@dataclass(frozen=True, kw_only=True)
class Inspect(DataCommand):
    """Describe a dataset, with advice and a picture.

    DATA is anything that mgnni train accepts. Printed are rows, features by kind, classes with
    their shares, direction, degrees, isolated nodes, homophily, exact twins between training and
    test set, columns that look like ids or like the label, and advice with its reason. Test labels
    are not used. The result is also a folder with inspect.json and inspect.png.

    Example: mgnni inspect my-graph/ --label topic
    Example: mgnni inspect chameleon
    """

    renamed: ClassVar[Mapping[str, str]] = {"options": "--option"}

    data: str = field(metadata={"metavar": "DATA", "positional": True})
    """Benchmark, folder or file."""
    split: int = 0
    """Split whose training and validation labels are used."""
    metric: str | None = field(
        default=None, metadata={"choices": CHOICES["metric"], "unset": "that of the task"}
    )
    """Metric that you are going to train with, for the advice."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, see mgnni datasets NAME."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/inspect-DATA"}
    )
    """Folder for inspect.json and inspect.png; those of an earlier inspection are replaced."""

    def run(self) -> None:
        """Read, describe, print and save."""
        check_data(self.data)
        options = benchmark_options(self.option)
        output = self.output or default_folder(f"inspect-{Path(self.data).resolve().name}")
        # Imported late because they are slow to import.
        from mgnni.cli.inspect_output import show_description
        from mgnni.data.inspection.advice import advise
        from mgnni.data.inspection.description import describe_task
        from mgnni.data.inspection.figure import draw_description
        from mgnni.train.source import find_source

        source = find_source(self.data, options=options, tables=self.tables, metric=self.metric)
        splits = len(source.task.splits)
        if not 0 <= self.split < splits:
            allowed = f"lie between 0 and {splits - 1}" if splits > 1 else "be 0"
            raise UsageError(f"--split must {allowed} (got {self.split})")
        found = describe_task(source.task, source.schema, self.split)
        found["advice"] = [one._asdict() for one in advise(found)]
        with result_folder(output):
            text = to_json(found)
            saved = write_result(output, FILES, text, partial(draw_description, found))
        if self.json:
            sys.stdout.write(text)
            return
        show_description(found)
        sys.stdout.write(saved)
