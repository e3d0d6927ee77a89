"""Experiments of the paper as data: which rows, on which data, and the published numbers.

A file ``experiments/NAME.json`` is one experiment. Its columns are datasets, perhaps with options
or changed hyperparameters; its rows are models with a preset, changes and a number of seeds. A row
and a column make a :class:`Cell`, which is one training with all splits and seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mgnni.data.catalog import find_entry
from mgnni.data.rules import DEFAULT_RULE
from mgnni.train.config import Config, changed
from mgnni.train.presets import TUNED
from mgnni.train.runs import Run
from mgnni.train.tuned import find_preset
from mgnni.train.tuned import stored as tuned_presets

QUICK_EPOCHS, QUICK_SPLITS = 20, 2


@dataclass(frozen=True)
class Column:
    """A column of a table: a dataset.

    Args:
        name (str): Name of its folders.
        data (str, optional): Name of the dataset; ``None`` if it is that of the column.
        label (str, optional): Title; ``None`` if it is the name.
        options (dict, optional): Options of the dataset.
        changes (dict, optional): Hyperparameters of all rows in this column.
        seeds (int, optional): Number of seeds; ``None`` if it is that of the row.
        rule (str, optional): Selection rule; ``None`` if it is that of the row.
        group (str, optional): Title of the part of the table.
    """

    name: str
    data: str | None = None
    label: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    seeds: int | None = None
    rule: str | None = None
    group: str = ""

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.data or self.name

    @property
    def title(self) -> str:
        """Title of the column."""
        return self.label or self.name


@dataclass(frozen=True)
class Row:
    """A row of a table: a model with hyperparameters.

    Args:
        name (str): Name of its folder.
        label (str, optional): Title; ``None`` if it is the name.
        model (str, optional): Name of the model; ``None`` if it is that of the row.
        preset (str, optional): Preset of the model, ``"paper"``, ``"authors"``, or ``"tuned"``,
            which is left out where none is stored. (default: :obj:`"paper"`)
        changes (dict, optional): Hyperparameters that differ from the preset.
        data (dict, optional): The same for single columns, by name.
        columns (list, optional): Columns of the row; ``None`` if it has all.
        options (dict, optional): Options of the datasets.
        seeds (int, optional): Number of seeds, from 0; ``None`` if it is that of the experiment.
        rule (str, optional): Selection rule; ``None`` if it is that of the experiment.
        paper (dict, optional): Published mean and standard deviation in percent, by column.
        paper_seconds (dict, optional): Published times, one for each measure, by column.
        paper_hops (dict, optional): Published distances, in hops, by column.
        reference (str, optional): Row whose paired difference from this one is shown; that of the
            experiment if empty.
        note (str, optional): What a reader of the row should know.
    """

    name: str
    label: str | None = None
    model: str | None = None
    preset: str = "paper"
    changes: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    seeds: int | None = None
    rule: str | None = None
    paper: dict[str, Any] = field(default_factory=dict)
    paper_seconds: dict[str, Any] = field(default_factory=dict)
    paper_hops: dict[str, int] = field(default_factory=dict)
    reference: str = ""
    note: str = ""

    @property
    def architecture(self) -> str:
        """Name of the model."""
        return self.model or self.name

    @property
    def title(self) -> str:
        """Title of the row."""
        return self.label or self.name


@dataclass(frozen=True)
class Study:
    """An experiment of the paper.

    Args:
        name (str): Name of the experiment and of its folder.
        title (str): Title of the table.
        paper (str): Where it is in the paper.
        columns (tuple[Column, ...]): The columns.
        rows (tuple[Row, ...]): The rows.
        kind (str, optional): What is measured, see :data:`mgnni.reproduce.kinds.KINDS`.
            (default: :obj:`"accuracy"`)
        rule (str, optional): Rule that selects the reported epoch. (default: :obj:`"validation"`)
        beside (list[str], optional): More selection rules whose scores are shown.
        seeds (int, optional): Number of seeds. (default: :obj:`1`)
        splits (list[int], optional): Splits; ``None`` uses all.
        reference (str, optional): Row whose paired differences from the others are shown.
        measures (list[str], optional): Entries of ``timing`` that are shown, in the order of the
            published numbers, if the kind is ``"seconds"``.
        notes (list[str], optional): What a reader of the table should know.
        quick (dict, optional): ``rows``, ``columns`` and ``changes`` of the quick version.
    """

    name: str
    title: str
    paper: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    kind: str = "accuracy"
    rule: str = DEFAULT_RULE
    beside: tuple[str, ...] = ()
    seeds: int = 1
    splits: tuple[int, ...] | None = None
    reference: str = ""
    measures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    quick: dict[str, Any] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """Return all cells, column by column; a tuned row has the columns it was tuned for."""
        tuned = tuned_presets()
        return [
            Cell(self, row, column)
            for column in self.columns
            for row in self.rows
            if row.columns is None or column.name in row.columns
            if row.preset != TUNED or f"{row.architecture}-{column.dataset}" in tuned
        ]

    def only(self, models: Sequence[str], data: Sequence[str]) -> Study:
        """Return the study with some rows and columns.

        Args:
            models (Sequence[str]): Names of rows, or of models that no row is named after; none
                selects all.
            data (Sequence[str]): The same for columns and datasets.
        """
        rows = _chosen(models, {row.name: row.architecture for row in self.rows})
        columns = _chosen(data, {one.name: one.dataset for one in self.columns})
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.name in rows),
            columns=tuple(one for one in self.columns if one.name in columns),
        )


@dataclass(frozen=True, eq=False)  # a key of mappings, by identity
class Cell:
    """A row and a column of a study: one training with all splits and seeds.

    Args:
        study (Study): The experiment.
        row (Row): The model.
        column (Column): The dataset.
        seeds (tuple[int, ...], optional): Seeds; ``None`` uses those of the row.
        splits (tuple[int, ...], optional): Splits; ``None`` uses those of the study.
        runs (tuple[Run, ...], optional): Exactly these runs; ``None`` uses all splits with all
            seeds.
        quick (bool, optional): Two splits, one seed and few epochs. (default: :obj:`False`)
    """

    study: Study
    row: Row
    column: Column
    seeds: tuple[int, ...] | None = None
    splits: tuple[int, ...] | None = None
    runs: tuple[Run, ...] | None = None
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.study.name}/{self.row.name}/{self.column.name}"

    def folder(self, output: Path) -> Path:
        """Return the folder of the cell."""
        return output / str(self)

    @property
    def rule(self) -> str:
        """Rule that selects the reported epoch."""
        return self.column.rule or self.row.rule or self.study.rule

    @property
    def options(self) -> dict[str, Any]:
        """Options of the dataset."""
        return {**self.column.options, **self.row.options}

    @property
    def chosen_seeds(self) -> tuple[int, ...]:
        """The seeds."""
        if self.seeds is not None:
            return self.seeds
        count = self.column.seeds or self.row.seeds or self.study.seeds
        return tuple(range(1 if self.quick else count))

    @property
    def number_of_runs(self) -> int:
        """How many runs the cell has, without reading its data."""
        splits = self.options.get("num_splits") or find_entry(self.column.dataset).counts.splits
        return len(self.chosen_runs(splits or 1))

    def chosen_runs(self, splits: int) -> tuple[Run, ...]:
        """Return the runs of the cell.

        Args:
            splits (int): Number of splits of the data.
        """
        if self.runs is not None:
            return self.runs
        chosen: Sequence[int] = self.splits or self.study.splits or range(splits)
        if self.quick:
            chosen = chosen[:QUICK_SPLITS]
        return tuple(Run(split, seed) for split in chosen for seed in self.chosen_seeds)

    def config(self) -> Config:
        """Return model and training hyperparameters."""
        row, data = self.row, self.column.dataset
        preset = find_preset(data, find_entry(data).level, row.preset, row.architecture)
        of_data = row.data.get(self.column.name, {})
        config = changed(preset, {**row.changes, **self.column.changes, **of_data})
        if not self.quick:
            return config
        short = {"epochs": min(config.epochs, QUICK_EPOCHS)}
        return changed(config, {**short, **self.study.quick.get("changes", {})})


def _chosen(asked: Sequence[str], known: Mapping[str, str]) -> set[str]:
    """Return the names that are asked for, by themselves or by what they stand for."""
    other = set(asked) - set(known)
    return {name for name in known if not asked or name in asked or known[name] in other}
