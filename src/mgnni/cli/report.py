"""``mgnni report``: trainings as one HTML file."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path

from mgnni.cli.arguments import Command, UsageError


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Write a report on trainings as one HTML file.

    RUNS are output folders of mgnni train, or folders that hold such folders or stored results.
    The file has all scores, learning curves, confusion matrices, attention over scales, certified
    errors, times, and the command of each training. It needs no network and no server.

    Example: mgnni report runs/texas
    Example: mgnni report runs --output all.html --open
    """

    runs: tuple[Path, ...] = field(
        default=(), metadata={"metavar": "RUNS", "positional": True, "unset": ""}
    )
    """Folders of trainings."""
    output: Path = field(default=Path("report.html"), metadata={"metavar": "FILE"})
    """File to write; an earlier report there is replaced."""
    open: bool = False
    """Show the report in the web browser."""

    def run(self) -> None:
        """Read the trainings, write the file and print its path."""
        if not self.runs:
            raise UsageError(
                "RUNS must be at least one folder (got none), for example: mgnni report runs/texas"
            )
        from mgnni.html_report.page import check_target, write_page  # slow to import

        check_target(self.output)
        count = write_page(self.runs, self.output)
        if self.json:
            summary = {"command": "report", "output": str(self.output), "trainings": count}
            sys.stdout.write(dumps(summary, indent=2, ensure_ascii=False) + "\n")
        else:
            text = f"Saved a report on {count} training{'s' * (count > 1)}: {self.output}\n"
            sys.stdout.write(text)
        if self.open:
            import webbrowser

            if not webbrowser.open(self.output.resolve().as_uri()):
                sys.stderr.write("mgnni report: note: no web browser found; open the file in one\n")
