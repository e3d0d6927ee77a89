"""The picture of a task: degrees, class shares or numbers, and homophily by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from mgnni.figures import BASELINE, COLORS, INK, OURS, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLASSES = 15  # shown, the most frequent and the rarest
LONGEST = 18  # characters of a name


def draw_description(found: Mapping[str, Any], file: IO[bytes]) -> None:
    """Draws a description as PNG.

    Args:
        found (Mapping[str, Any]): A description, see
            :func:`~mgnni.data.inspection.description.describe_task`.
        file (file): Where the picture is written to.
    """
    panels = 3 if found["homophily"] else 2
    figure = new_figure(4.2 * panels, 3.4, dpi=160)
    axes = figure.subplots(1, panels)
    figure.suptitle(literal(found["name"]), color=INK, fontsize=11)
    _degrees(axes[0], found["degree"], found["graph"]["reciprocal"] not in (1.0, None))
    classes = _shown(found["classes"])
    if found["targets"]:
        _numbers(axes[1], found["targets"][0])
    else:
        _shares(axes[1], classes, found["multilabel"])
    if found["homophily"]:
        _homophily(axes[2], found["homophily"], [one["name"] for one in classes])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8, colors=INK)
    figure.savefig(file, format="png")


def _shown(classes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the classes by share; of many, the most frequent and the rarest."""
    order = sorted(classes, key=lambda one: -one["share"])
    if len(order) <= MOST_CLASSES:
        return order
    return [*order[: MOST_CLASSES // 2 + 1], *order[-(MOST_CLASSES // 2) :]]


def _degrees(axes: Axes, degree: Mapping[str, Any], directed: bool) -> None:
    ways = ("in", "out") if directed else ("in",)
    width = 0.8 / len(ways)
    longest = max(len(degree[way]["histogram"]) for way in ways)
    for place, way in enumerate(ways):
        counts = degree[way]["histogram"]
        at = [x + (place - (len(ways) - 1) / 2) * width for x in range(len(counts))]
        label = f"{way}-degree" if directed else "degree"
        axes.bar(at, counts, width, color=COLORS[place], label=label)
    ticks = [_range(place) for place in range(longest)]
    axes.set_xticks(range(longest), ticks, rotation=60 if longest > 6 else 0)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.8)  # so that a single node is seen
    axes.set_xlabel("degree", fontsize=9)
    axes.set_ylabel("nodes", fontsize=9)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("Degrees", fontsize=10, color=INK)


def _range(place: int) -> str:
    """Returns the degrees of a bar: 0, 1, 2 to 3, 4 to 7, and so on."""
    low, high = 2 ** (place - 1) if place else 0, 2**place - 1
    return f"{int(low)}" if low == high or not place else f"{int(low)}–{high}"


def _shares(axes: Axes, classes: Sequence[Mapping[str, Any]], multilabel: bool) -> None:
    places = range(len(classes))
    colors = [BASELINE if one["rare"] else OURS for one in classes]
    bars = axes.barh(list(places), [100 * one["share"] for one in classes], color=colors)
    axes.bar_label(bars, [f"{100 * one['share']:.1f}" for one in classes], fontsize=8, padding=2)
    axes.margins(x=0.15)
    axes.set_yticks(places, [_short(one["name"]) for one in classes])
    axes.invert_yaxis()
    axes.set_xlabel(f"% of {'rows with the label' if multilabel else 'labelled rows'}", fontsize=9)
    rare = any(one["rare"] for one in classes)
    axes.set_title(f"Class shares{' (orange: rare)' if rare else ''}", fontsize=10, color=INK)


def _numbers(axes: Axes, target: Mapping[str, Any]) -> None:
    counts, low = target["histogram"], target["min"]
    width = (target["max"] - low) / len(counts)
    axes.bar([low + (x + 0.5) * width for x in range(len(counts))], counts, width, color=OURS)
    axes.axvline(target["mean"], color=BASELINE, label="mean")
    axes.set_xlabel(_short(target["name"]), fontsize=9)
    axes.set_ylabel("labelled rows", fontsize=9)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("Numbers to predict", fontsize=10, color=INK)


def _homophily(axes: Axes, homophily: Mapping[str, Any], names: Sequence[str]) -> None:
    by_name = {one["name"]: one for one in homophily["by_class"]}
    total = sum(one["ends"] for one in homophily["by_class"])
    here = [100 * (by_name[name]["share"] or 0.0) for name in names]
    chance = [100 * by_name[name]["ends"] / total for name in names]
    places = list(range(len(names)))
    axes.barh(places, here, color=OURS, label="found")
    axes.plot(chance, places, "|", color=BASELINE, ms=14, mew=2, label="by chance")
    axes.set_yticks(places, [_short(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of edges to the same class", fontsize=9)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(f"Homophily ({100 * homophily['edge']:.0f} % of edges)", fontsize=10, color=INK)


def _short(name: str) -> str:
    return literal(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")
