"""How far does a label travel? Trains every model on chains of growing length, and draws it.

    python benchmarks/chains.py                            the paper's models, 10 to 200 nodes
    python benchmarks/chains.py --data colors --lengths 20 50 100 --models mgnni ignn gcn
    python benchmarks/chains.py --jobs 8                   eight trainings at a time on one device
    python benchmarks/chains.py --exact                    implicit models trained to 1e-14, float64
    python benchmarks/chains.py --draw                     only the figure, from the stored results

Every model has its own hyperparameters. Stored results are not trained again, unless they failed.
Next to the accuracy is that of the same weights with their equation solved much more accurately in
double precision: if the two differ, the solver limited the distance and not the model.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from mgnni import fit
from mgnni.cli.bench_output import BASELINE, FAINT, INK, OTHERS, OURS
from mgnni.cli.terminal import small
from mgnni.data.registry import MAKERS
from mgnni.errors import ConvergenceError, MgnniError
from mgnni.files import atomic_write
from mgnni.models.catalog import MODELS
from mgnni.train.config import changed
from mgnni.train.fitted import Fitted
from mgnni.train.learner import prepared
from mgnni.train.presets import preset_for
from mgnni.train.report import to_json

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no messages about font caches

RESULTS = Path(__file__).parent / "results"
LENGTHS = (10, 20, 50, 100, 150, 200)
NAMES = ("mgnni", "eignn", "ignn", "cgs", "gcn", "sgc", "gat", "appnp", "jknet", "gcnii")
LAST_DIGITS: dict[str, Any] = {"precision": "64", "tol": 1e-14}  # of the second evaluation
KNOWN = 0.95  # accuracy from which a label counts as known at a distance
SEEN = 0.02  # a dotted line closer than this to its solid one is not drawn
GAP = 0.047  # between two names in the margin, relative to the height
FORMAT = 1

TITLES = {
    "chains": ("How far does a label travel?", "whose first node alone knows the class"),
    "colors": ("How far does the colour count travel?", "whose first ten nodes have the colours"),
}
# Colours of Okabe and Ito; explicit models are grey, because their curves coincide.
COLORS = dict(
    zip(("eignn", "mgnni", "ignn", "cgs"), (BASELINE, OURS, "#009e73", "#cc79a7"), strict=True)
)
MARKERS = "sD^v<>PX"
SHOWN = {"jknet": "JKNet"}


@dataclass(frozen=True)
class Case:
    """One model on chains of one length."""

    data: str
    model: str
    length: int
    splits: int
    epochs: int | None = None
    exact: bool = False

    @property
    def changes(self) -> dict[str, Any]:
        """Changes of the model's own hyperparameters."""
        solved = hasattr(preset_for(self.data, model=self.model).model, "tol")
        return {
            **({} if self.epochs is None else {"epochs": self.epochs, "patience": None}),
            **(LAST_DIGITS if self.exact and solved else {}),
        }

    @property
    def options(self) -> dict[str, Any]:
        """Options of the benchmark."""
        return {"length": self.length, "num_splits": self.splits}

    def row(self, **found: Any) -> dict[str, Any]:
        """Return a row of the results."""
        return {"case": asdict(self), **found}


def measure(case: Case, device: str) -> dict[str, Any]:
    """Train a model on all splits, and return its accuracy and that of its solves."""
    try:
        fitted = fit(
            case.data,
            model=case.model,
            options=case.options,
            split="all",
            device=device,
            **case.changes,
        )
        exact = exact_score(fitted, case)
    except MgnniError as error:  # for example an equation that is not solved
        return case.row(error=str(error))
    report = fitted.report
    solver = report["solver"].values()
    return case.row(
        **report["score"],
        exact=exact,
        reach=reach(outcomes(fitted, case)),
        trained=[run["epochs"] for run in report["runs"]],
        seconds=report["seconds"],
        parameters=report["parameters"],
        relative_residual=max(one["relative_residual"] for one in solver),
        relative_error_bound=max(one["relative_error_bound"] for one in solver),
        config=report["config"],
        device=report["device"],
        versions=report["versions"],
        commit=report["commit"],
    )


@torch.no_grad()
def outcomes(fitted: Fitted, case: Case) -> list[tuple[Tensor, Tensor]]:
    """Return the distances of the test nodes of each run, and whether their class is right.

    Computed from logits: at the end of a chain their differences may vanish in probabilities.
    """
    device = torch.device(fitted.report["device"].split()[0])
    graph = prepared(MAKERS[case.data](**case.options), fitted.config)
    test = graph.test_mask.view(graph.num_nodes, -1)
    found = []
    for run in range(len(fitted.runs)):
        model = fitted.model(run).to(device)
        x = graph.x.to(next(model.parameters()))
        right = model(x, graph.edge_index.to(device)).argmax(1).cpu() == graph.y
        rows = test[:, fitted.runs[run].split]
        found.append((graph.hop[rows], right[rows]))
    return found


def exact_score(fitted: Fitted, case: Case) -> float | None:
    """Return the accuracy of the same weights, solved to 1e-14; None if that fails."""
    if not hasattr(fitted.config.model, "tol"):
        return None
    again = replace(fitted, config=changed(fitted.config, LAST_DIGITS))
    try:
        right = [right for _, right in outcomes(again, case)]
    except ConvergenceError:  # limited by rounding
        return None
    return float(torch.stack([one.double().mean() for one in right]).mean())


def reach(found: Sequence[tuple[Tensor, Tensor]]) -> int | None:
    """Return the largest distance up to which the class is known; None if not even at 0."""
    hop, right = (torch.cat(parts) for parts in zip(*found, strict=True))
    known = [bool(right[hop == h].double().mean() >= KNOWN) for h in hop.unique().tolist()]
    far = hop.unique()[: known.index(False) if False in known else None]
    return int(far[-1]) if far.numel() else None


def run(cases: Sequence[Case], jobs: int, device: str) -> Iterator[dict[str, Any]]:
    """Yield the row of every case when it is finished."""
    if jobs == 1:
        yield from (measure(case, device) for case in cases)
        return
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, spawn, torch.set_num_threads, (threads,)) as pool:
        for done in as_completed([pool.submit(measure, case, device) for case in cases]):
            yield done.result()


def load(path: Path) -> list[dict[str, Any]]:
    """Return the stored rows."""
    return json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return list(MODELS).index(row["case"]["model"]), row["case"]["length"]


def save(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Store the rows, sorted by model and length."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(rows, key=_place)
    with atomic_write(path) as file:
        file.write(to_json({"format": FORMAT, "command": "chains", "rows": ordered}).encode())


def draw(rows: Sequence[Mapping[str, Any]], file: IO[bytes]) -> None:
    """Draw accuracy against length, one curve per model, as a PNG."""
    figure = Figure(figsize=(7.6, 4.8), dpi=200, facecolor="white")
    axes = figure.add_subplot()
    figure.subplots_adjust(left=0.083, right=0.81, top=0.845, bottom=0.15)
    curves: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=_place):
        curves.setdefault(row["case"]["model"], []).append(row)
    dotted = [_curve(axes, name, curve) for name, curve in curves.items()]
    if any(dotted):
        told = "Dotted: the same weights, their equation solved in float64 to "
        told += small(LAST_DIGITS["tol"])
        figure.text(0.083, 0.025, told, size=8.5, color=FAINT)
    _frame(axes, rows)
    _labels(axes, {name: curve[-1] for name, curve in curves.items()})
    title, what = TITLES[rows[0]["case"]["data"]]
    runs = {row["n"] for row in rows}
    spread = ""
    if runs == {1}:
        spread = "; one run each"
    elif len(runs) == 1:
        spread = f"; mean ± standard deviation of {runs.pop()} splits"
    figure.text(0.083, 0.935, title, size=14, weight="bold", color=INK)
    figure.text(0.083, 0.883, f"Test accuracy on chains {what}{spread}", size=9.5, color=FAINT)
    figure.savefig(file, format="png")


def _curve(axes: Axes, name: str, curve: Sequence[Mapping[str, Any]]) -> bool:
    """Draw the mean with its band, and dotted the same weights solved exactly if that differs."""
    color, marker, width = _look(name)
    x, mean = [row["case"]["length"] for row in curve], [row["mean"] for row in curve]
    exact = [row["mean"] if row["exact"] is None else row["exact"] for row in curve]
    if name in COLORS:
        low, high = (
            [row["mean"] + sign * (row["std"] or 0.0) for row in curve] for sign in (-1, 1)
        )
        axes.fill_between(x, low, [min(y, 1.0) for y in high], color=color, alpha=0.14, linewidth=0)
    dotted = max(abs(a - b) for a, b in zip(mean, exact, strict=True)) >= SEEN
    if dotted:
        axes.plot(x, exact, color=color, linewidth=1.4, linestyle=(0, (1, 1.6)), zorder=3)
    # Of curves that coincide, the thinner one is on top.
    axes.plot(x, mean, color=color, marker=marker, ms=2 + width, lw=width, zorder=4 - width / 4)
    return dotted


def _look(name: str) -> tuple[str, str, float]:
    """Return colour, marker and width of a curve; explicit models differ only by marker."""
    if name in COLORS:
        return COLORS[name], "o", 3.2 if name == "eignn" else 2.0
    return OTHERS, MARKERS[list(MODELS).index(name) % len(MARKERS)], 1.2


def _frame(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    lengths = sorted({row["case"]["length"] for row in rows})
    room = 0.02 * (lengths[-1] - lengths[0] or 1)
    bottom = max(min(0.42, min(row["mean"] for row in rows) - 0.05), -0.03)
    axes.set_xlim(lengths[0] - room, lengths[-1] + room)
    axes.set_ylim(bottom, 1.03)
    ticks = [tick for tick in range(0, 101, 10) if tick / 100 > bottom + 0.03]
    axes.set_yticks([tick / 100 for tick in ticks], [f"{tick} %" for tick in ticks])
    axes.set_xticks(lengths)
    axes.set_xlabel("Nodes of a chain", size=10, color=INK)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=FAINT)
    axes.spines[:].set_visible(False)
    axes.axhline(0.5, color=FAINT, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        "chance",
        (lengths[0], 0.5),
        (0, -4),
        textcoords="offset points",
        va="top",
        size=9,
        color=FAINT,
    )


def _labels(axes: Axes, ends: Mapping[str, Mapping[str, Any]]) -> None:
    """Name every curve in the margin at its end; names that would overlap are moved."""
    bottom, top = axes.get_ylim()
    names = sorted(ends, key=lambda name: -ends[name]["mean"])
    gap = GAP * (top - bottom)
    y = [ends[name]["mean"] for name in names]
    for place in range(1, len(y)):
        y[place] = min(y[place], y[place - 1] - gap)
    below = bottom - y[-1] + gap / 2  # too many at the bottom: all are pushed up
    for place in reversed(range(len(y))):
        floor = y[place + 1] + gap if place + 1 < len(y) else bottom + gap / 2
        y[place] = max(y[place], floor) if below > 0 else y[place]
    margin = axes.get_yaxis_transform()
    for name, level in zip(names, y, strict=True):
        color, marker, _ = _look(name)
        end, length = ends[name]["mean"], ends[name]["case"]["length"]
        start = axes.transAxes.inverted().transform(axes.transData.transform((length, end)))[0]
        axes.plot([start, 1.03], [end, level], transform=margin, color=color, lw=0.6, clip_on=False)
        axes.plot(1.03, level, marker, ms=4, transform=margin, color=color, clip_on=False)
        axes.annotate(
            f"{SHOWN.get(name, name.upper())}  {100 * end:.0f} %",
            (1.03, level),
            (7, 0),
            xycoords=margin,
            textcoords="offset points",
            va="center",
            size=9,
            weight="bold" if name in COLORS else "normal",
            color=color if name in COLORS else FAINT,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, store it, and draw all stored results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="chains", choices=TITLES)
    parser.add_argument("--models", nargs="+", default=NAMES, choices=MODELS)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--splits", type=int, default=5, help="runs per length, trained at once")
    parser.add_argument(
        "--epochs", type=int, help="instead of the model's own, without early stopping"
    )
    parser.add_argument("--exact", action="store_true", help="train in float64, to 1e-14")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel trainings")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--draw", action="store_true", help="train nothing, only draw")
    asked = parser.parse_args(arguments)
    path = asked.output / f"{asked.data}{'-exact' if asked.exact else ''}.json"
    rows = {(row["case"]["model"], row["case"]["length"]): row for row in load(path)}
    done = [row["case"] for row in rows.values() if "error" not in row]
    # The longest first, so that the last to finish is a short one.
    cases = [
        Case(asked.data, model, length, asked.splits, asked.epochs, asked.exact)
        for length in sorted(asked.lengths, reverse=True)
        for model in asked.models
    ]
    missing = [] if asked.draw else [case for case in cases if asdict(case) not in done]
    for row in run(missing, asked.jobs, asked.device):
        data, model, length = (row["case"][key] for key in ("data", "model", "length"))
        rows[model, length] = row
        save(rows.values(), path)
        told = row.get("error") or f"{100 * row['mean']:.2f} %, {row['seconds']:.0f} s"
        print(f"{data} {length} {model}: {told}", flush=True)
    good = [row for row in rows.values() if "error" not in row]
    if good:
        with atomic_write(path.with_suffix(".png")) as file:
            draw(good, file)


if __name__ == "__main__":
    main()
