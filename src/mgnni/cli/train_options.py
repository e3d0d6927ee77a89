"""The settings of a training in groups, as its user meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Fixed, OmitArgPrefixes, Positional, Suppress, arg

from mgnni.cli.options import option, options_of
from mgnni.data.rules import RULES
from mgnni.data.tables import schema as tables
from mgnni.data.tables.schema import TableOptions
from mgnni.models.catalog import find_model
from mgnni.train.config import PRECISIONS, SCHEDULES, STOPPING, Config, ModelConfig, options_class
from mgnni.train.presets import PRESETS

# Written down here and not asked of the library, which would need seconds to import; a test
# compares them with what it takes.
CHOICES: dict[str, Sequence[str]] = {
    "metric": ("accuracy", "micro_f1", "macro_f1", "roc_auc"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "rule": tuple(RULES),
    "preset": PRESETS,
    "schedule": SCHEDULES,
    "stopping": STOPPING,
    "precision": PRECISIONS,
    "input_map": ("mlp", "mlp-relu", "identity"),
    "fusion": ("attention", "mean"),
    "head": ("linear", "residual", "graph"),
    "normalization": ("auto", "sym", "dir", "out", "row", "none"),
    "flow": ("source_to_target", "target_to_source"),
    "solver": tuple("auto anderson cg chebyshev gmres picard series spectral wide".split()),
    "memory": ("fast", "low"),
}

NONLINEAR = ("anderson", "picard")  # solvers of any map


def _one_of(names: Sequence[str]) -> str:
    return f"the one called {', '.join(names[:-1])} or {names[-1]}"


TrainingOptions = options_of(
    Config,
    "How the model is trained, and when training stops.",
    choices=CHOICES,
    apart=("model", "architecture"),
)
ModelOptions = options_of(
    ModelConfig,
    "The model: an input map, one equilibrium for each scale, their fusion, and a head.",
    choices=CHOICES,
)
FileOptions = options_of(
    TableOptions,
    "For a graph of your own: which column is what, and how it is read. What you leave out is "
    "found by name.",
    choices={"delimiter": ("CHARACTER",)},
    unset={
        "id": _one_of(tables.ID_NAMES),
        "label": _one_of(tables.LABEL_NAMES),
        "split_column": _one_of(("split", "split_0, split_1 ...", "train_mask ...")),
        "features": "",
        "ignore": "none",
        "categorical": "those that hold words",
        "source": _one_of(tables.SOURCE_NAMES),
        "target": _one_of(tables.TARGET_NAMES),
        "weight": _one_of(tables.WEIGHT_NAMES),
        "graph": _one_of(tables.GRAPH_NAMES),
        "delimiter": "",
    },
    flags=("degree", "standardize", "allow_unseen"),
)

if TYPE_CHECKING:
    Data = str
    Architecture = str
    Splits = tuple[str, ...]
    Pairs = tuple[str, ...]
    Seeds = tuple[int, ...]
    Count = int
    Seconds = float
    Rule = str
    Preset = str
    Device = str
    Metric = str | None
    Output = Path | None
    Training = Any
    Model = Any
    File = Any
    Names = frozenset[str]
else:
    Data = Annotated[Positional[str], arg(metavar="DATA")]
    Architecture = option(str, name="model")
    Splits = option(tuple[str, ...], shown="INT ...|all")
    Pairs = option(tuple[str, ...], shown="NAME=VALUE ...", unset="those of the benchmark")
    Seeds, Count, Seconds = option(tuple[int, ...]), option(int), option(float)
    Rule, Preset, Device = (option(str, choices=CHOICES[x]) for x in ("rule", "preset", "device"))
    Metric = option(str | None, choices=CHOICES["metric"], unset="the usual one of the task")
    Output = option(Path | None, shown="FOLDER", unset="runs/DATA")
    Training, Model, File = (
        OmitArgPrefixes[group] for group in (TrainingOptions, ModelOptions, FileOptions)
    )
    Names = Suppress[Fixed[frozenset]]

# What the library calls an argument, and which option stands for it.
SPOKEN: dict[str, str] = {
    **{
        one.name: "--" + one.name.replace("_", "-")
        for group in (TrainingOptions, ModelOptions, FileOptions)
        for one in fields(group)
    },
    **{
        name: f"--{name}"
        for name in ("model", "split", "rule", "metric", "preset", "device", "resume")
    },
    **{"seed": "--seeds", "options": "--option", "num_splits": "--num-splits"},
}


def _own(name: str) -> type[Any]:
    """The options of a model as a group."""
    own = options_class(name)
    choices = {one: CHOICES[one] for one in ("normalization", "flow", "head", "memory")}
    if any(one.default in NONLINEAR for one in fields(own)):
        choices["solver"] = NONLINEAR
    return options_of(own, f"The model: {find_model(name).title}.", choices=choices)


def with_model(command: type[Any], name: str) -> type[Any]:
    """Return a command with the options of another model in place of MGNNI's."""
    group: Any = _own(name)
    options = ("model", OmitArgPrefixes[group], field(default_factory=group))  # type: ignore[misc]
    made: Any = make_dataclass(command.__name__, [options], bases=(command,), frozen=True)
    made.__doc__ = command.__doc__
    made.own = group
    return made  # type: ignore[no-any-return]


def group_of(command: type[Any]) -> type[Any]:
    """The group of the options of the model that a command has."""
    group: type[Any] = getattr(command, "own", ModelOptions)
    return group


def spoken(name: str) -> dict[str, str]:
    """As ``SPOKEN``, of a model of this name."""
    options = {one.name: "--" + one.name.replace("_", "-") for one in fields(options_class(name))}
    return {**SPOKEN, **options}


def given(args: Sequence[str]) -> frozenset[str]:
    """Return the names of the options that stand on a command line, as fields call them."""
    words = (arg[2:].partition("=")[0].replace("-", "_") for arg in args if arg[:2] == "--")
    return frozenset(name for word in words for name in (word, word.removeprefix("no_")))


def chosen(groups: Sequence[Any], names: frozenset[str]) -> dict[str, Any]:
    """Return what was said in these groups of options, and nothing that was only a default."""
    return {
        one.name: getattr(group, one.name)
        for group in groups
        for one in fields(group)
        if one.name in names
    }
