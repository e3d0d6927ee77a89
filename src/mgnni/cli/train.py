"""``mgnni train``: from a benchmark's name or a graph in files to a model and an honest number."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgnni.cli.benchmarks import benchmark_options, check_exists
from mgnni.cli.errors import Interrupted, UsageError
from mgnni.cli.files import folder_for
from mgnni.data.catalog import benchmark_named
from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.tables.options import TableOptions
from mgnni.models.catalog import MGNNI, MODELS
from mgnni.train.config import Config, changed
from mgnni.train.presets import preset_for

with contextlib.suppress(ImportError):  # `main` says what is missing, when a command is called
    from mgnni.cli import train_options as options
    from mgnni.cli.options import Flag


@dataclass(frozen=True)
class Train:
    """Train a model on a benchmark, or on a graph of your own.

    DATA is the name of a benchmark (mgnni datasets lists them); a folder with nodes.csv and
    edges.csv, and graphs.csv to classify whole graphs; or a .npz or .pt file. Every split is
    trained with every seed. You get the test score with the rule it was chosen by, and a folder
    with model, log and report.

    Benchmarks have settings of their own: mgnni train texas --help shows them as defaults, and
    mgnni train texas --model gcn --help those of another model.

    Example: mgnni train texas --scales 1 2 4 --seeds 0 1 2
    Example: mgnni train chameleon --model gcnii --num-layers 8
    Example: mgnni train my-graph/ --label topic --output runs/topics
    Example: mgnni train my-graph/ --label topic --output runs/topics --resume
    """

    data: options.Data
    """Benchmark, folder or file."""
    architecture: options.Architecture = MGNNI
    """Which model; mgnni models lists them. Its options are shown with it."""
    output: options.Output = None
    """Folder for model, log and report; nothing that is there is overwritten."""
    resume: Flag = False
    """Go on with the training in that folder after an interruption, with the same options."""
    split: options.Splits = ("all",)
    """Which splits of the data."""
    seeds: options.Seeds = (0,)
    """Seeds of initial weights and dropout."""
    num_splits: options.Count = 1
    """Splits to draw if the data have none: stratified, 60/20/20."""
    rule: options.Rule = DEFAULT_RULE
    """Which epoch counts. All but validation look at test data, and their numbers are marked."""
    metric: options.Metric = None
    """The metric that counts."""
    preset: options.Preset = "paper"
    """Settings of a benchmark: by the text of the paper, or by its released code."""
    option: options.Pairs = ()
    """How a benchmark is made or read; mgnni datasets NAME lists what there is."""
    device: options.Device = "auto"
    """Where to compute; auto: a GPU if there is one."""
    one_by_one: Flag = False
    """Train the runs on one graph one after another: the same results, in less memory."""
    deterministic: Flag = False
    """The same bits every time; one thread on a CPU."""
    checkpoint_every: options.Seconds = 10.0
    """Seconds between checkpoints, at least."""
    json: Flag = False
    """Print the report as JSON, and nothing else, to standard output."""
    debug: Flag = False
    """Show the traceback of an error."""
    training: options.Training = field(default_factory=lambda: options.TrainingOptions())
    model: options.Model = field(default_factory=lambda: options.ModelOptions())
    file: options.File = field(default_factory=lambda: options.FileOptions())
    given: options.Names = frozenset()

    @classmethod
    def variant(cls, args: Sequence[str]) -> type[Train]:
        """The command with the options of the model that the arguments name."""
        name = _said(args, "model", MGNNI)
        return cls if name == MGNNI else options.with_model(cls, name)

    @classmethod
    def default(cls, args: Sequence[str]) -> Train:
        """The command without options, as the preset of its data has it."""
        import tyro

        words = [arg for arg in args if not arg.startswith("-")]
        data = words[0] if words else ""
        preset, model = _said(args, "preset", "paper"), _said(args, "model", MGNNI)
        level = "graph" if list(Path(data).glob("graphs.*")) else "node"
        config = preset_for(benchmark_named(data) or "", level, preset, model)
        return cls(
            data=tyro.MISSING,  # has no default
            architecture=model,
            preset=preset,
            training=options.TrainingOptions(**_training(config)),
            model=options.group_of(cls)(**vars(config.model)),
            given=options.given(args),
        )

    @staticmethod
    def spoken(args: Sequence[str]) -> Mapping[str, str]:
        """Which option stands for an argument of the library."""
        name = _said(args, "model", MGNNI)
        return options.SPOKEN if name not in MODELS else options.spoken(name)

    def run(self) -> None:
        """Train, show and keep."""
        check_exists(self.data)
        of_benchmark = benchmark_options(self.option)
        self._check()
        tables = TableOptions(**vars(self.file))
        # Slow to import, and not needed to say what the options are or that one is wrong.
        from mgnni.cli.train_progress import follow_training
        from mgnni.cli.train_screen import show_training
        from mgnni.train.experiment import Experiment, runs_of
        from mgnni.train.fit import train
        from mgnni.train.source import find_source

        source = find_source(
            self.data,
            options=of_benchmark,
            tables=tables,
            metric=self.metric,
            num_splits=self.num_splits,
        )
        task = source.task
        said = options.chosen((self.training, self.model), self.given)
        preset = preset_for(source.preset, task.level, self.preset, self.architecture)
        config = changed(preset, said)
        if getattr(config.model, "head", None) == "graph" and task.level != "graph":
            raise UsageError(
                f"--head graph is for whole graphs ({task.name} has a label a node); use linear, "
                "or residual"
            )
        experiment = Experiment(
            source,
            config,
            runs_of(task, self._split(), self.seeds),
            self.rule,
            together=not self.one_by_one,
            device=self.device,
            deterministic=self.deterministic,
            checkpoint_every=self.checkpoint_every,
        )
        other = "" if self.architecture == MGNNI else f"-{self.architecture}"
        output = self.output or Path("runs") / re.sub(r"[^\w.-]", "-", task.name + other)
        try:
            with folder_for(output, self.checkpoint_every), follow_training(experiment) as heard:
                fitted = train(experiment, output, self.resume, heard, _note)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{output} keeps what was done; the same command with --resume goes on"
            ) from None
        show_training(
            fitted.report or {},
            output,
            (self.data, *(("--option", *self.option) if self.option else ())),
            task.notes,
            anew=heard.epochs > 0,
            as_json=self.json,
        )

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


def _note(text: str) -> None:
    sys.stderr.write(f"mgnni train: note: {text}\n")


def _training(config: Config) -> dict[str, Any]:
    apart = ("model", "architecture")
    return {name: value for name, value in vars(config).items() if name not in apart}


def _said(args: Sequence[str], option: str, default: str) -> str:
    """What was said for an option, before the options are known."""
    for arg, following in zip(args, [*args[1:], ""], strict=False):
        name, sign, value = arg.partition("=")
        if name == f"--{option}":
            default = value if sign else following
    return default
