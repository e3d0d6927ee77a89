"""Progress and results of commands that work on stored terms."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgnni.disk.sweep import Sweep

LINE_EVERY = 15.0  # seconds between lines where there is no terminal


class Follow:
    """Shows the progress of a computation, on standard error."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self._shown = time.monotonic()
        self._begin: dict[str, tuple[float, float]] = {}

    def graph(self, what: str, part: float) -> None:
        """Show progress on the graph."""
        self._show(f"writing {what}", part)

    def term(self, k: int, last: int, part: float) -> None:
        """Show progress on the terms."""
        self._show("computing terms", (k + part) / (last + 1))

    def epoch(self, epoch: int, part: float, best: float | None) -> None:
        """Show progress on an epoch."""
        score = "" if best is None else f", val {100 * best:.1f} %"
        self._show(f"epoch {epoch}{score}", part)

    def _show(self, text: str, part: float) -> None:
        now = time.monotonic()
        begin, first = self._begin.setdefault(text, (now, part))
        if now - self._shown < (0.5 if self.terminal else LINE_EVERY):
            return
        self._shown = now
        left = (now - begin) * (1 - part) / (part - first) if part > first else None
        rest = "" if left is None else f", about {left:.0f} s left"
        line = f"  {text}: {100 * part:.0f} %{rest}"
        sys.stderr.write(f"\r{line:70}" if self.terminal else f"{line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.terminal:
            sys.stderr.write(f"\r{'':70}\r")


@contextmanager
def follow_terms() -> Iterator[Follow]:
    """Yield the callbacks of a computation."""
    follow = Follow()
    try:
        yield follow
    finally:
        follow.end()


def show_terms(folder: Path, quiet: bool) -> dict[str, Any]:
    """Print what was stored, unless ``quiet``, and return it."""
    sweep = Sweep.open(folder)
    terms, graph = sweep.terms, sweep.graph
    size = sum(path.stat().st_size for path in folder.glob("term-*.npy"))
    found = {
        "command": "precompute",
        "folder": str(folder),
        "nodes": graph.num_nodes,
        "entries": graph.nnz,
        "features": graph.features,
        "operator": "symmetric" if graph.symmetric else "directed",
        "scales": list(terms.scales),
        "gamma": terms.gamma,
        "tol": terms.tol,
        "terms": len(terms.index),
        "bytes": size,
    }
    if not quiet:
        sys.stdout.write(
            f"{graph.name}: {graph.num_nodes:,} nodes, {graph.nnz:,} entries, {graph.features} "
            f"features\n{len(terms.index)} terms for scales {', '.join(map(str, terms.scales))}, "
            f"gamma up to {terms.gamma:g} and tol {terms.tol:g}, {size / 2**30:.2f} GiB\n"
            f"Saved in {folder}; train with: mgnni minibatch {folder}\n"
        )
    return found


def show_training(report: dict[str, Any], output: Path, terms: Path) -> None:
    """Print the result of a training by mini-batches."""
    scores = ", ".join(
        f"no {k} nodes" if v is None else f"{k} {100 * v:.2f} %"
        for k, v in report["accuracy"].items()
    )
    baseline = report["baseline"]
    sys.stdout.write(
        f"{report['data']}: accuracy {scores} (rule validation)\n"
        + (f"note: {report['stopped']}\n" if report["stopped"] else "")
        + ("" if baseline is None else f"always the same class: test {100 * baseline:.2f} %\n")
        + f"hidden channels: {report['options']['hidden_channels'] or report['features']}\n"
        f"certified error of the states, relative to the bias: at most "
        f"{max(report['relative_error_bound']):.1e}\n"
        f"{report['seconds']:.0f} s; model.pt and report.json in {output}\n"
        f"Predict with: mgnni predict {output} {terms}\n"
    )
