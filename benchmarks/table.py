"""Write the tables of README.md and docs from the stored results; a test compares the two.

python benchmarks/table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def solve_table(stored: dict[str, Any]) -> str:
    """Milliseconds of the textbook loop and of ``auto``, one line a case."""
    lines = [
        f"{stored['device']}, torch {stored['torch']}; milliseconds, forward + backward.",
        "",
        "| graph | scales | weights | textbook loop | `auto` | |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    cases: dict[str, dict[str, Any]] = {}
    for row in stored["rows"]:
        case = row["case"]
        scales = ", ".join(map(str, case["scales"]))
        directed = "directed" if case["directed"] else "undirected"
        name = f"{case['graph']}, {directed} | {{{scales}}} | {case['weights']}"
        cases.setdefault(name, {})[row["solver"]] = row
    for name, rows in cases.items():
        slow, fast = rows["textbook"]["seconds"], rows["auto"]["seconds"]
        lines.append(f"| {name} | {1e3 * slow:.1f} | {1e3 * fast:.1f} | {slow / fast:.1f} × |")
    return "\n".join(lines) + "\n"


def together_table(stored: dict[str, Any]) -> str:
    """Milliseconds of an epoch of all runs, together and one by one."""
    lines = [
        f"{stored['device']}, torch {stored['versions']['torch']}; milliseconds of one epoch "
        "(training and validation) of all runs, single precision.",
        "",
        "| benchmark | runs | together | one by one | |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in stored["rows"]:
        fast, slow = row["seconds_per_epoch_together"], row["seconds_per_epoch_one_by_one"]
        lines.append(
            f"| {row['dataset']} | {row['runs']} | {1e3 * fast:.0f} | {1e3 * slow:.0f} | "
            f"{slow / fast:.1f} × |"
        )
    return "\n".join(lines) + "\n"


TABLES = {"solve": solve_table, "together": together_table}


def pages() -> list[Path]:
    """The pages that have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def render(text: str) -> str:
    """Return ``text`` with every table made anew from its stored result."""

    def table(found: re.Match[str]) -> str:
        stored = json.loads((HERE / "results" / f"{found[2]}.json").read_text())
        return found[1] + TABLES[found[2].split("-")[0]](stored) + found[3]

    return BLOCK.sub(table, text)


if __name__ == "__main__":
    for page in pages():
        page.write_text(render(page.read_text("utf-8")), "utf-8")
