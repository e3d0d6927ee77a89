"""``mgnni train``: from a benchmark's name or a graph in files to a model and an honest number."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mgnni.cli.errors import UsageError
from mgnni.cli.files import writable_folder
from mgnni.data.catalog import ENTRIES
from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.tables.options import TableOptions
from mgnni.train.config import Config, ModelConfig
from mgnni.train.presets import preset_for

if TYPE_CHECKING:
    DataName = str
    FlatConfig = Config
    FlatTables = TableOptions
else:
    try:
        from tyro.conf import OmitArgPrefixes, Positional, arg

        DataName = Annotated[Positional[str], arg(metavar="DATA")]
        FlatConfig, FlatTables = OmitArgPrefixes[Config], OmitArgPrefixes[TableOptions]
    except ImportError:  # `main` says so, when a command is called
        DataName, FlatConfig, FlatTables = str, Config, TableOptions


@dataclass(frozen=True)
class Train:
    """Train a model on a benchmark, or on a graph of your own.

    DATA is the name of a benchmark (see mgnni datasets), a folder with nodes.csv and edges.csv
    (and graphs.csv to classify whole graphs), or a .npz or .pt file. Trains on every split and
    seed, shows the test score by a stated rule, and keeps model, log and report in a folder.
    The defaults below are those of the benchmark: mgnni train texas --help.

    Example: mgnni train texas --split all

    Example: mgnni train my-graph/ --label topic --scales 1 2 4 --output runs/topics
    """

    data: DataName
    """Benchmark, folder or file."""
    split: tuple[str, ...] = ("all",)
    """Which splits: numbers from 0, or all."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights and dropout; every split is trained with each of them."""
    rule: str = DEFAULT_RULE
    """Which epoch counts: validation; by name also gin, fold-max, test-max (see docs)."""
    metric: str | None = None
    """The metric that counts; none: the usual one of the task."""
    num_splits: int = 1
    """Splits to draw if the data have none: stratified, 60/20/20."""
    option: tuple[str, ...] = ()
    """Options of the benchmark, as NAME=VALUE; mgnni datasets NAME lists them."""
    preset: str = "paper"
    """paper, or authors: the released code, where it differs from the text."""
    config: FlatConfig = field(default_factory=Config)
    columns: FlatTables = field(default_factory=TableOptions)
    output: Path | None = None
    """Folder for model, log and report; none: runs/DATA."""
    resume: bool = False
    """Go on with the training in that folder, if there is one."""
    one_by_one: bool = False
    """Train the runs on one graph one after another; the results are the same, only slower."""
    device: str = "auto"
    """auto, cpu, cuda, or mps."""
    deterministic: bool = False
    """The same bits every time, together or one by one; one thread on a CPU."""
    checkpoint_every: float = 10.0
    """Seconds between checkpoints, at least."""
    json: bool = False
    """Print the report as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    @classmethod
    def default(cls, args: Sequence[str]) -> Train:
        """The command without options, as the preset of its data has it."""
        found = [arg for arg in args if not arg.startswith("-") and _benchmark(arg)]
        data = found[0] if found else ""
        preset = "paper"
        for arg, following in zip(args, [*args[1:], ""], strict=False):
            if arg == "--preset":
                preset = following
            elif arg.startswith("--preset="):
                preset = arg.removeprefix("--preset=")
        if preset not in ("paper", "authors"):
            raise UsageError(f"--preset must be paper or authors (got {preset!r})")
        import tyro

        return cls(
            data=tyro.MISSING,  # has no default
            config=preset_for(_benchmark(data) or data, "node", preset),
            preset=preset,
        )

    def run(self) -> None:
        """Train, show and keep."""
        options = benchmark_options(self.option)
        self._check()
        # Slow to import, and not needed to say what the options are or that one is wrong.
        from mgnni.cli.train_progress import follow_training
        from mgnni.cli.train_screen import show_training
        from mgnni.train.config import changed
        from mgnni.train.fit import Job, runs_of
        from mgnni.train.source import find_source
        from mgnni.train.training import Plan

        source = find_source(
            self.data,
            options=options,
            tables=self.columns,
            metric=self.metric,
            num_splits=self.num_splits,
        )
        task = source.task
        config = changed(preset_for(task.name, task.level, self.preset), self._changes())
        runs = runs_of(task, self._split(), self.seeds)
        plan = Plan(task, config, runs, self.rule, not self.one_by_one)
        job = Job(source, plan, self.device, self.deterministic, self.checkpoint_every)
        job.check()
        folder = self.output or Path("runs") / re.sub(r"[^\w.-]", "-", Path(task.name).name)
        with follow_training(plan) as on_epoch:
            fitted = job.run(writable_folder(folder), self.resume, on_epoch)
        show_training(fitted.report or {}, folder, task.notes, as_json=self.json)

    def _check(self) -> None:
        if self.num_splits < 1:
            raise UsageError(f"--num-splits must be at least 1 (got {self.num_splits})")
        if not self.checkpoint_every >= 0:
            raise UsageError(
                f"--checkpoint-every must be at least 0 seconds (got {self.checkpoint_every})"
            )

    def _split(self) -> str | list[int]:
        if self.split == ("all",):
            return "all"
        try:
            return [int(number) for number in self.split]
        except ValueError:
            raise UsageError(
                f"--split must be numbers from 0, or all (got {' '.join(self.split)})"
            ) from None

    def _changes(self) -> dict[str, Any]:
        """What the options say otherwise than the preset."""
        base = preset_for(_benchmark(self.data) or self.data, "node", self.preset)
        pairs = [(Config, self.config, base), (ModelConfig, self.config.model, base.model)]
        return {
            one.name: getattr(mine, one.name)
            for cls, mine, theirs in pairs
            for one in fields(cls)
            if one.name != "model" and getattr(mine, one.name) != getattr(theirs, one.name)
        }


def _benchmark(name: str) -> str | None:
    """The benchmark that is meant, if one is."""
    plain = name.lower().replace("_", "-")
    return plain if plain in ENTRIES else None


def benchmark_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value that is no Python literal is a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--option must be NAME=VALUE (got {pair!r})")
        try:
            found[name] = ast.literal_eval(value.capitalize() if value in _BOOLS else value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


_BOOLS = ("true", "false", "none")
