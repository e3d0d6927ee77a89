"""Results in the folders of trainings, read from their ``report.json`` and checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgnni.errors import DataError
from mgnni.files import read_object
from mgnni.html_report.report_check import check_report, finite_number

REPORT = "report.json"
REMEDY = "restore it, or leave it out"
# Errors of a report of another shape.
WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


@dataclass(frozen=True)
class RunScore:
    """One run of a training.

    Attributes:
        split: Index of the split.
        seed: Random seed.
        epochs: Number of epochs trained.
        epoch: Epoch of the reported score.
        val: Validation metric; ``None`` without a validation set.
        test: Reported test metric.
    """

    split: int
    seed: int
    epochs: int
    epoch: int
    val: float | None
    test: float


@dataclass(frozen=True)
class Result:
    """A finished training.

    Attributes:
        folder: Where it is stored.
        number: Its place in the report, from 1.
        experiment: Name of the experiment that it belongs to; empty if none.
        row: Name of the row of that experiment.
        column: Name of the column of that experiment; otherwise of the dataset.
        label: What to call the model.
        report: Content of ``report.json``.
        header: Content of ``config.json``; empty if there is none.
        runs: Its runs.
        title: Title of its experiment; empty if it is not known.
        column_label: Title of its column; empty if it is not known.
    """

    folder: Path
    number: int
    experiment: str
    row: str
    column: str
    label: str
    report: Mapping[str, Any]
    header: Mapping[str, Any]
    runs: tuple[RunScore, ...]
    title: str = ""
    column_label: str = ""

    @property
    def anchor(self) -> str:
        """Name of its section in the page."""
        return f"result-{self.number}"

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return str(self.report["dataset"])

    @property
    def place(self) -> str:
        """What to call the data: the dataset, and which column if there are several of it."""
        label = self.column_label or self.column
        return label if self.column == self.dataset else f"{self.dataset}, {label}"

    @property
    def copy_of(self) -> str:
        """The result that it was copied from, EXPERIMENT/ROW/COLUMN; empty if it was trained."""
        return str(self.report.get("copy_of") or "")

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return str(self.report["metric"])

    @property
    def mark(self) -> str:
        """Mark of a score that was chosen with test labels; otherwise empty."""
        return str(self.report["protocol"]["mark"])

    @property
    def mean(self) -> float:
        """Mean score, from 0 to 1 unless numbers are predicted."""
        return float(self.report["score"]["mean"])

    @property
    def std(self) -> float | None:
        """Standard deviation of the score over runs."""
        std = self.report["score"]["std"]
        return None if std is None else float(std)

    @property
    def val(self) -> float | None:
        """Mean validation metric."""
        found = [run.val for run in self.runs if run.val is not None]
        return sum(found) / len(found) if found else None

    @property
    def splits(self) -> tuple[int, ...]:
        """Indices of its splits."""
        return tuple(sorted({run.split for run in self.runs}))

    @property
    def split_fingerprints(self) -> tuple[str, ...]:
        """Hashes of its splits; empty in reports of early versions."""
        known = self.report.get("data", {}).get("split_fingerprints") or ()
        return tuple(known[split] for split in self.splits if split < len(known))

    @property
    def seconds(self) -> float:
        """Duration of the training."""
        return float(self.report["seconds"])

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        """The trainings it consists of, if runs were added to it; otherwise its report."""
        found: Sequence[Mapping[str, Any]] = self.report.get("parts") or [self.report]
        return found

    @property
    def device(self) -> str:
        """Where it was trained; several devices if parts of it were trained on others."""
        return ", ".join(dict.fromkeys(str(one.get("device", "unknown")) for one in self.parts))


def read_results(paths: Sequence[Path], known: Collection[tuple[str, str]] = ()) -> list[Result]:
    """Return the results in folders, and in the folders below them.

    A stored result says to which experiment it belongs. If it does not, a folder that ends in
    EXPERIMENT/ROW/DATASET is that of a stored result, if its experiment and row are known, or if
    it lies at least two levels below a folder in ``paths``.

    Args:
        paths (Sequence[Path]): Folders of trainings, or folders that hold such folders.
        known (Collection[tuple[str, str]], optional): Names of experiments and rows.
            (default: :obj:`()`)

    Raises:
        DataError: A folder has no results, or one that cannot be read.
    """
    found: dict[Path, Result] = {}
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such folder; give the output folder of mgnni train")
        files = sorted(_files(path))
        results = (_result(file, single=len(files) == 1) for file in files)
        kept = [_placed(one, path, known) for one in results if one is not None]
        if not kept:
            raise DataError(
                f"{path}: must be or contain the folder of a complete training, with a {REPORT} "
                "(found none); train with mgnni train, or finish a training with --resume"
            )
        found |= {one.folder.resolve(): one for one in kept}
    return [replace(one, number=place) for place, one in enumerate(found.values(), 1)]


def trained(results: Sequence[Result]) -> list[Result]:
    """Return each training once: of a result and its copies, only the first.

    Args:
        results (Sequence[Result]): Results, some of which may be copies of others.
    """
    folders = [one.folder.resolve() for one in results]
    source = {
        folder: (folder / "../../.." / one.copy_of).resolve()
        for folder, one in zip(folders, results, strict=True)
        if one.copy_of
    }
    found: dict[Path, Result] = {}
    for folder, one in zip(folders, results, strict=True):
        origin = folder
        for _ in source:  # a copy may be that of a copy
            origin = source.get(origin, origin)
        found.setdefault(origin, one)
    return list(found.values())


def _files(path: Path) -> Iterator[Path]:
    own = path / REPORT if path.is_dir() else path
    yield from [own] if own.exists() else path.rglob(REPORT)


def _result(file: Path, single: bool) -> Result | None:
    """Return the result in a file; ``None`` for a report of another command among others."""
    report, folder = read_object(file, REMEDY), file.parent
    command = report.get("command", "train")  # early reports have none
    if command != "train" and not single:
        return None
    if command != "train":
        raise DataError(
            f"{file}: must be a report of mgnni train (got one of mgnni {command}); leave it out"
        )
    header = (
        read_object(folder / "config.json", REMEDY) if (folder / "config.json").exists() else {}
    )
    try:
        check_report(report)
        metric = report["metric"]
        runs = tuple(
            RunScore(
                split=int(run["split"]),
                seed=int(run["seed"]),
                epochs=int(run["epochs"]),
                epoch=int(run["reported"]["epoch"]),
                val=None if metric not in run["val"] else finite_number(run["val"][metric]),
                test=finite_number(run["reported"][metric]),
            )
            for run in report["runs"]
        )
    except WRONG as error:
        raise DataError(
            f"{file}: is not a report of mgnni train ({type(error).__name__}: {error}); leave it "
            "out, or train again"
        ) from error
    names = ("", "", report["dataset"], report["model"])
    return Result(folder, 0, *names, report, header, runs)


def _placed(result: Result, root: Path, known: Collection[tuple[str, str]]) -> Result:
    """Return a result with the names of its experiment, row and column, if it has them."""
    stated = str(result.report.get("experiment", "")).split("/")
    if len(stated) == 3:
        experiment, row, column = stated
        return replace(result, experiment=experiment, row=row, column=column, label=row)
    parts, below = result.folder.resolve().parts, len(result.folder.parts) - len(root.parts)
    if len(parts) < 4 or parts[-1] != result.dataset:
        return result
    experiment, row = parts[-3], parts[-2]
    if below < 2 and (experiment, row) not in known:
        return result
    return replace(result, experiment=experiment, row=row, label=row)
