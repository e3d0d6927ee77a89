"""Reads the definitions of experiments, and selects the cells that were asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

from mgnni.errors import ArgumentError, check_choice
from mgnni.plain_data import from_dict
from mgnni.reproduce.study import Cell, Study

FOLDER = resources.files("mgnni.reproduce") / "experiments"
ORDER = ("heterophilic", "ppi", "graphs", "scales", "attention", "attention-values")


def study_names() -> list[str]:
    """Return the names of all experiments, the tables of the paper first."""
    found = [one.name.removesuffix(".json") for one in FOLDER.iterdir() if one.name[-5:] == ".json"]
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else 99, name))


@lru_cache
def load_study(name: str) -> Study:
    """Return an experiment by its name.

    Args:
        name (str): See :func:`study_names`.
    """
    check_choice("experiments", name, (*study_names(), "all"))
    return make_study(name, json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def make_study(name: str, data: Mapping[str, Any]) -> Study:
    """Build an experiment from plain data; unknown fields and wrong types are errors.

    Args:
        name (str): Its name.
        data (Mapping[str, Any]): The content of its file.
    """
    study = from_dict(Study, {**data, "name": name}, name)
    for what, found in (("rows", study.rows), ("columns", study.columns)):
        names = [one.name for one in found]
        if len(set(names)) < len(names):
            raise ArgumentError(f"'{name}.{what}' must have different names (got {names})")
    return study


def select(
    names: Sequence[str],
    *,
    models: Sequence[str] = (),
    data: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    splits: Sequence[int] | None = None,
    quick: bool = False,
) -> list[Cell]:
    """Return the cells of experiments that were asked for.

    Args:
        names (Sequence[str]): Names of experiments, or ``"all"``.
        models (Sequence[str], optional): Rows, by their name or model; none selects all.
        data (Sequence[str], optional): Columns, by their name or dataset; none selects all.
        seeds (Sequence[int], optional): Seeds instead of those of the rows.
            (default: :obj:`None`)
        splits (Sequence[int], optional): Splits instead of those of the experiments.
            (default: :obj:`None`)
        quick (bool, optional): The quick version: few rows, splits, seeds and epochs.
            (default: :obj:`False`)
    """
    studies = [load_study(name) for name in (study_names() if "all" in names else names)]
    for what, asked, known in (
        ("model", models, {n for s in studies for r in s.rows for n in (r.name, r.architecture)}),
        ("data", data, {n for s in studies for c in s.columns for n in (c.name, c.dataset)}),
    ):
        for one in asked:
            check_choice(what, one, known)
    cells = []
    for study in studies:
        short = study.quick if quick else {}
        chosen = study.only(models or short.get("rows", ()), data or short.get("columns", ()))
        cells += [
            replace(
                cell,
                study=study,  # all of it
                seeds=None if seeds is None else tuple(seeds),
                splits=None if splits is None else tuple(splits),
                quick=quick,
            )
            for cell in chosen.cells()
        ]
    return cells
