"""Candidate models for data without a preset; the best one on validation data is chosen.

All candidates are trained on up to three splits, for equally many epochs. The better half goes on
for three times as many, together with the model that does not use the graph. The best one on
validation is chosen and then trained on all splits. Test labels are removed before the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgnni.data.metric_names import OF_NUMBERS, gain, shown, unit
from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.models.catalog import MGNNI
from mgnni.train.config import Config, changed
from mgnni.train.experiment import Experiment
from mgnni.train.presets import preset_for
from mgnni.train.runs import Run
from mgnni.train.source import FEW, Source

GENERALISED = "gmgnni"
GRAPH_INPUT = "gmgnni-graph"
NEIGHBORS: dict[str, Any] = {"own_bias": False, "self_loops": False, "skip": False}
# In some directed graphs one direction alone, without a node's own features, tells its class.
ONE_WAY = {f"gmgnni-{way}": {"directions": way, **NEIGHBORS} for way in ("out", "in")}
# Of candidates that are GMGNNI with other options.
OPTIONS: dict[str, dict[str, Any]] = {GRAPH_INPUT: {"input_map": "graph"}, **ONE_WAY}
WITHOUT_GRAPH = "mlp"
MODELS = (MGNNI, GENERALISED, *OPTIONS, "graphsage", "gcn", WITHOUT_GRAPH)
OF_GRAPHS = (MGNNI, GENERALISED, "gin", "graphsage", "gcn", WITHOUT_GRAPH)
MAX_NODES = 50_000  # of a graph whose nodes are embedded
ENOUGH = 1000  # validation rows with which one split suffices to compare
SPLITS = 3
COMPARING = 2.0  # minutes of the budget for the comparison, unless another budget is given
BASE, PER_RUN = 4.0, 1.0  # minutes of the whole training
FIRST_RUNG, GROWTH = 100, 3  # epochs of the first rung; those of the last are so many times more
LEAST = 10  # epochs of a rung where an epoch takes long
MARGIN = 0.9  # of the budget that is planned; epochs differ in length


@dataclass(frozen=True)
class Candidates:
    """The models of a portfolio for some data.

    Attributes:
        configs: Configuration of each candidate.
        left_out: Models that are not compared, and why.
    """

    configs: Mapping[str, Config]
    left_out: Mapping[str, str]


def find_candidates(source: Source, changes: Mapping[str, Any]) -> Candidates:
    """Return the candidates for some data.

    Options that were given hold for all candidates; models without such an option are left out.

    Args:
        source (Source): The data.
        changes (Mapping[str, Any]): Options that were given.
    """
    task = source.task
    symmetric = bool(changes.get("undirected")) or task.undirected
    names = MODELS if task.level == "node" else OF_GRAPHS
    configs: dict[str, Config] = {}
    left_out: dict[str, str] = {}
    for name in names:
        if name in ONE_WAY and symmetric:
            continue
        if reason := _not_possible(name, task, changes):
            left_out[name] = reason
            continue
        model = GENERALISED if name in OPTIONS else name
        config = preset_for(source.preset, task.level, model=model)
        lacking = [key for key in changes if key not in {**vars(config), **vars(config.model)}]
        if lacking:
            left_out[name] = f"has no option {', '.join(lacking)}"
            continue
        found = changed(config, {**_choices(name, task, symmetric), **changes})
        if found not in configs.values():
            configs[name] = found
    if not configs:
        raise ArgumentError(
            f"'model' must be given with {', '.join(changes)}, which no candidate of the portfolio "
            "has together; choose the model whose options they are"
        )
    return Candidates(configs, left_out)


def _choices(name: str, task: Task, symmetric: bool) -> dict[str, Any]:
    """Return the options of a candidate that depend on the data."""
    found = dict(OPTIONS.get(name, {}))
    if symmetric and name in (GENERALISED, GRAPH_INPUT):
        found["directions"] = "in"  # both directions are the same, at twice the cost
    deep = name in (MGNNI, GENERALISED, *OPTIONS)
    if deep and task.level == "node" and task.num_features <= FEW:
        # Few features need a deeper map; with hundreds of words, it fits the training nodes only.
        found |= {"head": "residual", "head_layers": 1, "batch_norm": False}
    return found


def _not_possible(name: str, task: Task, changes: Mapping[str, Any]) -> str | None:
    """Return why a candidate cannot be compared."""
    if given := [key for key in OPTIONS.get(name, {}) if key in changes]:
        return f"{', '.join(given)} {'is' if len(given) == 1 else 'are'} given"
    if name == GRAPH_INPUT and len(task.graphs) > 1:
        return "needs a single graph"
    if name == GRAPH_INPUT and int(task.graphs[0].num_nodes) > MAX_NODES:
        return f"for up to {MAX_NODES} nodes"
    return None


def compared_runs(task: Task, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs that candidates are compared on: the first splits, with the first seed.

    Args:
        task (Task): The task.
        runs (Sequence[Run]): All runs to train.
    """
    first = [run for run in runs if run.seed == runs[0].seed]
    rows = task.rows(first[0].split, "val").numel()
    return tuple(first[: 1 if rows >= ENOUGH else SPLITS])


@dataclass(frozen=True)
class Budget:
    """How long the comparison and the training may take.

    Where an epoch takes long, candidates are compared after fewer epochs, and the chosen one is
    trained for fewer. Elsewhere nothing depends on the clock.

    Args:
        minutes (float): For everything.
        comparing (float): For the comparison.
        limited (bool): Whether the clock may limit epochs; otherwise they are fixed.
    """

    minutes: float
    comparing: float
    limited: bool

    @classmethod
    def of(cls, experiment: Experiment, minutes: float | None = None) -> Budget:
        """Return a budget; by default four minutes, and one more per run.

        Args:
            experiment (Experiment): All runs.
            minutes (float, optional): For everything. (default: :obj:`None`)
        """
        usual = BASE + PER_RUN * len(experiment.runs)
        if minutes is None:
            minutes = usual
        elif not 0 < minutes < math.inf:
            raise ArgumentError(f"'budget' must be above 0 minutes and finite (got {minutes:g})")
        return cls(minutes, minutes * COMPARING / usual, not experiment.deterministic)

    def rungs(self, most: int, paces: Sequence[float], spent: float) -> list[int]:
        """Return the epochs after which candidates are compared.

        Args:
            most (int): Largest number of epochs of a training.
            paces (Sequence[float]): Seconds of an epoch of every candidate.
            spent (float): Seconds that the comparison has taken.
        """
        first = FIRST_RUNG
        if self.limited and paces:
            slow = sorted(paces, reverse=True)[: half(len(paces))]
            left = max(MARGIN * 60 * self.comparing - spent, 0)
            fitting = int(left / (sum(paces) + (GROWTH - 1) * sum(slow)))
            if fitting < LEAST:  # there is time for one rung only
                return [min(max(int(left / sum(paces)), LEAST), most)]
            first = min(fitting, first)
        first = min(first, most)
        return sorted({first, min(GROWTH * first, most)})

    def epochs(self, most: int, pace: float, spent: float, reached: int) -> int:
        """Return the largest number of epochs of the chosen candidate.

        Args:
            most (int): That of its configuration.
            pace (float): Seconds of an epoch of all runs.
            spent (float): Seconds that the comparison has taken.
            reached (int): Epochs that need not be repeated.
        """
        if not self.limited:
            return most
        left = max(MARGIN * 60 * self.minutes - spent, 0)
        return min(max(reached + int(left / max(pace, 1e-9)), LEAST), most)


def half(count: int) -> int:
    """Return the number of candidates that go on after a rung."""
    return -(-count // 2)


def survivors(results: Sequence[dict[str, Any]], metric: str, rung: int) -> list[dict[str, Any]]:
    """Return the better half, and the model without the graph, which is fast, as a reference.

    Only what was found at the rung counts: if a comparison is continued, later results are known.

    Args:
        results (Sequence[dict[str, Any]]): Results of the candidates.
        metric (str): Name of the metric.
        rung (int): Number of epochs of the rung.
    """
    place = str(rung)
    ranked = sorted(
        (one for one in results if place in one["rungs"]),
        key=lambda one: (-gain(metric, one["rungs"][place]), one["losses"][place]),
    )
    kept = ranked[: half(len(ranked))]
    return kept + [one for one in ranked[len(kept) :] if one["name"] == WITHOUT_GRAPH]


def rank(result: Mapping[str, Any], metric: str) -> tuple[Any, ...]:
    """Order results: most rungs first, then the best metric, ties by loss; failures last."""
    if result["validation"] is None:
        return (1,)
    return 0, -len(result["rungs"]), -gain(metric, result["validation"]), result["loss"]


def notes_on(record: Mapping[str, Any], rows: int, degree: bool = False) -> list[str]:
    """Return what a reader of the choice should know.

    The model without the graph is compared at the last rung that it reached. It counts as equally
    good within one standard error of a share of ``rows``; for numbers, if it is not worse.

    Args:
        record (Mapping[str, Any]): The record of the comparison.
        rows (int): Number of validation rows of all compared runs.
        degree (bool, optional): Whether the degree is a feature, so that the model without the
            graph knows this much of it. (default: :obj:`False`)
    """
    without = (
        "mlp, which uses nothing of the graph but degrees (--no-degree leaves them out),"
        if degree
        else "mlp, which does not use the graph,"
    )
    by_name = {one["name"]: one for one in record["candidates"]}
    chosen, plain = by_name[record["chosen"]], by_name.get(WITHOUT_GRAPH)
    if chosen is plain:
        return [
            f"{without} is the best on validation: the edges may not help to predict these labels"
        ]
    notes = []
    if plain is not None and plain["rungs"]:
        rung = list(plain["rungs"])[-1]
        own, other = chosen["rungs"][rung], plain["rungs"][rung]
        metric = record["metric"]
        error = None if metric in OF_NUMBERS else math.sqrt(own * (1 - own) / max(rows, 1))
        if gain(metric, other) >= gain(metric, own) - (error or 0.0):
            within = "" if error is None else " within the standard error"
            notes.append(
                f"{without} is as good on validation{within}: "
                f"{shown(metric, other)}{unit(metric)} against {shown(metric, own, error)}"
                f"{unit(metric)} after {rung} epochs; the edges may not help to predict these "
                "labels"
            )
    if chosen["name"] == GRAPH_INPUT:
        notes.append(
            "gmgnni-graph embeds the nodes of this graph: it predicts for this graph only; to "
            "predict on other graphs, train with --model gmgnni"
        )
    return notes
