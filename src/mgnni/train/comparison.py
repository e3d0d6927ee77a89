"""Trainings on the same splits, compared by paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from mgnni.data.compare import Comparison, compare
from mgnni.data.metric_names import LOWER_IS_BETTER
from mgnni.data.rules import DEFAULT_RULE, get_rule
from mgnni.data.statistics import CONFIDENCE, Summary, difference, ratio_of_rows, scores, summarize
from mgnni.errors import ArgumentError, DataError

SIZES = ("level", "graphs", "nodes", "classes")  # in which different data usually differ
Report = Mapping[str, Any]
Runs = Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Pair:
    """The difference of two trainings over the splits and seeds that both have.

    Attributes:
        a: Name of the first training.
        b: Name of the second training.
        runs: Number of common pairs of split and seed.
        over: What the interval is taken over: ``"splits"``, or ``"seeds"`` of a single split.
        difference: Paired t-test of a - b in points, or in the unit of a number; ``None`` for a
            single common run. Its wins are runs in which a is better.
    """

    a: str
    b: str
    runs: int
    over: str
    difference: Comparison | None


@dataclass(frozen=True)
class ComparedRuns:
    """Trainings on the same data, by one rule.

    Attributes:
        dataset: Name of the data.
        metric: Name of the metric.
        rule: Rule that selected the epochs.
        mark: Mark of scores that were selected with test labels; otherwise empty.
        models: Model of each training, by name of the training.
        summaries: Mean, deviation and interval of each training, in percent.
        pairs: All pairs, in the order of the trainings.
        notes: What readers of the comparison should know.
    """

    dataset: str
    metric: str
    rule: str
    mark: str
    models: dict[str, str]
    summaries: dict[str, Summary]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]


def compare_runs(reports: Mapping[str, Report], rule: str = DEFAULT_RULE) -> ComparedRuns:
    """Compare trainings on the same data.

    Differences are paired by split and averaged over seeds. Splits share training data, so the
    variance is corrected by the ratio of test to training rows, see :func:`mgnni.compare`.
    Trainings with a single common split are paired by seed instead, without correction.

    Args:
        reports (Mapping[str, Mapping[str, Any]]): Reports of trainings, by name.
        rule (str, optional): Rule that selects the epochs. (default: :obj:`"validation"`)

    Raises:
        DataError: The trainings have different data, splits or metrics, or nothing in common.
    """
    mark = get_rule(rule).mark
    if len(reports) < 2:
        raise ArgumentError(f"at least two trainings are needed (got {len(reports)}); add another")
    names = list(reports)
    first = reports[names[0]]
    notes: list[str] = []
    for a, b in combinations(names, 2):  # each pair may have other splits in common
        notes += _check_data(a, reports[a], b, reports[b])
    found = {name: _scores(name, report, rule) for name, report in reports.items()}
    notes += _rule_notes(reports)
    pairs = tuple(_pair(a, b, found, reports) for a, b in combinations(names, 2))
    if any(pair.over == "seeds" and pair.difference for pair in pairs):
        notes.append(
            "only one split in common: intervals are over seeds, and say nothing about other splits"
        )
    if any(pair.runs < max(len(found[pair.a]), len(found[pair.b])) for pair in pairs):
        notes.append("means are over all runs of a training, differences over common runs only")
    if len(pairs) > 1:
        notes.append(
            f"{len(pairs)} differences: with no true one, the chance that some interval misses 0 "
            "is larger than 5 %; p-values below "
            f"{(1 - CONFIDENCE) / len(pairs):.2g} hold for all of them together (Bonferroni)"
        )
    return ComparedRuns(
        dataset=str(first["dataset"]),
        metric=str(first["metric"]),
        rule=rule,
        mark=mark,
        models={name: str(report["model"]) for name, report in reports.items()},
        summaries={name: summarize(runs) for name, runs in found.items()},
        pairs=pairs,
        notes=tuple(dict.fromkeys(notes)),
    )


def _check_data(a: str, one: Report, b: str, other: Report) -> list[str]:
    """Refuse trainings on different data or splits; return notes on how they were read."""
    if one["metric"] != other["metric"]:
        raise DataError(
            f"trainings must have the same metric (got {one['metric']} in {a} and "
            f"{other['metric']} in {b}); train one of them again with --metric"
        )
    here, there = one.get("data", {}), other.get("data", {})
    if here.get("fingerprint") == there.get("fingerprint") is not None:
        return []
    sizes = [
        f"{name} {here.get(name)} and {there.get(name)}"
        for name in SIZES
        if here.get(name) != there.get(name)
    ]
    if one["dataset"] != other["dataset"] or sizes:
        shown = f"; {', '.join(sizes)}" if sizes else ""
        raise DataError(
            f"trainings must be on the same data (got {one['dataset']} in {a} and "
            f"{other['dataset']} in {b}{shown}); compare those of one dataset"
        )
    splits = [report.get("split_fingerprints", []) for report in (here, there)]
    common = sorted({split for split, _ in _keys(one)} & {split for split, _ in _keys(other)})
    for split in common:
        if any(split >= len(known) for known in splits):  # written by an earlier version
            raise DataError(
                f"trainings must be on the same data and splits (got {one['dataset']} with "
                f"fingerprints {here.get('fingerprint')} in {a} and {there.get('fingerprint')} in "
                f"{b}); train one of them again with the data options of the other"
            )
        if splits[0][split] != splits[1][split]:
            raise DataError(
                f"trainings must have the same splits (got different rows or labels of split "
                f"{split} in {a} and {b}); train one of them again with the data options of the "
                "other"
            )
    return [f"features or edges of {a} and {b} were read with different options"] if common else []


def _keys(report: Report) -> list[tuple[int, int]]:
    return [(run["split"], run["seed"]) for run in report["runs"]]


def _scores(name: str, report: Report, rule: str) -> dict[tuple[int, int], float]:
    found = scores(report, rule)
    if found is None:
        own = report["protocol"]["rule"]
        why = "no validation set" if rule == DEFAULT_RULE else f"the rule {own}"
        remedy = f"compare by --rule {own}" if rule != own else "train again"
        raise DataError(
            f"{name}: must have scores by rule {rule} (got {why}); {remedy}, or train it again "
            f"with --rule {rule}"
        )
    return found


def _rule_notes(reports: Mapping[str, Report]) -> list[str]:
    """Return a warning if trainings were made for different rules."""
    rules: dict[str, list[str]] = {}
    for name, report in reports.items():
        rules.setdefault(report["protocol"]["rule"], []).append(name)
    if len(rules) < 2:
        return []
    shown = "; ".join(f"{rule}: {', '.join(names)}" for rule, names in rules.items())
    return [
        f"warning: trained for different rules ({shown}), so training sets and the number of "
        "epochs may differ"
    ]


def _pair(a: str, b: str, found: Mapping[str, Runs], reports: Mapping[str, Report]) -> Pair:
    common = sorted(found[a].keys() & found[b].keys())
    if not common:
        raise DataError(
            f"trainings must have a split and seed in common (got {_shown(found[a])} in {a} and "
            f"{_shown(found[b])} in {b}); train more splits or seeds"
        )
    one, other = ({key: found[name][key] for key in common} for name in (a, b))
    if len({split for split, _ in common}) > 1:
        ratio = ratio_of_rows([reports[a], reports[b]], common)
        if ratio is None:
            raise DataError(
                f"one of two trainings must say how many rows its splits have (got none in {a} and "
                f"{b}, of an early version); train one of them again"
            )
        over, tested = "splits", difference(one, other, ratio)
    else:
        over, values = "seeds", (list(one.values()), list(other.values()))
        tested = compare(*values, confidence=CONFIDENCE) if len(common) > 1 else None
    if tested is not None and reports[a]["metric"] in LOWER_IS_BETTER:
        tested = replace(tested, wins=tested.losses, losses=tested.wins)
    return Pair(a, b, len(common), over, tested)


def _shown(runs: Runs) -> str:
    splits, seeds = (sorted({key[place] for key in runs}) for place in (0, 1))
    return f"splits {splits}, seeds {seeds}"
