"""``mgnni bench``: speed comparisons whose results are checked."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.folders import writable_folder
from mgnni.errors import MgnniError, closest
from mgnni.files import atomic_write, to_json

if TYPE_CHECKING:
    from mgnni.bench.results import Row

NAMES = ("epoch", "ppi", "small", "solve", "scaling", "large")


class WrongResult(MgnniError):
    """A result is less accurate than the method claims."""


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Compare the speed with that of other methods.

    Every time is shown with the measured error of the result, against a float64 solve of the same
    equations. A result that is less accurate than it claims, or than the textbook loop it is
    compared with, is printed as wrong, without a time, and the command fails.

    Tables: epoch (training epochs on Squirrel, Chameleon and Cornell), ppi (graphs of the size of
    PPI), small (a batch of molecules), solve (every solver at the same error), scaling (against
    edges, width, contraction and scales), large (124 million edges; on CUDA only). Benchmarks
    that are not on this machine are replaced by random graphs of the same size.

    Example: mgnni bench epoch solve
    Example: mgnni bench --device cuda --output results
    """

    tables: tuple[str, ...] = field(
        default=(),
        metadata={"metavar": "TABLE", "positional": True, "unset": "all that can be run here"},
    )
    """Which tables."""
    device: str = field(default="auto", metadata={"choices": ("auto", "cpu", "cuda")})
    """Where to compute."""
    quick: bool = False
    """Use small sizes and few repeats: to check that it works, not how fast it is."""
    output: Path = field(
        default=Path("runs/bench"), metadata={"metavar": "FOLDER", "names": ("--output", "--out")}
    )
    """Folder for one JSON file per table, and the figures."""

    def run(self) -> None:
        """Measure, print, store and draw every table."""
        for name in self.tables:
            if name not in NAMES:
                near = closest(name, NAMES)
                hint = f"; did you mean {near}?" if near else ""
                raise UsageError(f"TABLE must be one of {', '.join(NAMES)} (got {name!r}){hint}")
        if len(set(self.tables)) < len(self.tables):
            raise UsageError(f"TABLE must not be repeated (got {' '.join(self.tables)})")
        # Imported late because they are slow to import.
        from mgnni.bench.results import Settings, stored
        from mgnni.bench.tables import TABLES
        from mgnni.cli.bench_output import show_benchmark
        from mgnni.train.device import make_fabric

        device = make_fabric(self.device, "32").device
        settings = Settings(device, self.quick)
        names = self.tables or NAMES
        fits = self.quick or device.type == "cuda"
        too_large = [name for name in names if TABLES[name].cuda_only and not fits]
        if too_large and self.tables:
            raise UsageError(
                f"{too_large[0]} needs a GPU (got {device.type}); use --device cuda or --quick"
            )
        folder = writable_folder(self.output)
        found: list[dict[str, Any]] = []
        files: list[Path] = []
        for name in (name for name in names if name not in too_large):
            rows = list(_follow(name, TABLES[name].rows(settings), quiet=self.json))
            found.append(stored(name, TABLES[name].title, rows, settings))
            files += _save(folder, found[-1], to_json(found[-1]))
            if not self.json:
                show_benchmark(found[-1])
        if self.json:
            sys.stdout.write(to_json({"tables": found}))
        else:
            if not _can_draw():
                sys.stdout.write("No figures without matplotlib; run: pip install matplotlib\n")
            if too_large:
                sys.stdout.write(f"Skipped, too large for a CPU: {', '.join(too_large)}.\n")
            sys.stdout.write(f"Saved {', '.join(map(str, files))}.\n")
        _check([row for table in found for row in table["rows"] if row["verdict"] == "wrong"])


def _check(wrong: list[dict[str, Any]]) -> None:
    if not wrong:
        return
    first = wrong[0]
    errors, claim = first["errors"], first["claim"]
    raise WrongResult(
        f"{len(wrong)} wrong, first {first['method']} on {first['case']}: errors "
        f"{errors['forward']:.1e} forward and {errors['gradient']:.1e} in gradients, allowed are "
        f"{claim['forward']:.1e} and {claim['gradient']:.1e}; its time is not shown"
    )


def _follow(name: str, rows: Iterable[Row], *, quiet: bool) -> Iterator[Row]:
    """Yield the rows and print each new case to standard error."""
    start, case = time.perf_counter(), None
    for row in rows:
        if row.case != case and not quiet:
            case = row.case
            sys.stderr.write(f"{name}: {case} ({time.perf_counter() - start:.0f} s)\n")
        yield row


def _save(folder: Path, table: dict[str, Any], text: str) -> list[Path]:
    """Write a table as JSON, and its figure if there is one."""
    from mgnni.cli.bench_output import FIGURES

    kind = "cpu" if table["device"].startswith("cpu") else "cuda"
    path = folder / f"{table['table']}-{kind}.json"
    with atomic_write(path) as file:
        file.write(text.encode())
    if table["table"] not in FIGURES or not _can_draw():
        return [path]
    picture = path.with_suffix(".png")
    with atomic_write(picture) as file:
        FIGURES[table["table"]](table, file)
    return [path, picture]


def _can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None
