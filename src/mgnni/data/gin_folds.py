"""The ten folds of the GIN paper, as files of indices."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from mgnni.errors import DataError

FOLDS = 10


def read_gin_folds(folder: Path, num_graphs: int) -> list[tuple[Tensor, Tensor]]:
    """Read the training and the test graphs of each fold.

    The files are ``train_idx-1.txt`` and ``test_idx-1.txt`` to ``-10.txt``, one index a line,
    counted from 0. A fold must hold every graph once, and no graph may be tested on twice.
    """
    folds = []
    tested = torch.zeros(num_graphs, dtype=torch.bool)
    for number in range(1, FOLDS + 1):
        file = folder / f"test_idx-{number}.txt"
        train, test = (_read(folder / f"{part}_idx-{number}.txt") for part in ("train", "test"))
        if not torch.equal(torch.cat([train, test]).sort().values, torch.arange(num_graphs)):
            raise DataError(
                f"{file}: with {file.name.replace('test', 'train')} it must hold each index from 0 "
                f"to {num_graphs - 1} once (got {train.numel()} + {test.numel()} indices); get "
                "whole copies of both files"
            )
        if bool(tested[test].any()):
            twice = int(test[tested[test]][0])
            raise DataError(
                f"{file}: folds must not overlap (graph {twice} is also in an earlier test fold); "
                "get a whole copy of the folds"
            )
        tested[test] = True
        folds.append((train, test))
    return folds


def _read(file: Path) -> Tensor:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise DataError(
            f"{file}: cannot be read ({reason.lower()}); get a whole copy of the folds, or remove "
            f"{file.parent} to have other folds made"
        ) from error
    indices = []
    for row, line in enumerate(lines, start=1):
        if line.strip().isdecimal():
            indices.append(int(line))
        elif line.strip():
            raise DataError(
                f"{file}, row {row}: one index a line is expected (got {line.strip()[:40]!r}); get "
                "a whole copy of the file"
            )
    return torch.tensor(indices, dtype=torch.long)
