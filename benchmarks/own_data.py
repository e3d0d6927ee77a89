"""Measures the defaults of ``mgnni train`` on data that no preset knows.

Eight benchmarks are written as folders of CSV files with neutral names, so that only the defaults
for your own data apply: 0/1 features, and no splits, so that they are drawn at random, 60/20/20:
three, or one of 1000 or more rows. One folder keeps its split with few training labels. On each
folder, the command is run without ``--model`` (several models are compared on validation data) and
with four fixed models. Validation and test scores are stored after every run; runs that are stored
are not repeated.

    python benchmarks/own_data.py                         all runs that are missing
    python benchmarks/own_data.py --folders people grid   some of them
    python benchmarks/table.py                            the table in docs/training.md
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import torch

from mgnni import load_task
from mgnni.data.split import PARTS
from mgnni.data.task import stratified_labels
from mgnni.files import to_json

FILE = Path(__file__).parent / "results" / "own_data-cpu.json"
FOLDERS: Mapping[str, str] = {  # neutral names, and the benchmarks that they hide
    "pages-a": "texas",
    "pages-b": "wisconsin",
    "articles": "chameleon-filtered",
    "molecules": "mutag",
    "papers-a": "cora",
    "people": "actor",
    "papers-b": "citeseer",
    "grid": "minesweeper",
}
FEW_LABELS = "cora"  # keeps its split, with 20 training nodes per class
MODELS = ("auto", "mlp", "gcn", "graphsage", "gat")
SPLITS, MANY = 3, 1000  # one split if there are so many rows


def make(folder: Path, benchmark: str) -> int:
    """Write a benchmark as tables, and return the number of splits to draw.

    Args:
        folder (Path): An empty folder.
        benchmark (str): Name of the benchmark.
    """
    task = load_task(benchmark)
    labels = stratified_labels(task).tolist()
    rows: dict[str, Any] = {
        "id": [f"n{row}" for row in range(task.num_rows)],
        "label": [f"class {label}" for label in labels],
    }
    if benchmark == FEW_LABELS:
        names = np.full(task.num_rows, "", dtype=object)
        for part in PARTS:
            names[task.splits[0].part(part).numpy()] = part
        rows["split"] = names.tolist()
    x = torch.cat([graph.x for graph in task.graphs if graph.x is not None])
    features = {f"f{place}": (column != 0).int().numpy() for place, column in enumerate(x.T)}
    start = np.cumsum([0, *(int(graph.num_nodes) for graph in task.graphs)])
    ends = np.concatenate(
        [
            graph.edge_index.numpy() + first
            for graph, first in zip(task.graphs, start, strict=False)
        ],
        axis=1,
    )
    if task.level == "graph":
        csv.write_csv(pa.table(rows), folder / "graphs.csv")
        member = np.repeat(np.arange(task.num_rows), np.diff(start))
        nodes = [f"m{node}" for node in range(int(start[-1]))]
        rows = {"id": nodes, "graph": [f"n{graph}" for graph in member]}
    csv.write_csv(pa.table({**rows, **features}), folder / "nodes.csv")
    ids = np.array(rows["id"])
    csv.write_csv(pa.table({"source": ids[ends[0]], "target": ids[ends[1]]}), folder / "edges.csv")
    return SPLITS if task.num_rows < MANY else 1


def measure(folder: Path, model: str, splits: int) -> dict[str, Any]:
    """Train a model by the command line, and return its scores.

    Args:
        folder (Path): Folder with the tables.
        model (str): Name of the model; ``"auto"`` is the command without ``--model``.
        splits (int): Number of splits to draw.
    """
    began = time.perf_counter()
    given = () if model == "auto" else ("--model", model)
    given += ("--num-splits", str(splits), "--device", "cpu", "--no-report", "--json")
    with tempfile.TemporaryDirectory() as output:
        found = subprocess.run(
            (sys.executable, "-m", "mgnni", "train", folder, *given, "--output", f"{output}/run"),
            stdout=subprocess.PIPE,
            check=True,
        )
    report = json.loads(found.stdout)
    metric = report["metric"]
    cell = {
        "metric": metric,
        "val": [run["val"][metric] for run in report["runs"]],
        "test": [run["test"][metric] for run in report["runs"]],
        "baseline": report["classification"]["baseline"][metric],
        "epochs": [run["epochs"] for run in report["runs"]],
        "seconds": round(time.perf_counter() - began, 1),
        "commit": report["commit"],
    }
    if "portfolio" in report:
        cell["chosen"] = report["portfolio"]["chosen"]
        cell["candidates"] = {
            one["name"]: one["validation"] for one in report["portfolio"]["candidates"]
        }
    return cell


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="repeat runs that are stored")
    arguments = parser.parse_args()
    stored: dict[str, Any] = {"device": "", "versions": {}, "cells": {}}
    if FILE.exists():
        stored = json.loads(FILE.read_text("utf-8"))
    stored["device"] = f"{platform.machine()}, {torch.get_num_threads()} thread(s)"
    stored["folders"] = dict(FOLDERS)
    stored["versions"] = {"torch": str(torch.__version__)}
    for name in arguments.folders:
        cells = stored["cells"].setdefault(name, {})
        wanted = [model for model in arguments.models if arguments.again or model not in cells]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / name
            place.mkdir()
            splits = make(place, FOLDERS[name])
            for model in wanted:
                cells[model] = measure(place, model, splits)
                FILE.write_text(to_json(stored), "utf-8")
                val = 100 * float(np.mean(cells[model]["val"]))
                print(f"{name:10} {model:10} {val:6.2f} % on validation", flush=True)


if __name__ == "__main__":
    main()
