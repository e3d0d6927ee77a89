"""``mgnni bench``: how fast, side by side, and only where the result is right."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mgnni.cli.errors import UsageError
from mgnni.cli.files import writable_folder
from mgnni.errors import MgnniError
from mgnni.files import atomic_write

if TYPE_CHECKING:
    Names = tuple[str, ...]
    Folder = Path
else:
    try:
        from tyro.conf import Positional, arg

        Names = Annotated[
            Positional[tuple[str, ...]],
            arg(metavar="[TABLE ...]", help_behavior_hint="(default: all that can be run here)"),
        ]
        Folder = Annotated[Path, arg(aliases=["--out"])]
    except ImportError:  # `main` says so, when a command is called
        Names, Folder = tuple[str, ...], Path

NAMES = ("epoch", "ppi", "small", "solve", "scaling", "large")
DRAWN = ("epoch", "scaling")


class WrongResult(MgnniError):
    """A method claimed an error that it did not keep."""


@dataclass(frozen=True)
class Bench:
    """Time the library against others, side by side.

    Every time stands beside the measured error of what it computed, against a float64 solve of
    the same equations. A result that is less exact than it claims, or than that of the textbook
    loop it is compared with, is printed as wrong, without a time, and the command fails.

    Tables: epoch (a whole epoch on Squirrel, Chameleon, Cornell), ppi (graphs shaped as PPI's),
    small (a batch of molecules), solve (every solver, to the same error), scaling (against edges,
    width, contraction and scales), large (124 million edges; on CUDA only). Without a name: all
    that can be run here. Benchmarks that are not on this machine are replaced by graphs of their
    size.

    Example: mgnni bench epoch solve
    Example: mgnni bench --device cuda --output results
    """

    tables: Names = ()
    """Which tables."""
    device: str = "auto"
    """Where to compute: auto, cpu or cuda."""
    quick: bool = False
    """Small sizes and few repeats: whether it works, not how fast it is."""
    output: Folder = Path("runs/bench")
    """Folder for one JSON a table, and the pictures."""
    json: bool = False
    """Print all tables as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        """Refuse what cannot work before any work is done."""
        for name in self.tables:
            if name not in NAMES:
                near = difflib.get_close_matches(name, NAMES, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise UsageError(f"TABLE must be one of {', '.join(NAMES)} (got {name!r}){hint}")
        if len(set(self.tables)) < len(self.tables):
            raise UsageError("TABLE must be given once each (got one twice)")

    def run(self) -> None:
        """Measure, show, store, draw."""
        self.check()
        # Slow to import, and not needed to say what the options are or that one is wrong.
        from mgnni.bench.row import WRONG
        from mgnni.bench.settings import Settings
        from mgnni.bench.store import stored
        from mgnni.bench.tables import TABLES
        from mgnni.cli.bench_screen import following, show_end, show_table
        from mgnni.train.device import make_fabric
        from mgnni.train.report import to_json

        device = make_fabric(self.device, "32").device
        settings = Settings(device, self.quick)
        names = self.tables or tuple(NAMES)
        too_large = [n for n in names if TABLES[n].cuda_only and not _fits(device.type, self.quick)]
        if too_large and self.tables:
            raise UsageError(
                f"{too_large[0]} needs a GPU (got {device.type}); use --device cuda, or --quick"
            )
        folder = writable_folder(self.output)
        found: list[dict[str, Any]] = []
        files: list[Path] = []
        for name in (name for name in names if name not in too_large):
            rows = list(following(name, TABLES[name].rows(settings), quiet=self.json))
            table = stored(name, rows, settings)
            found.append(table)
            files += _save(folder, table, to_json(table))
            if not self.json:
                show_table(table)
        if self.json:
            sys.stdout.write(to_json({"tables": found}))
        else:
            show_end(files, too_large, pictures=_can_draw())
        wrong = [row for table in found for row in table["rows"] if row["verdict"] == WRONG]
        if wrong:
            first = wrong[0]
            errors, claim = first["errors"], first["claim"]
            raise WrongResult(
                f"{len(wrong)} wrong, first {first['method']} on {first['case']}: errors "
                f"{errors['forward']:.1e} forward and {errors['gradient']:.1e} in gradients, where "
                f"{claim['forward']:.1e} and {claim['gradient']:.1e} are the most; its time is not "
                "shown"
            )


def _fits(device: str, quick: bool) -> bool:
    return quick or device == "cuda"


def _save(folder: Path, table: dict[str, Any], text: str) -> list[Path]:
    """Store a table, and draw it where there is a picture of it."""
    kind = "cpu" if table["device"].startswith("cpu") else "cuda"
    path = folder / f"{table['table']}-{kind}.json"
    with atomic_write(path) as file:
        file.write(text.encode())
    if table["table"] not in DRAWN or not _can_draw():
        return [path]
    from mgnni.cli.bench_figure import FIGURES

    picture = path.with_suffix(".png")
    with atomic_write(picture) as file:
        FIGURES[table["table"]](table, file)
    return [path, picture]


def _can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None
