"""``mgnni range``: how far information travels in a graph, or in a trained model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mgnni.cli.arguments import UsageError
from mgnni.cli.data import DataCommand, benchmark_options, check_data
from mgnni.cli.folders import default_folder, result_folder, write_result
from mgnni.cli.option_details import CHOICES
from mgnni.files import to_json

GAMMAS, SCALES = (0.5, 0.8, 0.95), (1, 2, 4, 8)
FILES = ("range.json", "range.png")


@dataclass(frozen=True, kw_only=True)
class Range(DataCommand):
    """Measure how far information travels.

    DATA is anything that mgnni train accepts, or the output folder of a training. For data, the
    range of an equilibrium is measured for every gamma with every scale. For a training, that of
    its equilibria with their trained weights, and that of its predictions.

    The influence of node p on node q is the largest change of the state of q for a change of the
    bias of p of size one, and the range the longest distance at which it exceeds theta. Beside it
    stand the proven upper bound, and the bound that the MGNNI paper prints, which does not hold
    for all graphs. The result is a table, advice, and a folder with range.json and range.png.

    Example: mgnni range chameleon
    Example: mgnni range chains --option length=200 directed=false --gamma 0.8 0.99 --scales 1 8 64
    Example: mgnni range runs/texas
    """

    renamed: ClassVar[Mapping[str, str]] = {"options": "--option", "run": "--run-number"}

    data: str = field(metadata={"metavar": "DATA", "positional": True})
    """Benchmark, folder or file; or the output folder of mgnni train."""
    gamma: tuple[float, ...] | None = field(
        default=None, metadata={"metavar": "FLOAT", "unset": "0.5 0.8 0.95"}
    )
    """Factors of the equation."""
    scales: tuple[int, ...] | None = field(
        default=None, metadata={"metavar": "INT", "unset": "1 2 4 8"}
    )
    """Scales, each on its own."""
    theta: float = 1e-6
    """Influence below which a node counts as out of range."""
    initial: bool = False
    """Use the weight g(F) before training, instead of the identity, which has the longest range."""
    channels: int = 64
    """Number of channels of the initial weight."""
    samples: int | None = field(
        default=None, metadata={"unset": "8 million pairs, at least 16 nodes"}
    )
    """Number of nodes whose influences are measured; all if the graph has no more."""
    undirected: bool = False
    """Add the reverse of every edge."""
    normalization: str = field(default="auto", metadata={"choices": CHOICES["normalization"]})
    """Normalization of the adjacency matrix."""
    no_self_loops: bool = False
    """Do not add self-loops."""
    seed: int = 0
    """Seed of the sample and of the initial weight."""
    run_number: int | None = field(
        default=None, metadata={"unset": "the best on the validation set"}
    )
    """Run of the training to measure, counted from 0."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, see mgnni datasets NAME."""
    moved: Path | None = field(
        default=None,
        metadata={
            **{"metavar": "PATH", "names": ("--data",)},
            "unset": "where they were in training",
        },
    )
    """For the output folder of a training: folder or file of its data, if it has moved."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/range-DATA"}
    )
    """Folder for range.json and range.png."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        """Measure, print and save."""
        check_data(self.data)
        options = benchmark_options(self.option)
        path = Path(self.data)
        trained = (path / "model.pt").is_file() or path.name == "model.pt"
        if trained:
            self._refuse_for_a_training()
        for name, value in (("--run-number", self.run_number), ("--data", self.moved)):
            if value is not None and not trained:
                raise UsageError(f"{name} is for the output folder of a training; leave it out")
        name = path.parent.name if path.name == "model.pt" else path.name
        output = self.output or default_folder(f"range-{name}")
        there = [output / one for one in FILES if (output / one).exists()]
        if there and not self.overwrite:
            raise UsageError(f"{there[0]} exists; pass --overwrite, or --output another folder")
        # Imported late because they are slow to import.
        from mgnni.cli.range_output import draw_range, show_range
        from mgnni.cli.range_source import measure_data, measure_training

        with result_folder(output):
            found = (measure_training if trained else measure_data)(self, options)
            text = to_json(found)
            saved = write_result(output, FILES, text, partial(draw_range, found))
        if self.json:
            sys.stdout.write(text)
            return
        show_range(found)
        sys.stdout.write(saved)

    def _refuse_for_a_training(self) -> None:
        given: dict[str, Any] = {
            "--gamma": self.gamma,
            "--scales": self.scales,
            "--undirected": self.undirected,
            "--no-self-loops": self.no_self_loops,
            "--normalization": self.normalization != "auto",
            "--initial": self.initial,
            "an option for columns": self.tables.given(),
        }
        for name, value in given.items():
            if value:
                raise UsageError(
                    f"{name} is given by the training {self.data}; leave it out, or measure its "
                    "data"
                )
