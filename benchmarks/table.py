"""Write the tables of README.md from the stored results; a test compares the two.

python benchmarks/table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
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


def render(text: str) -> str:
    """Return ``text`` with every table made anew from its stored result."""

    def table(found: re.Match[str]) -> str:
        stored = json.loads((HERE / "results" / f"{found[2]}.json").read_text())
        return found[1] + solve_table(stored) + found[3]

    return BLOCK.sub(table, text)


if __name__ == "__main__":
    README.write_text(render(README.read_text()))
