"""Writes the sample graph in ``examples/club``: a sports club, and who left it.

Members live in a town and train with people who live nearby, so an edge joins two neighbours. From
some quarters it is hard to reach the club. Members who live there tend to leave. The columns
``distance_km``, ``visits`` and ``tariff`` are noisy hints at it. A model that averages the hints of
a neighbourhood sees more than one that looks at single members.

    python examples/make_club.py            # writes the same files again
    python examples/make_club.py --seed 2   # another town
"""

from __future__ import annotations

import argparse
import csv
import math
import random
from pathlib import Path

MEMBERS = 500
NEW = 50  # joined last month: nobody knows yet whether they will leave
NEAREST = 4  # training partners that each member names
SHARE = 0.09  # of the members leave
NAMES = (
    *("ada", "ben", "chloe", "dina", "emil", "fay", "gus", "hana", "ivan", "june"),
    *("karl", "lena", "milo", "nora", "omar", "pia", "quinn", "rosa", "sven", "tess"),
)


def make_tables(seed: int = 1) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of ``nodes.csv`` and ``edges.csv``, with their headers."""
    draw = random.Random(seed)
    homes = [(draw.random(), draw.random()) for _ in range(MEMBERS)]
    centres = [(draw.random(), draw.random()) for _ in range(3)]  # of these quarters
    trouble = [sum(math.exp(-60 * math.dist(home, c) ** 2) for c in centres) for home in homes]
    risk = [value + draw.gauss(0, 0.1) for value in trouble]
    limit = sorted(risk, reverse=True)[round(SHARE * MEMBERS)]

    nodes = [["member", "age", "distance_km", "visits", "tariff", "newsletter", "left"]]
    for i in range(MEMBERS):
        noise = [draw.gauss(0, 1) for _ in range(4)]
        age = round(38 + 12 * noise[0])
        distance = max(0.2, 3 + 2.5 * trouble[i] + 2.5 * noise[1])
        visits = max(0, round(9 - 4 * trouble[i] + 4 * noise[2]))
        tariff = "day" if trouble[i] + noise[3] > 1.2 else draw.choice(["month", "year"])
        nodes.append(
            [
                f"{NAMES[i % len(NAMES)]}-{i // len(NAMES) + 1:02d}",
                str(max(14, age)) if draw.random() > 0.05 else "",
                f"{distance:.1f}" if draw.random() > 0.1 else "NA",
                str(visits),
                tariff,
                draw.choice(["yes", "no"]) if draw.random() > 0.05 else "",
                "" if i >= MEMBERS - NEW else "yes" if risk[i] > limit else "no",
            ]
        )

    pairs = set()
    for i, home in enumerate(homes):
        order = sorted(range(MEMBERS), key=lambda j: math.dist(home, homes[j]))
        pairs |= {(min(i, j), max(i, j)) for j in order[1 : NEAREST + 1]}
    edges = [[nodes[i + 1][0], nodes[j + 1][0]] for i, j in sorted(pairs)]
    draw.shuffle(edges)  # each pair is listed once, one way or the other
    edges = [edge if draw.random() < 0.5 else edge[::-1] for edge in edges]
    return nodes, [["source", "target"], *edges]


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description="Write the sample graph.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "club")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("nodes", "edges"), make_tables(args.seed), strict=True):
        with (args.output / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
