"""Train every model of the paper's tables with its own hyperparameters, and store the reports.

    python benchmarks/models.py chameleon --models gcn gat      all splits, one report per model
    python benchmarks/models.py texas chameleon                 all models of the tables
    python benchmarks/table.py                                  the tables in the docs

Existing reports are not made again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from mgnni import fit
from mgnni.models.catalog import MODELS
from mgnni.train.presets import KINDS
from mgnni.train.report import to_json

REPORTS = Path(__file__).parent / "reports"


def models_of(data: str) -> list[str]:
    """Return the models that the paper reports on data of this kind, and the baselines."""
    (kind,) = (kind for kind, names in KINDS.items() if data in names)
    return [name for name, one in MODELS.items() if kind in one.tables or one.kind == "baseline"]


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--models", nargs="*", choices=MODELS)
    parser.add_argument("--rule", default="validation")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, default=REPORTS)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for data in arguments.data:
        for model in arguments.models or models_of(data):
            path = arguments.output / f"{data}-{model}.json"
            if path.exists():
                continue
            start = time.perf_counter()
            fitted = fit(
                data, model=model, split="all", rule=arguments.rule, device=arguments.device
            )
            score = fitted.report["score"]
            path.write_text(to_json(fitted.report), encoding="utf-8")
            took = time.perf_counter() - start
            mean, std = 100 * score["mean"], 100 * (score["std"] or 0)
            print(f"{data} {model}: {mean:.2f} ± {std:.2f}, {took:.0f} s")


if __name__ == "__main__":
    main()
