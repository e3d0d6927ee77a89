"""``mgnni train``: train a model on a benchmark or on a graph in files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mgnni.cli.arguments import Command, Parser, UsageError, one_of
from mgnni.cli.data import benchmark_options, check_data, likely_data, split_numbers
from mgnni.cli.folders import default_folder, training_folder
from mgnni.cli.mesh import find_mesh, first_alone
from mgnni.cli.option_details import CHOICES, FILE_DETAILS, MAP_SOLVERS
from mgnni.data.catalog import benchmark_named
from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.tables.schema import TableOptions
from mgnni.files import to_json
from mgnni.models.catalog import MGNNI, MODELS, find_model
from mgnni.train.config import Config, options_class
from mgnni.train.presets import AUTO, PRESETS, check_auto
from mgnni.train.settings import with_settings
from mgnni.train.tuned import find_preset, is_file, preset_model

if TYPE_CHECKING:
    from mgnni.train.source import Source

NOT_OPTIONS = ("model", "architecture")  # fields of Config that are set by --model


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train on a benchmark or on your own graph.

    DATA is the name of a benchmark (see mgnni datasets); a folder with nodes.csv and edges.csv,
    and graphs.csv to predict whole graphs; or a .npz or .pt file. Every split is trained with
    every seed. The result is the test score with the rule it was chosen by, and a folder with
    model, log and report. With --precomputed, DATA is the output folder of mgnni precompute, and
    the options are those of mgnni minibatch.

    For your own graph without --model, several models are compared on validation data first, and
    the best one is trained. Benchmarks have their own hyperparameters: mgnni train texas --help
    shows them as defaults, and mgnni train texas --model gcn --help those of another model.

    Example: mgnni train texas --scales 1 2 4 --seeds 0 1 2
    Example: mgnni train chameleon --model gcnii --num-layers 8
    Example: mgnni train my-graph/ --label topic
    Example: mgnni train houses/ --task regression --label price --output runs/houses --resume
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "seed": "--seeds",
        "options": "--option",
        "model": "--model",
        "preset": "--preset",
        "config": "--config",
    }
    no_options: ClassVar[Sequence[str]] = ("changes", "tables")
    may_choose: ClassVar[bool] = True  # a model, if none is given

    data: str = field(metadata={"metavar": "DATA", "positional": True})
    """Benchmark, folder or file."""
    architecture: str = field(default=MGNNI, metadata={"names": ("--model",)})
    """Model, see mgnni models, or auto, which chooses one on validation data. Its options are
    listed below; with auto, those of MGNNI, and models without a given option are left out."""
    budget: float | None = field(
        default=None, metadata={"metavar": "MINUTES", "unset": "4, and 1 more per run"}
    )
    """Time for the choice of a model and its training. Slow models get fewer epochs."""
    output: Path | None = field(default=None, metadata={"metavar": "FOLDER", "unset": "runs/DATA"})
    """Folder for model, log and report; existing files are not overwritten."""
    resume: bool = False
    """Continue an interrupted training in that folder, with the same options; with more --epochs,
    also a finished one."""
    split: tuple[str, ...] = field(default=("all",), metadata={"metavar": "INT|all"})
    """Splits to train on."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights and of dropout."""
    num_splits: int = 1
    """Number of splits to draw if the data have none: stratified, 60/20/20."""
    folds: int | None = field(default=None, metadata={"unset": "splits drawn at random"})
    """Number of folds of a stratified cross-validation, if the data have no splits."""
    rule: str = field(default=DEFAULT_RULE, metadata={"choices": CHOICES["rule"]})
    """How the epoch is chosen. Scores of rules that use test labels are marked."""
    metric: str | None = field(
        default=None, metadata={"choices": CHOICES["metric"], "unset": "that of the task"}
    )
    """Metric to report and to select by."""
    preset: str = field(default="paper", metadata={"choices": PRESETS})
    """Hyperparameters: of the paper first, of its released code only, or found by mgnni tune; also
    the path of a preset.json of mgnni tune."""
    config: Path | None = field(default=None, metadata={"metavar": "FILE", "unset": "none"})
    """The config.json of another training: its model, hyperparameters, splits, seeds, rule and
    metric are the defaults of this one."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, see mgnni datasets NAME."""
    device: str = field(default="auto", metadata={"choices": CHOICES["device"]})
    """Where to compute; auto uses a GPU if there is one."""
    one_by_one: bool = False
    """Train the runs on one graph one after another: same results, less memory."""
    jobs: int | None = field(default=None, metadata={"unset": "as many as help"})
    """Number of processes, which train different splits and seeds: same results."""
    mesh: str | None = field(default=None, metadata={"metavar": "AXES", "unset": "one process"})
    """How processes of torchrun share the work: rows=2,columns=2, or batch=4 for many graphs."""
    partition: str = field(default="order", metadata={"choices": CHOICES["partition"]})
    """How the nodes are divided among the rows of the mesh; metis needs pymetis."""
    deterministic: bool = False
    """Make the training repeatable bit by bit on the same machine; one thread on a CPU."""
    checkpoint_every: float = 10.0
    """Minimum number of seconds between checkpoints."""
    log: str | None = field(default=None, metadata={"choices": CHOICES["log"], "unset": "none"})
    """Also log losses and scores to this experiment tracker."""
    no_report: bool = False
    """Do not write report.html, which needs plotly and has 2 MB."""
    changes: dict[str, Any] = field(default_factory=dict)  # hyperparameters that were given
    tables: TableOptions = field(default_factory=TableOptions)

    @classmethod
    def parser(cls, args: Sequence[str]) -> Parser:
        """Return the parser with the options of the model, and the defaults of the benchmark."""
        prog = f"mgnni {cls.__name__.lower()}"
        early = Parser(prog, add_help=False)
        early.add_argument("--model", type=one_of([*MODELS, *[AUTO] * cls.may_choose]))
        names = one_of(PRESETS)
        early.add_argument(
            "--preset", type=lambda word: word if is_file(word) else names(word), default="paper"
        )
        early.add_argument("--config", type=Path)
        asked = with_settings(early.parse(args, partly=True))
        data = likely_data(args)
        named = asked.pop("model", None) or cls._usual_model(data, asked["preset"])
        model = MGNNI if named == AUTO else named
        level = "graph" if list(Path(data).glob("graphs.*")) else "node"
        config = find_preset(benchmark_named(data) or "", level, asked["preset"], model)
        shown = cls(data=data, architecture=named, **asked)

        parser = Parser(prog, cls.__doc__)
        common = [one.name for one in fields(Command)]
        parser.add_fields(parser, cls, defaults=shown, skip=(*common, *cls.no_options))
        parser.add_fields(parser, Command)
        choices = {name: {"choices": values} for name, values in CHOICES.items()}
        group = parser.group("training options", "Optimisation, and when it stops.")
        parser.add_fields(
            group, Config, defaults=config, details=choices, skip=NOT_OPTIONS, switches=True
        )
        group = parser.group("model options", f"{find_model(model).title}.")
        if getattr(config.model, "solver", None) in MAP_SOLVERS:
            choices["solver"] = {"choices": MAP_SOLVERS}
        options = options_class(model)
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
        values = with_settings(values)
        usual = cls._usual_model(values["data"], values.get("preset", "paper"))
        values = {"architecture": usual, **values}
        own = {one.name for one in fields(cls)}
        of_tables = {one.name for one in fields(TableOptions)}
        return cls(
            **{name: value for name, value in values.items() if name in own},
            tables=TableOptions(**{k: v for k, v in values.items() if k in of_tables}),
            changes={k: v for k, v in values.items() if k not in own | of_tables},
        )

    @classmethod
    def _usual_model(cls, data: str, preset: str) -> str:
        """Return the model that is trained without --model."""
        own = data and not benchmark_named(data)
        return AUTO if cls.may_choose and own and preset == "paper" else preset_model(preset)

    def find(self) -> tuple[Source, Config]:
        """Return the data and the configuration."""
        check_data(self.data)
        of_benchmark = benchmark_options(self.option)
        if self.num_splits < 1:
            raise UsageError(f"--num-splits must be at least 1 (got {self.num_splits})")
        from mgnni.train.setup import find_training

        source, config = find_training(
            self.data,
            self.changes,
            model=self.architecture,
            preset=self.preset,
            metric=self.metric,
            options=of_benchmark,
            tables=self.tables,
            rule=self.rule,
            num_splits=self.num_splits,
            folds=self.folds,
        )
        if getattr(config.model, "head", None) == "graph" and source.task.level != "graph":
            raise UsageError(
                f"--head graph is for whole graphs ({source.task.name} has one label per node); "
                "use linear or residual"
            )
        return source, config

    def run(self) -> None:
        """Train, print and save."""
        chooses = self.architecture == AUTO
        preset = None if self.preset == "paper" else self.preset
        check_auto(self.architecture, self.budget, preset=preset, mesh=self.mesh)
        if not self.checkpoint_every >= 0:
            raise UsageError(f"--checkpoint-every must be at least 0 (got {self.checkpoint_every})")
        # Imported late because they are slow to import.
        from mgnni.cli.inspect_output import show_source
        from mgnni.cli.portfolio_output import choose_model
        from mgnni.cli.progress import follow_training
        from mgnni.cli.terminal import show_training
        from mgnni.html_report.page import write_training_page
        from mgnni.train.experiment import Experiment, runs_of
        from mgnni.train.fit import train
        from mgnni.train.folder import check_resumable
        from mgnni.train.trackers import check_tracker, make_tracker

        check_tracker(self.log)
        mesh = find_mesh(self.mesh, self.partition, self.device)
        with first_alone(mesh):
            source, config = self.find()
        runs = runs_of(source.task, split_numbers(self.split), self.seeds)
        experiment = Experiment(
            source,
            config,
            runs,
            self.rule,
            together=not self.one_by_one,
            device=self.device,
            deterministic=self.deterministic,
            checkpoint_every=self.checkpoint_every,
            jobs=self.jobs,
        )
        other = "" if self.architecture in (MGNNI, AUTO) else f"-{self.architecture}"
        output = self.output or default_folder(source.task.name + other)
        if self.resume:
            check_resumable(output)
        if mesh is not None and mesh.rank > 0:
            train(experiment, output, resume=self.resume, mesh=mesh)
            return  # the first process reports
        try:
            with training_folder(output, self.checkpoint_every):
                describe = partial(show_source, source, config, _note if self.json else None)
                state = None
                if chooses:
                    describe()
                    choice = choose_model(
                        experiment, self.changes, output, self.resume, self.budget, self.json
                    )
                    experiment, state = choice.experiment, choice.state
                    config = experiment.config
                with (
                    follow_training(len(runs), config.epochs, config.patience) as clock,
                    make_tracker(self.log, experiment, output) as tracker,
                ):
                    fitted = train(
                        experiment,
                        output,
                        resume=self.resume,
                        on_epoch=tracker.after(clock),
                        on_note=_note,
                        on_start=None if chooses else describe,
                        start=state,
                        mesh=mesh,
                    )
                    tracker.finish(fitted.report or {})
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command with --resume to continue"
            ) from None
        if not self.no_report:
            write_training_page(output, _note)
        report = fitted.report or {}
        if self.json:
            sys.stdout.write(to_json(report))
            return
        data = (self.data, *(("--option", *self.option) if self.option else ()))
        show_training(report, output, data, resumed=clock.epochs == 0)


def _note(text: str) -> None:
    sys.stderr.write(f"mgnni train: note: {text}\n")
