"""The description of a task on standard output, in full and in brief."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mgnni.cli.terminal import console_for, facts, paragraph
from mgnni.data.inspection.advice import advise
from mgnni.data.metric_names import readable
from mgnni.data.tables.messages import counted
from mgnni.train.config import Config
from mgnni.train.source import Source, describe_source

MOST_CLASSES = 20  # in the table
BRIEF_CLASSES = 4
Found = Mapping[str, Any]


def show_description(found: Found) -> None:
    """Print everything that is known about a task, and the advice."""
    console = console_for(96)
    console.print()
    facts(
        console,
        ("data", _size(found)),
        ("split", _parts(found)),
        ("edges", _edges(found)),
        ("degrees", _degrees(found)),
        ("features", _features(found)),
        *([("homophily", _homophily(found["homophily"]))] if found["homophily"] else []),
        ("twins", _twins(found)),
    )
    if found["targets"]:
        show_targets(console, found["targets"])
    else:
        console.print(_class_table(found))
    if len(found["classes"]) > MOST_CLASSES:
        paragraph(console, f"and {len(found['classes']) - MOST_CLASSES} less frequent ones")
    _show_advice(console, found["advice"])
    for note in found["notes"]:
        paragraph(console, f"note: {note}", style="dim")
    console.print()


def show_targets(console: Console, targets: Sequence[Found]) -> None:
    """Print the numbers to predict: a table, or text if the terminal is too narrow for it."""
    table = _target_table(targets)
    if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
        console.print(table)
        return
    console.print()
    facts(console, *map(_target_facts, targets[:MOST_CLASSES]))
    console.print()


def show_source(
    source: Source, config: Config, on_warning: Callable[[str], None] | None = None
) -> None:
    """Print in a few lines what was read of your own data, before it is trained on.

    Args:
        source (Source): The data; nothing is printed about a benchmark.
        config (Config): How it is trained.
        on_warning (Callable[[str], None], optional): Called with the warnings, instead of printing
            anything to standard output. (default: :obj:`None`)
    """
    if source.schema is None:
        return
    found = describe_source(source, config)
    advice = advise(found)
    if on_warning is not None:
        for one in advice:
            if one.warning:
                on_warning(one.text)
        return
    console = console_for(80)
    console.print()
    paragraph(console, f"{_size(found)}; {_features(found)}")
    paragraph(console, f"{_edges(found)}; {_brief_classes(found)}")
    _show_advice(console, [one._asdict() for one in advice])


def _show_advice(console: Console, advice: Sequence[Found]) -> None:
    for one in advice:
        kind = "warning" if one["warning"] else "advice"
        paragraph(console, f"{kind}: {one['text']}", style="bold yellow" if one["warning"] else "")


def _size(found: Found) -> str:
    graph = found["graph"]
    several = f"{graph['graphs']:,} graphs, " if graph["graphs"] > 1 else ""
    return f"{found['name']}: {several}{graph['nodes']:,} nodes, {graph['edges']:,} edges"


def _parts(found: Found) -> str:
    parts = found["parts"]
    shown = " / ".join(f"{count:,}" for count in parts.values())
    without = found["rows"] - sum(parts.values())
    of = f"split {found['split']} of {found['splits']}" if found["splits"] > 1 else "one split"
    return f"{shown} labelled {found['level']}s (train / val / test), {without:,} others; {of}"


def _edges(found: Found) -> str:
    graph, shared = found["graph"], found["graph"]["reciprocal"]
    if shared is None:
        way = "no edges between two nodes"
    elif shared == 1:
        way = "undirected, every edge has its reverse"
    else:
        way = f"directed, {100 * shared:.0f} % of the edges have their reverse"
    more = [way, "weighted" if graph["weighted"] else ""]
    more += [counted(graph["isolated"], "isolated node") if graph["isolated"] else ""]
    more += [counted(graph["self_loops"], "self-loop") if graph["self_loops"] else ""]
    return ", ".join(filter(None, more))


def _degrees(found: Found) -> str:
    undirected = found["graph"]["reciprocal"] == 1
    ways = {"in": "degree" if undirected else "in-degree", "out": "out-degree"}
    return "; ".join(
        f"{name} {one['min']:,} to {one['max']:,}, median {one['median']:g}, mean {one['mean']:.1f}"
        for name, one in (
            (ways[way], found["degree"][way]) for way in ("in", "out")[: 2 - undirected]
        )
    )


def _features(found: Found) -> str:
    features = found["features"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in features["kinds"].items())
    columns = features["columns"]
    of = f" of {columns:,} columns" if columns != features["count"] else ""
    return f"{counted(features['count'], 'feature')}{of}: {kinds}"


def _homophily(homophily: Found) -> str:
    adjusted = homophily["adjusted"]
    more = "" if adjusted is None else f"; adjusted for class sizes {adjusted:.2f} (at most 1)"
    return f"{100 * homophily['edge']:.1f} % of the edges join two nodes of one class{more}"


def _twins(found: Found) -> str:
    twins = found["twins"]
    of = f"{twins['count']:,} of {twins['test']:,} test {found['level']}s"
    share = f"{of} ({100 * twins['share']:.1f} %)"
    more = ""
    if twins["same_targets"] is not None:
        more = f"; {100 * twins['same_targets']:.1f} % have edges to the same nodes as one there"
    return f"{share} have an exact twin in training{more}"


def _brief_classes(found: Found) -> str:
    if found["targets"]:
        return "; ".join(
            f"{one['name']}: {readable(one['min'])} to {readable(one['max'])}, mean "
            f"{readable(one['mean'])} ± {readable(one['deviation'], 2)}"
            for one in found["targets"][:BRIEF_CLASSES]
        )
    order = sorted(found["classes"], key=lambda one: -one["share"])
    shown = [f"{one['name']} {100 * one['share']:.1f} %" for one in order[:BRIEF_CLASSES]]
    more = f" and {len(order) - BRIEF_CLASSES} more" if len(order) > BRIEF_CLASSES else ""
    kind = "labels" if found["multilabel"] else "classes"
    return f"{len(order)} {kind}: {', '.join(shown)}{more}"


def _target_table(targets: Sequence[Found]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    names = ("rows", "mean", "deviation", "min", "25 %", "median", "75 %", "max", "neighbours")
    for name in ("target", *names):
        table.add_column(name, justify="left" if name == "target" else "right")
    for one in targets[:MOST_CLASSES]:
        shared = "–" if one["neighbours"] is None else f"{one['neighbours']:.2f}"
        values = [one[name] for name in ("mean", "deviation", "min")]
        cells = map(readable, [*values, *one["quartiles"], one["max"]])
        table.add_row(one["name"], f"{one['train'] + one['val']:,}", *cells, shared)
    return table


def _target_facts(one: Found) -> tuple[str, str]:
    """Return a row of the table of targets as text, which can be wrapped."""
    shared = "–" if one["neighbours"] is None else f"{one['neighbours']:.2f}"
    low, middle, high = map(readable, one["quartiles"])
    return one["name"], (
        f"{one['train'] + one['val']:,} rows, mean {readable(one['mean'])}, deviation "
        f"{readable(one['deviation'])}, min {readable(one['min'])}, quartiles {low}, {middle}, "
        f"{high}, max {readable(one['max'])}, neighbours {shared}"
    )


def _class_table(found: Found) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("label" if found["multilabel"] else "class")
    by_class = {one["name"]: one for one in (found["homophily"] or {"by_class": []})["by_class"]}
    names = ["train", "val", "share %", *(["same class %"] if by_class else []), ""]
    for name in names:
        table.add_column(name, justify="right" if name else "left")
    order = sorted(found["classes"], key=lambda one: -one["share"])
    for one in order[:MOST_CLASSES]:
        cells = [one["name"], f"{one['train']:,}", f"{one['val']:,}", f"{100 * one['share']:.1f}"]
        if by_class:
            share = by_class[one["name"]]["share"]
            cells.append("–" if share is None else f"{100 * share:.1f}")
        majority = found["majority"] and found["majority"]["class"] == one["name"]
        table.add_row(*cells, "majority" if majority else "rare" if one["rare"] else "")
    return table
