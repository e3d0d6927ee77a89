"""Figures of one result: learning curves, confusion matrix and attention over scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgnni.data.assessment.reported_threshold import how_decided
from mgnni.data.metric_names import unit
from mgnni.data.rules import DEFAULT_RULE
from mgnni.html_report.curves import Curve
from mgnni.html_report.figure import SERIES, Figure, axis, categories, plain
from mgnni.html_report.results import Result
from mgnni.html_report.text import DASH, factor, metric_name, percent, score

MAX_RUNS = 10  # with a curve
MAX_CELLS = 16  # classes up to which the cells of a matrix show their counts
TABLE_ROWS = 12  # of the table of a learning curve


def curve_figures(
    result: Result, curves: Mapping[tuple[int, int], Curve], points: int
) -> list[Figure]:
    """Return loss and validation metric by epoch.

    Args:
        result (Result): The training.
        curves (Mapping[tuple[int, int], Curve]): Its curves by split and seed.
        points (int): Most points per curve.
    """
    shown = dict(list(curves.items())[:MAX_RUNS])
    if not shown:
        return []
    which = (
        f"{len(shown)} of {len(curves)} runs" if len(curves) > len(shown) else "One line per run"
    )
    thin = {run: curve.thinned(points) for run, curve in shown.items()}
    lines = [_line(run, one, "loss", "training", SERIES[0]) for run, one in thin.items()]
    lines += [_line(run, one, "val_loss", "validation", SERIES[1]) for run, one in thin.items()]
    lines = _with_one_legend([line for line in lines if line["y"]])
    head, rows = _curve_table(list(curves.values()), result.metric)
    figures = [
        Figure(
            title="Loss",
            text=f"Training and validation loss by epoch. {which}.",
            data=lines,
            layout={"xaxis": axis("epoch"), "yaxis": axis("loss", rangemode="tozero")},
            head=head,
            rows=rows,
            words=(),
        )
    ]
    by, name = factor(result.metric), metric_name(result.metric)
    metric = [
        _line(run, one, "val_metric", "validation", SERIES[1], by) for run, one in thin.items()
    ]
    metric = _with_one_legend([line for line in metric if line["y"]])
    if metric:
        chosen = [
            run for run in result.runs if run.val is not None and (run.split, run.seed) in thin
        ]
        same = result.report["protocol"]["rule"] == DEFAULT_RULE
        if same:
            metric.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "chosen epoch",
                    "x": [run.epoch for run in chosen],
                    "y": [float(f"{by * (run.val or 0.0):.5g}") for run in chosen],
                    "marker": {"color": SERIES[0], "size": 9, "symbol": "diamond"},
                    "hovertemplate": f"epoch %{{x}}: %{{y}}{unit(result.metric)}<extra></extra>",
                }
            )
        figures.append(
            Figure(
                title=f"Validation {name}",
                text=f"Validation {name}{' in percent' if by > 1 else ''} by epoch"
                f"{', with the chosen epoch of each run' if same else ''}. {which}.",
                data=metric,
                layout={
                    "xaxis": axis("epoch"),
                    "yaxis": axis(f"validation {name}{' (%)' if by > 1 else ''}"),
                },
                head=head,
                rows=rows,
                words=(),
            )
        )
    return figures


def _line(
    run: tuple[int, int], curve: Curve, part: str, name: str, colour: str, by: int = 1
) -> dict[str, Any]:
    which = f"{name}, split {run[0]}, seed {run[1]}"
    values: list[float] = getattr(curve, part)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "x": curve.epoch,
        "y": [float(f"{by * value:.4g}") for value in values],
        "line": {"color": colour, "width": 1.5},
        "opacity": 0.75,
        "hovertemplate": f"epoch %{{x}}: %{{y}}<extra>{which}</extra>",
    }


def _with_one_legend(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    for line in lines:
        line["showlegend"] = line["name"] not in seen
        seen.add(line["name"])
    return lines


def _curve_table(curves: Sequence[Curve], metric: str) -> tuple[list[str], list[list[str]]]:
    """Return the means over the runs that were trained in some epochs."""
    longest = max(curves, key=lambda one: len(one.epoch)).thinned(TABLE_ROWS)
    rows = []
    for epoch in longest.epoch:
        here = [(one, one.epoch.index(epoch)) for one in curves if epoch in one.epoch]
        cells = [str(epoch), str(len(here))]
        for part in ("loss", "val_loss", "val_metric"):
            found = [getattr(one, part)[place] for one, place in here if getattr(one, part)]
            mean = sum(found) / len(found) if found else None
            if part == "val_metric":
                cells.append(score(metric, mean))
            else:
                cells.append(DASH if mean is None else f"{mean:.4f}")
        rows.append(cells)
    last = f"Validation {metric_name(metric)}{unit(metric)}"
    return ["Epoch", "Runs", "Training loss", "Validation loss", last], rows


def confusion_figure(result: Result) -> Figure | None:
    """Return the confusion matrix on the test set, summed over runs."""
    found = result.report.get("confusion")
    if found is None:
        return None
    classes, counts = [str(name) for name in found["classes"]], found["counts"]
    totals = [sum(row) for row in counts]
    shares = [[x / max(total, 1) for x in row] for row, total in zip(counts, totals, strict=True)]
    right = sum(row[i] for i, row in enumerate(counts))
    size, labels = len(classes), categories(classes)
    heat: dict[str, Any] = {
        "type": "heatmap",
        "z": [[round(100 * share, 2) for share in row] for row in shares],
        "x": list(range(size)),
        "y": list(range(size)),
        "text": counts,
        "zmin": 0,
        "zmax": 100,
        "xgap": 2,
        "ygap": 2,
        "colorscale": [[0, "@low"], [1, "@high"]],
        "colorbar": {"title": {"text": "% of class", "side": "right"}, "thickness": 12},
        "meta": "counts" if size <= MAX_CELLS else "",  # the page writes them into the cells
        "hovertemplate": "%{text} rows, %{z} % of the class<extra></extra>",
    }
    rule, runs = result.report["protocol"]["rule"], len(result.runs)
    chosen = "the last epoch" if result.val is None else "the epoch that validation chose"
    below = {**labels, "range": [-0.5, size - 0.5], "tickangle": 0 if size < 8 else -90}
    decided = how_decided(result.report.get("classification", {}))
    return Figure(
        title="Confusion matrix",
        text=f"Test rows by true class and predicted class, summed over {runs} "
        f"run{'s' * (runs > 1)}, each at {chosen}{f', {decided}' * bool(decided)}: {right} of "
        f"{sum(totals)} are on the diagonal. "
        "The colour is the share of the true class."
        + (f" The score is of other epochs, by the rule {rule}." if rule != DEFAULT_RULE else ""),
        data=[heat],
        layout={
            "xaxis": {**below, "title": {"text": "predicted class"}},
            "yaxis": {**labels, "title": {"text": "true class"}},
        },
        head=["True class", *(f"as {name}" for name in classes), "Rows", "Right %"],
        rows=[
            [name, *map(str, row), str(total), percent(row[i] / total) if total else DASH]
            for i, (name, row, total) in enumerate(zip(classes, counts, totals, strict=True))
        ],
        height=min(160 + 44 * size, 720),
        width=max(560, min(240 + 60 * size, 1000)),
    )


def attention_figure(result: Result) -> Figure | None:
    """Return the weights of the scales for a sample of nodes, ordered by predicted class."""
    found = result.report.get("attention")
    if found is None or not found["nodes"]:
        return None
    every = zip(found["predicted"], found["weights"], found["nodes"], strict=True)
    order = sorted(every, key=lambda one: (str(one[0]), *(-weight for weight in one[1])))
    scales = found["scales"]
    data = [
        {
            "type": "bar",
            "name": f"scale {scale}",
            "x": list(range(len(order))),
            "y": [weights[place] for _, weights, _ in order],
            "customdata": [node for _, _, node in order],
            "marker": {"color": SERIES[place % len(SERIES)], "line": {"width": 0}},
            "hovertemplate": f"node %{{customdata}}, scale {scale}: %{{y}}<extra></extra>",
        }
        for place, scale in enumerate(scales)
    ]
    names = [str(name) for name, _, _ in order]
    middle = {name: names.index(name) + (names.count(name) - 1) / 2 for name in names}
    edges = [names.index(name) - 0.5 for name in middle if names.index(name)]
    return Figure(
        title="Attention over scales",
        text=f"Weight of each scale for {len(order)} nodes, one bar per node, ordered by predicted "
        f"class (best run: split {found['split']}, seed {found['seed']}). The table has the means "
        "over all nodes.",
        data=data,
        layout={
            "barmode": "stack",
            "bargap": 0,
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yanchor": "bottom",
                "traceorder": "normal",
            },
            "xaxis": {
                **axis("nodes by predicted class", showgrid=False),
                "tickmode": "array",
                "tickvals": list(middle.values()),
                "ticktext": [plain(name) for name in middle],
            },
            "yaxis": axis("weight", range=[0, 1]),
            "shapes": [
                {
                    "type": "line",
                    "x0": edge,
                    "x1": edge,
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": "@background", "width": 3},
                }
                for edge in edges
            ],
        },
        head=["Predicted class", "Nodes", *(f"Scale {scale}" for scale in scales)],
        rows=[
            [str(one["class"]), str(one["nodes"]), *(f"{weight:.3f}" for weight in one["weights"])]
            for one in found["means"]
        ],
    )
