"""Measure the range of chains against the scale, and the influence by distance, and draw them.

    python benchmarks/chain_range.py          # measure, store and draw
    python benchmarks/chain_range.py --draw   # draw the stored results

The results are range-scales and range-chains in benchmarks/results, as .json and .png.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from mgnni import Propagation
from mgnni.cli.range_output import draw_range
from mgnni.figures import COLORS, FAINT, INK, new_figure
from mgnni.range import line_influence, resolvent_rows, sound_range
from mgnni.range.influence import Resolvent

RESULTS = Path(__file__).parent / "results"
THETA, GAMMAS, SCALES = 1e-6, (0.5, 0.8, 0.95), (1, 2, 4, 8, 16, 32, 64)
LENGTH = 16001  # nodes, so that no range ends at an end
COMMAND = (
    "range chains --option length=1000 num_chains_per_class=1 directed=false train_fraction=0.3 "
    "--samples 100 --scales 1 8 64"
)


def measure() -> dict[str, Any]:
    """Return the range of a node in the middle of a chain, beside its closed form and bound."""
    middle = LENGTH // 2
    place = torch.arange(LENGTH - 1)
    along = torch.stack([place, place + 1])
    hops = torch.arange(middle + 1)
    rows = []
    for kind, edges in (("undirected", torch.cat([along, along.flip(0)], 1)), ("directed", along)):
        directed = kind == "directed"
        chain = Propagation.from_edge_index(edges, LENGTH, dtype=torch.float64)
        settings = [(gamma, scale) for gamma in GAMMAS for scale in SCALES]
        found = resolvent_rows(
            chain, [Resolvent(*one) for one in settings], torch.tensor([middle]), tol=1e-12
        )
        for (gamma, scale), row in zip(settings, found[:, 0], strict=True):
            influence = row[: middle + 1].flip(0)  # of the nodes before it, by distance
            exact = line_influence(gamma, hops, scale, directed=directed)
            rows.append(
                {
                    "chain": kind,
                    "gamma": gamma,
                    "scale": scale,
                    "measured": _last(influence),
                    "closed": _last(exact),
                    "error": float((influence - exact).abs().max()),
                    "proven": sound_range(THETA, gamma, scale, symmetric=not directed),
                }
            )
    return {"theta": THETA, "length": LENGTH, "rows": rows}


def measure_influence() -> dict[str, Any]:
    """Return the result of ``mgnni range`` on a chain, with the digits that a figure shows."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mgnni", *COMMAND.split(), "--output", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads((Path(folder) / "range.json").read_text("utf-8"))
    for one in found["ranges"]:
        one["profile"] = {"largest": one["profile"]["largest"]}
        for curve in (one["profile"], one):
            for name, values in curve.items():
                if isinstance(values, list):
                    curve[name] = [float(f"{value:.4g}") for value in values]
    return found


def _last(influence: torch.Tensor) -> int:
    return int((influence > THETA).nonzero().max())


def draw(stored: dict[str, Any], path: Path) -> None:
    """Draw the range against the scale, one panel per kind of chain."""
    figure = new_figure(8.2, 3.9, dpi=170)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind, power in zip(panels, ("undirected", "directed"), (0.5, 1.0), strict=True):
        for gamma, color, marker in zip(GAMMAS[::-1], COLORS, "Dso", strict=False):
            rows = [one for one in stored["rows"] if (one["chain"], one["gamma"]) == (kind, gamma)]
            scales, measured = ([one[key] for one in rows] for key in ("scale", "measured"))
            axes.plot(scales, measured, marker, ms=6, color=color, label=f"measured, γ = {gamma:g}")
            axes.plot(scales, [one["proven"] for one in rows], "--", lw=1.1, color=color)
            axes.plot(scales, [one["closed"] for one in rows], "-", lw=1.1, color=color)
        end = 0.6 * rows[-1]["closed"]  # of the guide below the last curve
        guide = [end * (scale / SCALES[-1]) ** power for scale in SCALES]
        axes.plot(SCALES, guide, ":", lw=1.5, color=INK)
        axes.annotate(
            r"$\propto\sqrt{m}$" if power < 1 else r"$\propto m$",
            (SCALES[-2], guide[-2]),
            (6, -12),
            textcoords="offset points",
            size=11,
            color=INK,
        )
        axes.set_title(f"{kind} chain", size=10, color=INK, loc="left")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(SCALES, [str(scale) for scale in SCALES])
        axes.set_xlabel("scale m", size=9, color=FAINT)
        axes.grid(color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, labelsize=8, labelcolor=FAINT)
        axes.minorticks_off()
        axes.spines[:].set_visible(False)
    exponent = round(math.log10(stored["theta"]))
    panels[0].set_ylabel(f"range at θ = 1e{exponent}, in hops", size=9, color=FAINT)
    handles, _ = panels[0].get_legend_handles_labels()
    handles += panels[0].plot([], [], "-", lw=1.1, color=FAINT, label="closed form")
    handles += panels[0].plot([], [], "--", lw=1.1, color=FAINT, label="proven bound")
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path, format="png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw the stored results only")
    scales, chains = RESULTS / "range-scales.json", RESULTS / "range-chains.json"
    if not parser.parse_args().draw:
        scales.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
        chains.write_text(json.dumps(measure_influence()) + "\n", "utf-8")
    draw(json.loads(scales.read_text("utf-8")), scales.with_suffix(".png"))
    with chains.with_suffix(".png").open("wb") as file:
        draw_range(json.loads(chains.read_text("utf-8")), file)
