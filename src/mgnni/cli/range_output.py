"""The table and the figure of ``mgnni range``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mgnni.cli.terminal import console_for, paragraph, small
from mgnni.figures import COLORS, FAINT, INK, new_figure

LINES = (*COLORS, "#56b4e9", "#1b2a49", "#8c8c8c")  # one colour per scale
PANELS = 4  # at most


def show_range(found: Mapping[str, Any]) -> None:
    """Print the ranges, what they mean, and the advice."""
    console = console_for(96)
    graph = found["graph"]
    kind = "undirected" if graph["undirected"] else "directed"
    what = "diameter" if found["is_diameter"] else "longest distance found"
    console.print(
        f"\n  {found['run'] or found['data']}: {graph['nodes']:,} nodes, {kind}, normalization "
        f"{graph['normalization']}; {what} {found['longest']} hops\n",
        soft_wrap=True,
    )
    if found["ranges"]:
        console.print(_table(found))
    if found["model"]:
        one = found["model"]
        paragraph(
            console,
            f"{one['of']} of the trained {one['architecture']}: range {one['range']} hops, "
            f"relative to the influence of a node on itself; mean distance by influence "
            f"{one['profile']['breadth']:.2f} hops",
            style="bold",
        )
        console.print()
    sample = "all nodes" if found["is_diameter"] else f"{found['measured_nodes']:,} random nodes"
    paragraph(
        console,
        f"Range: longest distance at which the influence exceeds theta = {small(found['theta'])}, "
        f"measured for {sample}"
        + ("." if found["is_diameter"] else ", so the true one may be longer."),
        style="dim",
    )
    if found["ranges"]:
        paragraph(
            console,
            "Proven: no pair farther apart exceeds theta, whatever the graph. Paper: the bound as "
            "printed; docs/math.md says where it fails.",
            style="dim",
        )
    console.print()
    for line in found["advice"]["text"].splitlines():
        paragraph(console, line)
    console.print()


def _table(found: Mapping[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    layers = any("layer" in one for one in found["ranges"])
    pairs = any(one["inside"] is not None for one in found["ranges"])
    names = [" gamma", "scale", "λ max", "decay/hop", "range", "proven ≤", "paper <"]
    names = [*([" layer"] if layers else []), *names]
    for name in [*names, *(["labelled pairs in range"] if pairs else [])]:
        table.add_column(name, justify="right")
    for one in found["ranges"]:
        decay = "–" if one["decay"] is None else f"{one['decay']:.3f}"
        inside = "–" if one["inside"] is None else f"{100 * one['inside']:.1f} %"
        table.add_row(
            *([one["layer"]] if layers else []),
            f"{one['gamma']:g}",
            str(one["scale"]),
            f"{one['eigenvalue']:.3g}",
            decay,
            str(one["measured"]),
            "–" if one["proven"] is None else f"{one['proven']:,}",
            f"{max(one['printed'], 0):,.0f}",
            *([inside] if pairs else []),
        )
    return table


def draw_range(found: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draw influence against hops, one panel per gamma and one colour per scale."""
    gammas = list(dict.fromkeys(one["gamma"] for one in found["ranges"]))[:PANELS]
    model = found["model"]
    count = max(len(gammas), 1)
    figure = new_figure(3.2 * count + 2.0, 3.8)
    panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    theta = found["theta"]
    highest = max([1.0, *(one["bound_curve"][0] for one in found["ranges"])])
    for axes, gamma in zip(panels, gammas or [None], strict=True):
        some = [one for one in found["ranges"] if one["gamma"] == gamma]
        reach = max([one["measured"] for one in some] + ([model["range"]] if model else []))
        shown = min(found["longest"], reach + 4) + 1
        for one, color in zip(some, LINES, strict=False):
            name = f"scale {one['scale']}" + (f", layer {one['layer']}" if "layer" in one else "")
            axes.plot(*_curve(one["profile"]["largest"], shown), color=color, lw=2, label=name)
            axes.plot(*_curve(one["bound_curve"], shown), color=color, lw=1.2, ls="--")
            axes.plot(*_curve(one["printed_curve"], shown), color=color, lw=1.2, ls=":")
        if model and model["profile"]["largest"][0] > 0:
            start = model["profile"]["largest"][0]
            relative = [value / start for value in model["profile"]["largest"]]
            axes.plot(*_curve(relative, shown), color=INK, lw=2, label=f"{model['of']}, relative")
        axes.axhline(theta, color=FAINT, lw=0.8)
        axes.set(yscale="log", xlabel="hops", ylim=(theta / 30, 2 * highest))
        if gamma is not None:
            axes.set_title(f"γ = {gamma:g}", loc="left", size=10, color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(which="both", labelsize=8.5, labelcolor=FAINT, color="#cccccc")
        axes.grid(which="major", color="#ececec", linewidth=0.8)
    panels[0].set_ylabel("largest influence of one node on another")
    panels[0].annotate(
        "θ", (0, theta), xytext=(3, 2), textcoords="offset points", color=FAINT, size=9
    )
    handles, _ = panels[0].get_legend_handles_labels()
    for style, name in (("-", "measured"), ("--", "proven bound"), (":", "paper's bound")):
        if found["ranges"]:
            handles += panels[0].plot([], [], style, color=FAINT, label=name)
    figure.legend(handles=handles, frameon=False, fontsize=8.5, loc="outside right upper")
    title = f"{found['run'] or found['data']}: influence by distance"
    figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold", color=INK)
    figure.savefig(file, format="png")


def _curve(values: list[float], shown: int) -> tuple[list[int], list[float]]:
    """Return the points with a positive value, for a logarithmic axis."""
    hops = [hop for hop, value in enumerate(values[:shown]) if value > 0]
    return hops, [values[hop] for hop in hops]
