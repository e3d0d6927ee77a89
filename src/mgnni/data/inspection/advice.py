"""Advice on a described task, each with its reason."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mgnni.data.metric_names import readable
from mgnni.data.tables.labels import all_numbers
from mgnni.data.tables.messages import counted, listed, show

MANY_TWINS = 0.05  # share of the test rows
LARGE_MAJORITY = 0.7
DIFFERENT_SCALES = 10.0  # ratio of the deviations of two columns
MANY_NUMBERS = 20  # classes that are all numbers, beyond which they may be amounts
LARGE_SPAN = 1000.0  # ratio of the largest to the middle number to predict
DIFFERENT_DEGREES = 10.0  # ratio of the largest degree to the median
HETEROPHILIC = 0.1  # adjusted homophily
MLP = "mlp"  # the model without edges
WITH_HEAD = "mgnni"  # a model with a choice of heads
FEW_TEST_ROWS = 100

NOT_AS_EXPECTED = (
    "not used: ",
    "not used, ",
    "with leading zeros in ",
    "dates in ",
    ": text with ",
    " with weight 0: ",
)  # notes


class Advice(NamedTuple):
    """Advice on a task.

    Attributes:
        warning: Whether a result is probably wrong or misleading without it.
        text: What was found and what to do.
    """

    warning: bool
    text: str


def advise(found: Mapping[str, Any]) -> list[Advice]:
    """Returns advice on a task, warnings first.

    Args:
        found (Mapping[str, Any]): A description, see
            :func:`~mgnni.data.inspection.description.describe_task`.
    """
    every = [*_on_reading(found), *_on_columns(found), *_on_classes(found)]
    every += [*_on_targets(found), *_on_graph(found)]
    return sorted(every, key=lambda one: not one.warning)


def _on_reading(found: Mapping[str, Any]) -> Iterator[Advice]:
    directed, shared = found["options"]["directed"], found["graph"]["reciprocal"]
    if found["own"] and directed is None and shared == 0:
        yield Advice(
            True,
            "no edge has its reverse: if your edges are undirected, pass --directed false (in "
            "Python directed=False); as it is, information flows from source to target only",
        )
    for part, name in (("val", "validation"), ("test", "test")) if found["own"] else ():
        if not found["parts"][part]:
            columns = " ".join(map(shlex.quote, found["options"]["split_columns"]))
            drawn = f"pass --ignore {columns}, so that a split is drawn"
            yield Advice(
                True,
                f"no labelled {name} rows, which mgnni train needs: move some labelled rows there, "
                f"or {drawn if columns else 'label more'}",
            )
    for note in found["notes"]:
        if note.endswith("used as features"):
            yield Advice(True, f"{note}: pass --ignore if it is not known before the label")
        elif note.endswith("differ only in spaces"):
            yield Advice(True, f"{note}: remove the spaces if they are the same class")
        elif note.endswith("differ only in capital letters"):
            yield Advice(True, f"{note}: write them in one way if they are the same class")
        elif any(part in note for part in NOT_AS_EXPECTED):
            yield Advice(False, note)
    if found["graph"]["weighted"] and found["options"]["unweighted"]:
        yield Advice(
            True,
            f"{found['options']['unweighted']} ignores the weights of edges: choose another "
            "--model if they matter",
        )
    if found["options"]["ignored"]:
        yield Advice(False, f"columns not used, as asked: {listed(found['options']['ignored'])}")


def _on_columns(found: Mapping[str, Any]) -> Iterator[Advice]:
    for one in found["suspicious"]["labels"][:3] if found["own"] else ():
        yield Advice(
            True,
            f"column {show(one['column'])} alone {_told(one)}: pass --ignore unless it is known "
            "before the label, or the score says nothing about new data",
        )
    if names := found["suspicious"]["ids"]:
        yield Advice(
            False,
            f"a different whole number in nearly every row of {listed(names)}: pass --ignore if "
            "it is an id, which a model can only memorise",
        )
    features = found["features"]
    if found["own"] and features["constant"]:
        more = features["constant"] - len(features["first_constant"])
        names = listed(features["first_constant"]) + (f" and {more} more" if more else "")
        yield Advice(False, f"the same in every row, so without information: {names}")
    narrow, wide = features["narrowest"], features["widest"]
    apart = wide is not None and wide[1] > DIFFERENT_SCALES * narrow[1]
    if found["own"] and apart and not found["options"]["standardize"]:
        yield Advice(
            False,
            f"pass --standardize: the deviation of {show(wide[0])} is {wide[1]:.3g}, that of "
            f"{show(narrow[0])} {narrow[1]:.3g}, and large numbers drown small ones",
        )


def _told(one: Mapping[str, Any]) -> str:
    if one["accuracy"] is None:
        return f"explains {100 * one['skill']:.1f} % of the variance of the training targets"
    return f"predicts {100 * one['accuracy']:.1f} % of the training labels"


def _on_targets(found: Mapping[str, Any]) -> Iterator[Advice]:
    """Yields advice on numbers to predict, and on classes that may be numbers."""
    names = [one["name"] for one in found["classes"]]
    if found["own"] and len(names) > MANY_NUMBERS and all_numbers(names):
        yield Advice(
            False,
            f"the {len(names)} classes are numbers: pass --task regression if they are amounts, so "
            "that close ones count as close",
        )
    for one in found["targets"]:
        name, middle = show(one["name"]), one["quartiles"][1]
        if one["min"] > 0 and one["max"] > LARGE_SPAN * middle:
            yield Advice(
                False,
                f"{name} reaches {readable(one['max'])} at a median of {readable(middle)}: a few "
                "rows decide the score; predict its logarithm instead",
            )
        remedy, shared = _own_features(found), one["neighbours"]
        if remedy and shared is not None and shared < HETEROPHILIC:
            yield Advice(
                False, f"neighbours hardly agree in {name} (correlation {shared:.2f}): {remedy}"
            )


def _on_classes(found: Mapping[str, Any]) -> Iterator[Advice]:
    untaught = [one["name"] for one in found["classes"] if not one["train"]]
    rare = [one for one in found["classes"] if one["rare"] and one["train"]]
    majority, what = found["majority"], "labels" if found["multilabel"] else "classes"
    if untaught:
        yield Advice(
            False,
            f"{what} without a training row, which no model can learn: {listed(untaught)}; move "
            "some of their rows to the training set",
        )
    if rare:
        shown = ", ".join(f"{one['name']} ({100 * one['share']:.1f} %)" for one in rare[:5])
        more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
        weighed = found["multilabel"] or found["options"]["class_weight"] == "balanced"
        remedy = "" if weighed else ": pass --class-weight balanced, so that they are not ignored"
        yield Advice(False, f"rare {what}: {shown}{more}{remedy}")
    if majority and majority["share"] > LARGE_MAJORITY and found["metric"] == "accuracy":
        other = "roc_auc" if len(found["classes"]) == 2 else "balanced_accuracy"
        yield Advice(
            False,
            f"pass --metric {other}: always answering {majority['class']!r} has an accuracy of "
            f"{100 * majority['share']:.1f} %",
        )
    test = found["parts"]["test"]
    if 0 < test < FEW_TEST_ROWS and not found["targets"]:
        several = found["splits"] > 1
        yield Advice(
            False,
            f"{counted(test, 'test row')}{' in a split' * several}: one of them changes the "
            f"accuracy by {100 / test:.1f} points; "
            + ("look at the mean over the splits" if several else "average over several splits"),
        )


def _on_graph(found: Mapping[str, Any]) -> Iterator[Advice]:
    twins, graph, degree = found["twins"], found["graph"], found["degree"]["in"]
    if twins["share"] > MANY_TWINS:
        yield Advice(
            False,
            f"{twins['count']:,} of {twins['test']:,} test {_unit(found)}s "
            f"({100 * twins['share']:.0f} %) have an exact twin in training, so memorising is "
            "rewarded: remove duplicates, or keep twins in one part",
        )
    if found["own"] and not graph["edges"]:
        yield Advice(
            True,
            "no edges, so every model is a function of a node's own features: check the table of "
            "edges, or pass --model mlp",
        )
    if graph["isolated"] and graph["edges"]:
        yield Advice(
            False,
            f"{counted(graph['isolated'], 'node')} without neighbours: their predictions rest on "
            "their own features",
        )
    homophily = found["homophily"]
    adjusted, remedy = homophily and homophily["adjusted"], _own_features(found)
    if remedy and adjusted is not None and adjusted < HETEROPHILIC:
        yield Advice(
            False,
            f"neighbours hardly share their class (adjusted homophily {adjusted:.2f}): {remedy}",
        )
    wide = degree["max"] > DIFFERENT_DEGREES * max(degree["median"], 1)
    if found["own"] and wide and not found["options"]["degree"]:
        yield Advice(
            False,
            f"try --degree: in-degrees reach {degree['max']:,} at a median of "
            f"{degree['median']:g}, and normalised edges hide them from the model",
        )


def _own_features(found: Mapping[str, Any]) -> str:
    """Returns what to try if neighbours are unlike, with options that the model has."""
    model, head = found["options"]["model"], found["options"]["head"]
    ways = [] if model == MLP else [f"compare with --model {MLP}, which ignores the edges"]
    if model is None or head not in (None, "residual"):
        named = f"--model {WITH_HEAD} " if model is None else ""
        ways.append(f"try {named}--head residual, which keeps a node's own features apart")
    return ", and ".join(ways)


def _unit(found: Mapping[str, Any]) -> str:
    return "node" if found["level"] == "node" and found["graph"]["graphs"] == 1 else "graph"
