"""``mgnni train``: train a model on a benchmark or on a graph in files."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from mgnni.cli.arguments import Command, Parser, UsageError, one_of
from mgnni.cli.folders import training_folder
from mgnni.data.catalog import ENTRIES, benchmark_named
from mgnni.data.rules import DEFAULT_RULE, RULES
from mgnni.data.tables import schema as tables
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import closest
from mgnni.models.catalog import MGNNI, MODELS, find_model
from mgnni.train.config import (
    PRECISIONS,
    SCHEDULES,
    STOPPING,
    Config,
    changed,
    options_class,
)
from mgnni.train.presets import PRESETS, preset_for

# Repeated here because the modules that define them are slow to import; a test compares them.
CHOICES: dict[str, Sequence[str]] = {
    "metric": ("accuracy", "micro_f1", "macro_f1", "roc_auc"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "rule": tuple(RULES),
    "preset": PRESETS,
    "schedule": SCHEDULES,
    "stopping": STOPPING,
    "precision": PRECISIONS,
    "input_map": ("mlp", "mlp-relu", "identity", "graph"),
    "fusion": ("attention", "mean", "concat"),
    "contraction": ("frobenius", "spectral", "identity"),
    "directions": ("in", "out", "both"),
    "head": ("linear", "residual", "graph"),
    "normalization": ("auto", "sym", "dir", "out", "row", "none"),
    "flow": ("source_to_target", "target_to_source"),
    "solver": tuple("auto anderson cg chebyshev gmres picard series spectral wide dense".split()),
    "memory": ("fast", "low"),
}
MAP_SOLVERS = ("anderson", "picard")  # of models whose equation is not linear
NOT_OPTIONS = ("model", "architecture")  # fields of Config that are set by --model


def _column(*names: str) -> dict[str, Any]:
    return {"unset": f"column {', '.join(names[:-1])} or {names[-1]}"}


FILE_DETAILS: dict[str, Mapping[str, Any]] = {
    "id": _column(*tables.ID_NAMES),
    "label": _column(*tables.LABEL_NAMES),
    "split_column": _column("split", "split_0, split_1 ...", "train_mask ..."),
    "features": {"unset": ""},
    "ignore": {"unset": "none"},
    "categorical": {"unset": "columns of text"},
    "source": _column(*tables.SOURCE_NAMES),
    "target": _column(*tables.TARGET_NAMES),
    "weight": _column(*tables.WEIGHT_NAMES),
    "graph": _column(*tables.GRAPH_NAMES),
    "delimiter": {"unset": "", "metavar": "CHARACTER"},
}


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train on a benchmark or on your own graph.

    DATA is the name of a benchmark (see mgnni datasets); a folder with nodes.csv and edges.csv,
    and graphs.csv to classify whole graphs; or a .npz or .pt file. Every split is trained with
    every seed. The result is the test score with the rule it was chosen by, and a folder with
    model, log and report.

    Benchmarks have their own hyperparameters: mgnni train texas --help shows them as defaults,
    and mgnni train texas --model gcn --help those of another model.

    Example: mgnni train texas --scales 1 2 4 --seeds 0 1 2
    Example: mgnni train chameleon --model gcnii --num-layers 8
    Example: mgnni train my-graph/ --label topic --output runs/topics
    Example: mgnni train my-graph/ --label topic --output runs/topics --resume
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "seed": "--seeds",
        "options": "--option",
        "model": "--model",
    }

    data: str = field(metadata={"metavar": "DATA", "positional": True})
    """Benchmark, folder or file."""
    architecture: str = field(default=MGNNI, metadata={"names": ("--model",)})
    """Model, see mgnni models. Its options are listed below."""
    output: Path | None = field(default=None, metadata={"metavar": "FOLDER", "unset": "runs/DATA"})
    """Folder for model, log and report; existing files are not overwritten."""
    resume: bool = False
    """Continue an interrupted training in that folder, with the same options."""
    split: tuple[str, ...] = field(default=("all",), metadata={"metavar": "INT|all"})
    """Splits to train on."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights and of dropout."""
    num_splits: int = 1
    """Number of splits to draw if the data have none: stratified, 60/20/20."""
    rule: str = field(default=DEFAULT_RULE, metadata={"choices": CHOICES["rule"]})
    """How the epoch is chosen. Scores of rules that use test labels are marked."""
    metric: str | None = field(
        default=None, metadata={"choices": CHOICES["metric"], "unset": "that of the task"}
    )
    """Metric to report and to select by."""
    preset: str = field(default="paper", metadata={"choices": PRESETS})
    """Hyperparameters of a benchmark: of the paper first, or of its released code only."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, see mgnni datasets NAME."""
    device: str = field(default="auto", metadata={"choices": CHOICES["device"]})
    """Where to compute; auto uses a GPU if there is one."""
    one_by_one: bool = False
    """Train the runs on one graph one after another: same results, less memory."""
    deterministic: bool = False
    """Make the training repeatable bit by bit on the same machine; one thread on a CPU."""
    checkpoint_every: float = 10.0
    """Minimum number of seconds between checkpoints."""
    changes: dict[str, Any] = field(default_factory=dict)  # hyperparameters that were given
    tables: TableOptions = field(default_factory=TableOptions)

    @classmethod
    def parser(cls, args: Sequence[str]) -> Parser:
        """Return the parser with the options of the model, and the defaults of the benchmark."""
        early = Parser("mgnni train", add_help=False)
        early.add_argument("--model", type=one_of(list(MODELS)), default=MGNNI)
        early.add_argument("--preset", type=one_of(PRESETS), default="paper")
        asked = early.parse(args, partly=True)
        data = next((arg for arg in args if not arg.startswith("-")), "")
        level = "graph" if list(Path(data).glob("graphs.*")) else "node"
        config = preset_for(benchmark_named(data) or "", level, asked["preset"], asked["model"])
        shown = cls(data=data, architecture=asked["model"], preset=asked["preset"])

        parser = Parser("mgnni train", cls.__doc__)
        common = [one.name for one in fields(Command)]
        parser.add_fields(parser, cls, defaults=shown, skip=(*common, "changes", "tables"))
        parser.add_fields(parser, Command)
        choices = {name: {"choices": values} for name, values in CHOICES.items()}
        group = parser.group("training options", "Optimisation, and when it stops.")
        parser.add_fields(
            group, Config, defaults=config, details=choices, skip=NOT_OPTIONS, switches=True
        )
        group = parser.group("model options", f"{find_model(asked['model']).title}.")
        if getattr(config.model, "solver", None) in MAP_SOLVERS:
            choices["solver"] = {"choices": MAP_SOLVERS}
        options = options_class(asked["model"])
        parser.add_fields(group, options, defaults=config.model, details=choices, switches=True)
        group = parser.group(
            "file options",
            "For your own graph: the meaning of its columns. Columns that are not given are found "
            "by name.",
        )
        parser.add_fields(group, TableOptions, details=FILE_DETAILS)
        return parser

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> Train:
        """Return the command; what is neither its own nor of a file is a hyperparameter."""
        own = {one.name for one in fields(cls)}
        of_tables = {one.name for one in fields(TableOptions)}
        return cls(
            **{name: value for name, value in values.items() if name in own},
            tables=TableOptions(**{k: v for k, v in values.items() if k in of_tables}),
            changes={k: v for k, v in values.items() if k not in own | of_tables},
        )

    def run(self) -> None:
        """Train, print and save."""
        check_data(self.data)
        of_benchmark = benchmark_options(self.option)
        if self.num_splits < 1:
            raise UsageError(f"--num-splits must be at least 1 (got {self.num_splits})")
        if not self.checkpoint_every >= 0:
            raise UsageError(
                f"--checkpoint-every must be at least 0 seconds (got {self.checkpoint_every})"
            )
        # Imported late because they are slow to import.
        from mgnni.cli.progress import follow_training
        from mgnni.cli.terminal import show_training
        from mgnni.train.experiment import Experiment, runs_of
        from mgnni.train.fit import train
        from mgnni.train.report import to_json
        from mgnni.train.source import find_source

        source = find_source(
            self.data,
            options=of_benchmark,
            tables=self.tables,
            metric=self.metric,
            num_splits=self.num_splits,
        )
        task = source.task
        preset = preset_for(source.preset, task.level, self.preset, self.architecture)
        config = changed(preset, self.changes)
        if getattr(config.model, "head", None) == "graph" and task.level != "graph":
            raise UsageError(
                f"--head graph is for whole graphs ({task.name} has one label per node); use "
                "linear or residual"
            )
        runs = runs_of(task, self._splits(), self.seeds)
        experiment = Experiment(
            source,
            config,
            runs,
            self.rule,
            together=not self.one_by_one,
            device=self.device,
            deterministic=self.deterministic,
            checkpoint_every=self.checkpoint_every,
        )
        other = "" if self.architecture == MGNNI else f"-{self.architecture}"
        output = self.output or Path("runs") / re.sub(r"[^\w.-]", "-", task.name + other)
        try:
            with (
                training_folder(output, self.checkpoint_every),
                follow_training(len(runs), config.epochs, config.patience) as clock,
            ):
                fitted = train(experiment, output, self.resume, clock, _note)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command with --resume to continue"
            ) from None
        report = fitted.report or {}
        if self.json:
            sys.stdout.write(to_json(report))
            return
        data = (self.data, *(("--option", *self.option) if self.option else ()))
        show_training(report, output, data, resumed=clock.epochs == 0)

    def _splits(self) -> str | list[int]:
        if self.split == ("all",):
            return "all"
        try:
            return [int(number) for number in self.split]
        except ValueError:
            raise UsageError(
                f"--split must be numbers from 0, or all (got {' '.join(self.split)})"
            ) from None


def _note(text: str) -> None:
    sys.stderr.write(f"mgnni train: note: {text}\n")


def check_data(data: str) -> None:
    """Refuse data that are neither a benchmark nor a path, and suggest a benchmark."""
    if benchmark_named(data) or Path(data).exists():
        return
    near = closest(data, ENTRIES)
    hint = f" (did you mean {near}?)" if near else ""
    raise UsageError(
        f"{data!r} is neither a benchmark{hint} nor a path; mgnni datasets lists the benchmarks, "
        "and a path is a folder with nodes.csv and edges.csv, or a .npz or .pt file"
    )


def benchmark_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value that is not a Python literal is a string."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--option must be NAME=VALUE (got {pair!r}), for example length=80")
        if name in found:
            raise UsageError(f"--option must give each name once (got {name} twice)")
        literal = value.capitalize() if value in ("true", "false", "none") else value
        try:
            found[name] = ast.literal_eval(literal)
        except (ValueError, SyntaxError, TypeError):
            found[name] = value
    return found
