"""Write the tables of README.md and docs from the stored results; a test compares the two.

A table is between ``<!-- table: KIND-WHERE -->`` and ``<!-- end -->``: what is shown, and the kind
of device it was measured on; or ``models-KIND``, the models of a kind from the catalog; or
``reproduce-EXPERIMENT``, a table of the paper, or ``reproduce-status`` of all; or ``plan-GRAPH``,
by the cost model; or ``lattice-best``, by a formula. The results are stored by

    mgnni bench --output benchmarks/results
    mgnni reproduce all --output reproduction
    python benchmarks/own_data.py
    python benchmarks/table.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from mgnni.cli.plan import time_of
from mgnni.data.lattice import lattice_error
from mgnni.models.catalog import MODELS
from mgnni.plan.cost import MACHINES, Problem
from mgnni.plan.ways import ways
from mgnni.reproduce.definitions import load_study, select
from mgnni.reproduce.overview import status, stored_cells, tables

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = Path("reproduction")
STATUS = "status"  # of all experiments
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SAID = {"missed": "not reached", "wrong": "wrong", "absent": "–"}


def duration(row: dict[str, Any] | None) -> str:
    """Return a time in milliseconds with three digits, or why there is none."""
    if row is None:
        return ""
    if row["seconds"] is None:
        return SAID[row["verdict"]]
    return f"{1e3 * row['seconds']:.3g}" if row["seconds"] < 1 else f"{1e3 * row['seconds']:,.0f}"


def heading(stored: dict[str, Any]) -> str:
    """Return device, version and unit of a table."""
    return f"{stored['device']}, torch {stored['versions']['torch']}; milliseconds."


def label(case: str) -> str:
    """Return the name of a case in the words of the documentation."""
    case = re.sub(r"scales 1 to (\d+)", lambda found: _scales(int(found[1])), case)
    return re.sub(r"\b(?:h|width) = ", "channels = ", case).replace(
        "λ = initial", "initial weights"
    )


def _scales(largest: int) -> str:
    return f"scales {{{', '.join(map(str, range(1, largest + 1)))}}}"


def memory_use(count: int | None) -> str:
    """Return a number of bytes in MiB; a CUDA graph, which allocates nothing, has a dash."""
    if count is None:
        return ""
    return "–" if count == 0 else f"{max(count / 2**20, 1):,.0f}"


def cases(stored: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows by case and method."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in stored["rows"]:
        found.setdefault(row["case"], {})[row["method"]] = row
    return found


def full_table(stored: dict[str, Any]) -> str:
    """Return all rows with their errors."""
    memory = any(row["memory"] is not None for row in stored["rows"])
    lines = [
        heading(stored),
        "",
        "| | | time | × textbook | forward error | gradient error |" + (" MiB |" if memory else ""),
        "| --- | --- | ---: | ---: | ---: | ---: |" + (" ---: |" if memory else ""),
    ]
    for case, rows in cases(stored).items():
        for place, (method, row) in enumerate(rows.items()):
            errors = row["errors"] or {}
            cells = [
                label(case) if place == 0 else "",
                f"{method} ({row['note']})" if method == "TorchDEQ" else method,
                duration(row),
                "" if row["ratio"] is None else f"{row['ratio']:.2f}",
                *(f"{errors[key]:.0e}" if errors else "" for key in ("forward", "gradient")),
            ]
            if memory:
                cells.append(memory_use(row["memory"]))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def solve_table(stored: dict[str, Any]) -> str:
    """Return the textbook loop, TorchDEQ and ``auto``, one row per case."""
    lines = [
        heading(stored),
        "",
        "| graph, largest eigenvalue | textbook loop | TorchDEQ | `auto` | × textbook |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for case, rows in cases(stored).items():
        times = [duration(rows.get(method)) for method in ("textbook", "TorchDEQ", "mgnni")]
        ratio = rows["mgnni"]["ratio"]
        times.append("" if ratio is None else f"{ratio:.1f} ×")
        lines.append(f"| {label(case)} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def solvers_table(stored: dict[str, Any]) -> str:
    """Return all solvers, one column each."""
    known = dict.fromkeys(row["method"] for row in stored["rows"])
    names = [name for name in known if name.startswith("mgnni, ")]
    titles = [f"`{name.removeprefix('mgnni, ')}`" for name in names]
    lines = [
        heading(stored),
        "",
        f"| | {' | '.join(titles)} |",
        f"| --- |{' ---: |' * len(names)}",
    ]
    for case, rows in cases(stored).items():
        times = [duration(rows.get(name)) for name in names]
        lines.append(f"| {label(case)} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def gigabytes(count: float | None) -> str:
    """Return a number of bytes in GB; a dash if it was not measured."""
    if count is None:
        return "–"
    return f"{count / 1e9:,.0f}" if count >= 1e11 else f"{count / 1e9:.3g}"


def low_memory_table(stored: dict[str, Any]) -> str:
    """Return one training step per memory mode, with its certified error."""
    size = stored["size"]
    lines = [
        f"{stored['device']}, torch {stored['versions']['torch']}; {size['nodes']:,} nodes, "
        f"{size['edges']:,} edges, {size['channels']} channels, scales {size['scales']}, "
        f"tol {size['tol']:g}.",
        "",
        "| `memory` | forward, s | backward, s | device, GB | host, GB | certified error |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in stored["rows"]:
        if row["seconds"] is None:
            lines.append(f"| `{row['memory_mode']}` | out of memory | | | | |")
            continue
        bounds = [one["relative_error_bound"] for one in (*row["forward"], *row["backward"])]
        cells = [
            f"`{row['memory_mode']}`",
            f"{row['forward_seconds']:.3g}",
            f"{row['backward_seconds']:.3g}",
            gigabytes(row["memory"]),
            gigabytes(row["host_memory"]),
            f"{max(bounds):.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def files_table(stored: dict[str, Any]) -> str:
    """Return the steps of a training on a graph in files."""
    size = stored["size"]
    lines = [
        f"{stored['device']}, torch {stored['versions']['torch']}, load average of the machine "
        f"{stored['load']:.0f}; {size['nodes']:,} nodes, {size['edges']:,} edges, "
        f"{size['features']} features, {size['terms']} terms in {size['storage']}, "
        f"{size['bytes'] / 1e9:.3g} GB. Certified error of the states, relative to the bias: "
        f"{max(stored['relative_error_bound']):.0e}.",
        "",
        "| step | minutes | processor minutes | peak memory, GB |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in stored["rows"]:
        cells = [
            row["step"],
            f"{row['seconds'] / 60:.1f}",
            f"{row['cpu_seconds'] / 60:.1f}",
            gigabytes(row["memory"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    rows = stored["rows"]
    total = [f"{sum(row[key] for row in rows) / 60:.1f}" for key in ("seconds", "cpu_seconds")]
    most = gigabytes(max(row["memory"] for row in rows))
    lines.append(f"| all | {' | '.join(total)} | {most} |")
    return "\n".join(lines) + "\n"


def plan_table(name: str) -> str:
    """Return what the cost model says about a known graph, on H200 GPUs."""
    title, problem, devices = PLANS[name]
    lines = [
        f"{title}: {problem.nodes:,} nodes, {problem.edges:,} edges, {problem.features} features, "
        f"{problem.channels} channels, tol {problem.tol:g}; the operator has "
        f"{gigabytes(problem.graph_bytes)} GB.",
        "",
        "| | time | GB per device | GB sent | GB on disk |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for one in ways(problem, MACHINES["h200"], devices):
        cells = [
            one.way,
            time_of(one.seconds),
            gigabytes(one.memory) + ("" if one.fits else " (does not fit)"),
            gigabytes(one.traffic or None),
            gigabytes(one.disk or None),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# Graphs of the cost model in docs/scale.md: title, problem, and number of devices.
PLANS = {
    "papers": (
        "ogbn-papers100M, directed",
        Problem(111_059_956, 1_615_685_872, tol=1e-4, directed=True),
        8,
    ),
    "billions": ("Ten billion edges", Problem(500_000_000, 10_000_000_000, tol=1e-4), 16),
}


def models_table(kind: str) -> str:
    """Return the models of a kind with equation, paper, and differences from the authors' code."""
    lines = ["| model | equation, paper | where ours differs |", "| --- | --- | --- |"]
    for one in MODELS.values():
        if one.kind == kind:
            cells = [f"`{one.name}`", f"`{one.equation}`<br>{one.paper}", one.differs]
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def paper_table(name: str) -> str:
    """Return the tables of an experiment of the paper, or of all, from stored reports."""
    cells = select(["all"] if name == STATUS else [name])
    found = stored_cells(cells, ROOT / STORED)
    if name == STATUS:
        return status(found).markdown()
    sheets = tables(load_study(name), found, STORED)
    return "\n".join(sheet.markdown() for sheet in sheets)


def lattice_table() -> str:
    """Return the best accuracy on the lattice in percent, by number of hops."""
    hops = (1, 2, 4, 8, 16)
    lines = [
        f"| decay | {hops[0]} hop | {' | '.join(map(str, hops[1:]))} |",
        f"| --- |{' ---: |' * len(hops)}",
    ]
    for decay in (0.5, 1.0, 1.5, 2.0):
        best = [f"{100 - 100 * lattice_error(one, decay=decay):.1f}" for one in hops]
        lines.append(f"| {decay:g} | {' | '.join(best)} |")
    return "\n".join(lines) + "\n"


def own_data_table(stored: dict[str, Any]) -> str:
    """Return validation (test) accuracy of the defaults and of fixed models."""
    fixed = [name for name in next(iter(stored["cells"].values())) if name != "auto"]
    titles = ["default", "chosen", *(f"`{name}`" for name in fixed), "majority"]
    lines = [
        f"| data | {' | '.join(titles)} |",
        f"| --- | ---: | --- |{' ---: |' * (len(fixed) + 1)}",
    ]
    close = better = 0
    for name, cells in stored["cells"].items():
        best = max(fmean(cells[model]["val"]) for model in fixed)
        auto = cells["auto"]
        close += fmean(auto["val"]) >= best - 0.01
        better += fmean(auto["test"]) > auto["baseline"]
        row = [stored["folders"][name], _val_test(auto), f"`{auto['chosen']}`"]
        row += [_val_test(cells[model]) for model in fixed]
        lines.append(f"| {' | '.join(row)} | {100 * auto['baseline']:.1f} |")
    count = len(stored["cells"])
    lines += [
        "",
        f"On validation, the default is at most one point below the best of the fixed models on "
        f"{close} of {count} folders; on test data it is above the majority class on {better} of "
        f"{count}.",
    ]
    return "\n".join(lines) + "\n"


def _val_test(cell: dict[str, Any]) -> str:
    return f"{100 * fmean(cell['val']):.1f} ({100 * fmean(cell['test']):.1f})"


def compile_table(stored: dict[str, Any]) -> str:
    """Return the times of a training step in eager mode and compiled."""
    lines = [
        "| size of | first step, s | eager, ms | compiled, ms | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in stored["rows"]:
        name = {"texas": "Texas", "chameleon": "Chameleon", "pubmed": "PubMed"}[row["size"]]
        ratio = row["compiled"] / row["eager"]
        times = f"{1e3 * row['eager']:.1f} | {1e3 * row['compiled']:.1f} | {ratio:.2f}"
        lines.append(f"| {name} | {row['first']:.0f} | {times} |")
    note = (
        f"torch {stored['torch']}, {stored['threads']} threads, median of {stored['steps']} steps."
    )
    return "\n".join([*lines, "", note]) + "\n"


# The stored results and the function that shows them.
KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    **{name: (name, full_table) for name in ("epoch", "ppi", "small", "scaling", "large")},
    "solve": ("solve", solve_table),
    "solvers": ("solve", solvers_table),
    "memory": ("low-memory", low_memory_table),
    "files": ("larger-than-memory", files_table),
    "own_data": ("own_data", own_data_table),
    "compile": ("compile", compile_table),
}


def pages() -> list[Path]:
    """Return the pages that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def render(text: str) -> str:
    """Return ``text`` with every table updated."""

    def table(found: re.Match[str]) -> str:
        kind, where = found[2].split("-", 1)
        if kind == "models":
            return found[1] + models_table(where) + found[3]
        if kind == "plan":
            return found[1] + plan_table(where) + found[3]
        if kind == "lattice":
            return found[1] + lattice_table() + found[3]
        if kind == "reproduce":
            return found[1] + paper_table(where) + found[3]
        name, show = KINDS[kind]
        stored = json.loads((HERE / "results" / f"{name}-{where}.json").read_text("utf-8"))
        return found[1] + show(stored) + found[3]

    return BLOCK.sub(table, text)


if __name__ == "__main__":
    for page in pages():
        page.write_text(render(page.read_text("utf-8")), "utf-8")
