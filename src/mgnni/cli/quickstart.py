"""``mgnni quickstart``: why several scales help, on a synthetic task."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.folders import writable_folder
from mgnni.files import atomic_write, to_json, write_object

if TYPE_CHECKING:
    from rich.console import Console
    from torch_geometric.data import Data

    from mgnni.train.fitted import Fitted

COLORED = 10  # nodes at the start of every chain that have a colour
MAX_LENGTH, MAX_NODES = 100_000, 2_000_000  # larger values are probably typing errors
SCALES = ((1,), (1, 4, 8))
BINS = 4  # ranges of distances in the table
EXACT: dict[str, Any] = {"precision": "64", "tol": 1e-12}  # of the second evaluation
TRAINING: dict[str, Any] = {
    "hidden_channels": None,
    "input_map": "identity",
    "gamma": 0.8,
    "dropout": 0.5,
    "lr": 0.01,
    "weight_decay": 5e-4,
    "patience": None,
    "stopping": "metric",
    "tol": 1e-6,
}
NEXT = """
  Next, in Python:
      from mgnni import MGNNI
      model = MGNNI(in_channels, hidden_channels, out_channels, scales=(1, 4, 8))
      logits = model(x, edge_index)"""


@dataclass(frozen=True, kw_only=True)
class Quickstart(Command):
    """See in about a minute why several scales help.

    Trains MGNNI with scale 1, and with scales 1, 4 and 8, to predict at every node of a chain
    which of two colours is more frequent at its start. Prints the accuracy by distance and how
    accurately the equilibrium equations were solved, and saves a figure and a report.

    Example: mgnni quickstart --length 80 --output longer-chains
    """

    length: int = 50
    """Nodes per chain; the first 10 are coloured."""
    chains: int = 60
    """Chains per class; there are two classes."""
    epochs: int = 100
    """Training epochs of both models; the best epoch on the validation chains counts."""
    runs: int = 3
    """Repetitions, each with its own split of the chains and initial weights."""
    seed: int = 1000
    """Random seed. The hyperparameters were chosen with other seeds."""
    output: Path = Path("mgnni-quickstart")
    """Folder for the figure and the report."""

    def run(self) -> None:
        """Train, evaluate, print and save."""
        start = time.perf_counter()
        self._check()
        folder = writable_folder(self.output)
        # Imported late because they are slow to import.
        from mgnni.cli.terminal import console_for
        from mgnni.data.chains import color_chains
        from mgnni.figures import new_figure
        from mgnni.train.report import versions

        new_figure(1, 1)  # a missing matplotlib is reported before the training
        options = self._data()
        graph = color_chains(**options)  # the data of the benchmark, with distances
        example = graph.x[:COLORED].argmax(1).tolist()
        console = console_for()
        if not self.json:
            self._introduce(console, example)
        files = {"picture": folder / "accuracy.png", "report": folder / "report.json"}
        report = {
            "command": "quickstart",
            "format": 2,
            "task": "colour counting on undirected chains",
            "rule": "validation: the epoch best on the validation chains; the test chains are "
            "used once, at the end",
            "config": {**options, **TRAINING, "epochs": self.epochs, "exact_tol": EXACT["tol"]},
            "example": example,
            "chance": 0.5,
            "models": [self._train(scales, options, graph) for scales in SCALES],
            "seconds": time.perf_counter() - start,
            "device": "cpu",
            "threads": 1,
            "versions": versions(),
            "files": {name: str(path) for name, path in files.items()},
        }
        with atomic_write(files["picture"]) as file:
            draw(report, file)
        write_object(files["report"], report)
        if self.json:
            sys.stdout.write(to_json(report))
        else:
            show(console, report)

    def _check(self) -> None:
        for option, value, least, most in (
            ("length", self.length, COLORED + 1, MAX_LENGTH),
            ("chains", self.chains, 5, MAX_NODES),
            ("epochs", self.epochs, 1, MAX_NODES),
            ("runs", self.runs, 1, MAX_NODES),
            ("seed", self.seed, 0, 2**62),
        ):
            if not least <= value <= most:
                raise UsageError(
                    f"--{option} must be between {least} and {most} (got {value}); "
                    f"leave it out for {getattr(Quickstart, option)}"
                )
        if 2 * self.chains * self.length > MAX_NODES:
            raise UsageError(
                f"--chains and --length must make at most {MAX_NODES} nodes (got 2 x {self.chains} "
                f"x {self.length}); lower one of them"
            )

    def _data(self) -> dict[str, Any]:
        """Return the options of the benchmark ``colors``."""
        return {
            "num_chains_per_class": self.chains,
            "length": self.length,
            "colored": COLORED,
            "num_features": 16,  # two colours, and room for the states
            "seed": self.seed,
            "split": "chains",  # no chain is in two of training, validation and test set
            "num_splits": self.runs,
            "train_fraction": 0.2,
            "val_fraction": 0.2,
        }

    def _introduce(self, console: Console, example: Sequence[int]) -> None:
        from mgnni.cli.terminal import paragraph

        tail = min(self.length - COLORED, 60)
        dots = "·" * tail + "…" * (tail < self.length - COLORED)
        chain = "".join("○●"[color] for color in example) + dots
        part = 2 * round(0.2 * self.chains)
        console.print(f"\n  {chain}\n", no_wrap=True, overflow="crop")
        paragraph(
            console,
            f"Colour counting. A chain has {self.length} nodes; the first {COLORED} have one of "
            "two colours. Every node must predict which of the two is more frequent. "
            f"{2 * self.chains} chains: {part} for training, {part} for validation, "
            f"{2 * (self.chains - part)} for testing.\n",
        )

    def _train(
        self, scales: tuple[int, ...], options: Mapping[str, Any], graph: Data
    ) -> dict[str, Any]:
        """Train one model in all runs, and return its part of the report."""
        from mgnni.cli.progress import follow_training
        from mgnni.train.config import changed
        from mgnni.train.fit import fit

        name = f"MGNNI {{{', '.join(map(str, scales))}}}"
        with follow_training(self.runs, self.epochs, None, name) as clock:
            fitted = fit(
                "colors",
                options=dict(options),
                split="all",
                seed=self.seed,
                device="cpu",
                deterministic=True,
                scales=scales,
                epochs=self.epochs,
                on_epoch=clock,
                **TRAINING,
            )
        report = fitted.report or {}
        exact = replace(fitted, config=changed(fitted.config, EXACT))
        return {
            "name": name,
            "scales": list(scales),
            **_accuracy(fitted, graph),
            "float64": _accuracy(exact, graph),  # the same weights, solved much more accurately
            "val_accuracy": _spread([run["val"]["accuracy"] for run in report["runs"]]),
            "best_epoch": [run["best_epoch"] for run in report["runs"]],
            **report["solver"],
            "seconds": report["seconds"],
        }


def _accuracy(fitted: Fitted, graph: Data) -> dict[str, Any]:
    """Return the test accuracy of all runs, by distance from the coloured nodes."""
    test = graph.test_mask.view(graph.num_nodes, -1)
    hops = int(graph.hop.max())
    overall, by_hop = [], []
    for run in range(len(fitted.runs)):
        correct = (fitted.predict(run=run) == graph.y)[test[:, run]].double()
        hop = graph.hop[test[:, run]]
        overall.append(float(correct.mean()))
        by_hop.append([float(correct[hop == h].mean()) for h in range(hops + 1)])
    return {
        "test_accuracy": _spread(overall),
        "by_distance": [
            {"hops": [a, b], **_spread([statistics.fmean(run[a : b + 1]) for run in by_hop])}
            for a, b in hop_bins(hops)
        ],
        "by_hop": [
            {"hop": hop, **_spread(runs)} for hop, runs in enumerate(zip(*by_hop, strict=True))
        ],
    }


def hop_bins(hops: int) -> list[tuple[int, int]]:
    """Split the distances into 0, the coloured nodes, and at most four equal ranges."""
    width = max(math.ceil(hops / BINS), 1)
    return [(0, 0), *((a, min(a + width - 1, hops)) for a in range(1, hops + 1, width))]


def _spread(runs: Sequence[float]) -> dict[str, Any]:
    std = statistics.stdev(runs) if len(runs) > 1 else None
    return {"mean": statistics.fmean(runs), "std": std, "runs": list(runs)}


def show(console: Console, report: Mapping[str, Any]) -> None:
    """Print the accuracy by distance, the accuracy of the solves, and the saved files."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from mgnni.cli.terminal import small

    def percent(spread: Mapping[str, Any]) -> str:
        mean = f"{100 * spread['mean']:.1f}"
        return mean if spread["std"] is None else f"{mean} ± {100 * spread['std']:.1f}"

    models, config = report["models"], report["config"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("  Test accuracy, %")
    for model in models:
        table.add_column(model["name"], justify="right", no_wrap=True)
    for index, part in enumerate(models[0]["by_distance"]):
        first, last = part["hops"]
        hops = str(first) if first == last else f"{first} to {last}"
        label = f"{hops} hops away" if last else "coloured nodes"
        table.add_row(f"  {label}", *(percent(model["by_distance"][index]) for model in models))
    table.add_row("  all nodes", *(percent(m["test_accuracy"]) for m in models), style="bold")
    exact = f"  all nodes, solved to {small(config['exact_tol'])} in float64"
    cells = [percent(model["float64"]["test_accuracy"]) for model in models]
    table.add_row(exact, *cells, end_section=True)
    table.add_row("  solver", *(", ".join(model["forward"]["solvers"]) for model in models))
    for label, direction, key in (
        (f"relative residual (tol {small(config['tol'])})", "forward", "relative_residual"),
        ("certified relative error, states", "forward", "relative_error_bound"),
        ("certified relative error, gradients", "backward", "relative_error_bound"),
    ):
        table.add_row(f"  {label}", *(f"{model[direction][key]:.1e}" for model in models))
    table.add_row("  seconds", *(f"{model['seconds']:.0f}" for model in models))
    console.print(table)
    saved = " and ".join(report["files"].values())
    console.print(f"  Saved {saved} after {report['seconds']:.0f} s.{NEXT}", soft_wrap=True)


def draw(report: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw accuracy against distance, one curve per model, as a PNG."""
    from mgnni.cli.terminal import small
    from mgnni.figures import BASELINE, FAINT, INK, OURS, new_figure, plain_axes

    config = report["config"]
    figure = new_figure(7.6, 4.4)
    axes = figure.subplots()
    for model, color in zip(report["models"], (BASELINE, OURS), strict=True):
        mean = [point["mean"] for point in model["by_hop"]]
        std = [point["std"] or 0.0 for point in model["by_hop"]]
        exact = [point["mean"] for point in model["float64"]["by_hop"]]
        low = [max(m - s, 0.0) for m, s in zip(mean, std, strict=True)]
        high = [min(m + s, 1.0) for m, s in zip(mean, std, strict=True)]
        axes.fill_between(range(len(mean)), low, high, color=color, alpha=0.14, linewidth=0)
        axes.plot(exact, color=color, linewidth=1.4, linestyle=":")
        axes.plot(mean, color=color, linewidth=2.4, label=model["name"])
    axes.axhline(report["chance"], color=FAINT, linewidth=1.1, linestyle="--", label="chance")
    axes.set_title("How far does the colour count travel?", loc="left", weight="bold", color=INK)
    axes.set_xlabel(
        f"Hops from the coloured nodes (dotted: solved to {small(config['exact_tol'])})"
    )
    axes.set_ylabel("Accuracy on unseen chains")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_ylim(top=1.03)
    plain_axes(axes, "y")
    figure.legend(frameon=False, labelcolor="linecolor", loc="outside lower center", ncols=3)
    figure.savefig(file, format="png")
