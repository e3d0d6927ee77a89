"""The tables of ``mgnni explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mgnni.cli.terminal import console_for, paragraph
from mgnni.data.metric_names import readable

WIDE = 40  # characters of a name
LARGE = 0.05  # gap, relative, that is worth a warning
SMALL = 5e-4  # share of all contributions of distances that are shown as one


def show_explanation(found: Mapping[str, Any]) -> None:
    """Print the prediction, what carried it, and how complete the explanation is."""
    console = console_for(96)
    change = found["output"] - found["baseline_output"]
    digits = _digits(found)
    is_class = found["class"] == found["predicted"]
    label = f", label {found['label']}" if found["label"] is not None else ""
    other = "" if is_class else f"; explained: {found['class']}"
    console.print()
    number = found["probability"] is None
    answer = f"{found['class']} {readable(found['output'], 6)}"
    if not number:
        share = f"{found['probability']:.3f}"
        answer = f"{found['predicted']}{other}, probability of {found['class']} {share}"
    if not number and found["predicted"] is None:  # one of several labels
        answer = f"not {found['class']}, probability {share}"
    paragraph(
        console,
        f"{found['level']} {found['target']} of {found['data']}{label}: predicted {answer}",
        style="bold",
    )
    threshold = found["threshold"]
    if is_class and threshold is not None and found["probability"] <= 0.5:
        paragraph(
            console,
            f"{found['class']} is predicted from a probability of {threshold:.4g}, the threshold "
            "that was chosen on validation data.",
        )
    what = f"{'' if number else 'logit of '}{found['class']}"
    if found["against"] is not None:
        several = "the mean of all others" if found["against"] == "others" else None
        what += f" minus {several or 'that of ' + found['against']}"
    baseline = "all features zero" if found["baseline"] == "zero" else "the mean of all features"
    paragraph(
        console,
        f"{what}: {found['output']:{digits}}, and {found['baseline_output']:{digits}} with "
        f"{baseline}; the contributions below add up to the difference, {change:+{digits}}",
    )
    if found["against"] is None and is_class and change < 0 and not number:
        paragraph(
            console,
            "The features lower this logit; --against others compares it with the other classes.",
        )
    console.print()
    console.print(_node_table(found, digits))
    paragraph(
        console,
        f"{len(found['nodes'])} of {found['contributing_nodes']:,} contributing nodes, with "
        f"{100 * found['shown_share']:.0f} % of all contributions in size",
        style="dim",
    )
    console.print()
    features = [(one["feature"], one["contribution"]) for one in found["features"]]
    console.print(_pairs("feature", features, digits))
    if len(found["paths"]) > 1:
        console.print(_pairs("scale", list(found["paths"].items()), digits))
    if found["hops"]:
        console.print(_hop_table(found, digits))
    exact = (
        "Propagation: exact, by the resolvent. Input map and head: integrated gradients."
        if found["exact_propagation"]
        else "Integrated gradients of the whole model."
    )
    paragraph(console, exact, style="dim")
    gaps = f"nodes {found['gap']:+.1e}, features {found['feature_gap']:+.1e}"
    paragraph(console, f"Completeness gap: {gaps} of {change:+{digits}}.", style="dim")
    if max(abs(found["gap"]), abs(found["feature_gap"])) > LARGE * abs(change):
        paragraph(
            console,
            f"The gap is large. Try --steps {4 * found['steps']}, or --baseline mean if the "
            "model normalises the rows of its features, which has no limit at zero.",
            style="bold",
        )
    for note in found["notes"]:
        paragraph(console, f"note: {note}")
    console.print()


def _digits(found: Mapping[str, Any]) -> str:
    """Return how contributions are written; numbers to predict can have any size."""
    sizes = [abs(one["contribution"]) for one in (*found["nodes"], *found["features"])]
    largest = max([abs(found["output"] - found["baseline_output"]), *sizes])
    if 1e4 <= largest < 1e7:
        return ".1f"
    return ".4f" if largest == 0 or 0.01 <= largest < 1e4 else ".4e"


def _node_table(found: Mapping[str, Any], digits: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    labels = any(one["label"] is not None for one in found["nodes"])
    hops = any(one["hops"] is not None for one in found["nodes"])
    table.add_column(" node", overflow="fold")
    if hops:
        table.add_column("hops", justify="right")
    if labels:
        table.add_column("label")
    table.add_column("contribution", justify="right")
    table.add_column("mostly through its features")
    fewer = digits.replace("4", "3")
    for one in found["nodes"]:
        table.add_row(
            f" {_short(one['id'])}",
            *([_hops(one["hops"])] if hops else []),
            *([_short(one["label"] if one["label"] is not None else "–")] if labels else []),
            f"{one['contribution']:+{digits}}",
            ", ".join(f"{_short(k)} {value:+{fewer}}" for k, value in one["features"].items()),
        )
    return table


def _hop_table(found: Mapping[str, Any], digits: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in (" hops", "nodes", "contribution", "share of sizes"):
        table.add_column(name, justify="right")
    near = [one for one in found["hops"] if one["size_share"] >= SMALL]
    for one in near:
        table.add_row(
            f" {_hops(one['hops'])}",
            f"{one['nodes']:,}",
            f"{one['contribution']:+{digits}}",
            f"{100 * one['size_share']:.1f} %",
        )
    rest = [one for one in found["hops"] if one["size_share"] < SMALL]
    if rest:
        table.add_row(
            " others",
            f"{sum(one['nodes'] for one in rest):,}",
            f"{sum(one['contribution'] for one in rest):+{digits}}",
            f"{100 * sum(one['size_share'] for one in rest):.1f} %",
        )
    return table


def _pairs(name: str, rows: list[tuple[str, float]], digits: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(f" {name}", overflow="fold")
    table.add_column("contribution", justify="right")
    for label, value in rows:
        table.add_row(f" {_short(label)}", f"{value:+{digits}}")
    return table


def _hops(hops: int) -> str:
    return "no path" if hops < 0 else str(hops)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"
