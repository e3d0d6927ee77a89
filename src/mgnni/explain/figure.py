"""A drawing of an explanation: the neighbourhood, and where the contributions come from."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch

from mgnni.data.metric_names import readable
from mgnni.explain.explanation import Explanation
from mgnni.explain.layout import ring_layout, stress_layout
from mgnni.explain.report import Names, summarize
from mgnni.figures import BASELINE, FAINT, INK, OURS, literal, new_figure
from mgnni.graph.propagation import Propagation
from mgnni.range.hops import hops_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NODES, NAMED, BARS = 40, 15, 10  # nodes drawn and named, and bars, at most
SMALL = 5e-4  # share of all contributions that is too small for a bar
FAR = 6.0  # distance at which nodes without a path are drawn


def draw_explanation(explanation: Explanation, names: Names, file: IO[bytes]) -> None:
    """Draw the nodes with the largest contributions, and bars of paths, hops and features.

    Args:
        explanation (Explanation): The explanation.
        names (Names): Names of classes, features and nodes.
        file (IO[bytes]): Where to write the PNG.
    """
    found = summarize(explanation, names, top=max(NODES, BARS))
    panels = {
        "by scale": list(found["paths"].items()) if len(found["paths"]) > 1 else [],
        "by distance in hops": [
            ("no path" if one["hops"] < 0 else str(one["hops"]), one["contribution"])
            for one in found["hops"]
            if one["size_share"] >= SMALL
        ],
        "by feature, of all nodes": [
            (str(one["feature"]), one["contribution"]) for one in found["features"]
        ],
    }
    filled = {title: bars[:BARS] for title, bars in panels.items() if bars}
    figure = new_figure(10.5, 6.2, dpi=160)
    grid = figure.add_gridspec(max(len(filled), 1), 2, width_ratios=[1.9, 1])
    _draw_network(figure.add_subplot(grid[:, 0]), explanation, names, found)
    for row, (title, bars) in enumerate(filled.items()):
        _draw_bars(figure.add_subplot(grid[row, 1]), title, bars)
    number = found["probability"] is None
    what = f"{found['level']} {found['target']}: {'' if number else 'class '}{found['class']}"
    what += f" rather than {found['against']}" if found["against"] is not None else ""
    what += (
        f" {readable(found['output'], 6)}"
        if number
        else f", probability {found['probability']:.2f}"
    )
    figure.suptitle(
        literal(what),
        x=0.01,
        ha="left",
        size=12,
        weight="bold",
        color=INK,
    )
    figure.savefig(file, format="png")


def _draw_network(
    axes: Axes, explanation: Explanation, names: Names, found: dict[str, Any]
) -> None:
    shown = explanation.top_nodes(NODES)
    target = explanation.node
    if target is not None and target not in shown.tolist():
        shown = torch.cat([torch.tensor([target]), shown[: NODES - 1]])
    place = {node: index for index, node in enumerate(shown.tolist())}
    inside = torch.isin(explanation.edge_index, shown).all(0)
    pairs = [(place[a], place[b]) for a, b in explanation.edge_index[:, inside].T.tolist()]
    edges = np.array([pair for pair in pairs if pair[0] != pair[1]], dtype=np.int64)
    edges = edges.reshape(-1, 2).T
    if explanation.hops is not None:
        points = ring_layout(explanation.hops[shown].numpy().astype(np.int64), edges)
    else:
        count = explanation.nodes.numel()
        graph = Propagation.from_edge_index(explanation.edge_index, count)
        distance = hops_to(graph, shown)[:, shown].double().numpy()
        points = stress_layout(np.where(distance < 0, FAR, distance))
    value = explanation.nodes[shown].numpy()
    # The target is often much larger than all others, and is drawn with the colour of the end.
    others = value[[node != target for node in shown.tolist()]]
    largest = max(float(np.abs(others).max(initial=0)), 1e-300)
    for a, b in edges.T.tolist():
        axes.plot(*points[[a, b]].T, color="#d8d8d8", lw=0.5, zorder=1)
    size = 40 + 300 * np.minimum(np.abs(value) / largest, 1)
    outline = [INK if node == target else "white" for node in shown.tolist()]
    dots = axes.scatter(
        points[:, 0],
        points[:, 1],
        s=size,
        c=value,
        cmap=_colors(),
        vmin=-largest,
        vmax=largest,
        edgecolors=outline,
        linewidths=1.2,
        zorder=2,
    )
    for index, node in enumerate(shown.tolist()[:NAMED]):
        name = str(node if names.ids is None else names.ids[node])
        label = names.labels.get(node)
        text = name if label is None else f"{name} ({label})"
        axes.annotate(
            literal(text if len(text) <= 24 else text[:23] + "…"),
            points[index],
            xytext=(0, 4 + size[index] ** 0.5 / 2),
            textcoords="offset points",
            ha="center",
            size=7,
            color=INK,
            zorder=3,
        )
    bar = axes.figure.colorbar(
        dots,
        ax=axes,
        orientation="horizontal",
        shrink=0.5,
        pad=0.02,
        extend="neither" if target is None else "both",
        ticks=[-largest, 0, largest],
        format="%+.2g",
        label="contribution",
    )
    bar.outline.set_visible(False)
    share = float(np.abs(value).sum()) / max(float(explanation.nodes.abs().sum()), 1e-300)
    every = found["contributing_nodes"]
    rings = ", on rings by distance" if explanation.hops is not None else ""
    axes.set_title(
        f"{len(shown)} of {every:,} contributing nodes{rings}; {100 * share:.0f} % of all "
        "contributions in size",
        loc="left",
        size=8.5,
        color=FAINT,
    )
    axes.margins(0.12)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _colors() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", [BASELINE, "#f4f4f4", OURS])


def _draw_bars(axes: Axes, title: str, bars: list[tuple[str, float]]) -> None:
    """Draw one horizontal bar per name, the first on top."""
    labels = [name if len(name) <= 22 else name[:21] + "…" for name, _ in bars]
    values = [value for _, value in bars]
    places = list(range(len(bars)))
    axes.barh(places, values, color=[OURS if value >= 0 else BASELINE for value in values])
    axes.set_yticks(places, list(map(literal, labels)))
    axes.invert_yaxis()
    axes.axvline(0, color=FAINT, lw=0.8)
    axes.set_title(title, loc="left", size=9, color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(labelsize=7.5, labelcolor=FAINT, color="#cccccc", length=2)
