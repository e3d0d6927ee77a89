"""The experiment of the quick start: is it fair, and does it keep count of its solves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from mgnni.cli.study import Settings, study


def test_training_never_sees_a_test_label(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(length=14, chains_per_class=5, colored=10, epochs=4, runs=1, seed=0)
    honest = study(settings, lambda *_: None)
    make = Settings.data

    def flipped(self: Settings, run: int) -> Any:
        data = make(self, run)
        data.y = torch.where(data.test_mask, 1 - data.y, data.y)
        return data

    monkeypatch.setattr(Settings, "data", flipped)
    for one, other in zip(honest, study(settings, lambda *_: None), strict=True):
        assert one.best_epoch == other.best_epoch
        assert one.val_accuracy == other.val_accuracy
        assert one.accuracy[0] == pytest.approx(1 - other.accuracy[0])
        assert one.exact[0] == pytest.approx(1 - other.exact[0])


def test_the_epoch_is_the_best_on_validation() -> None:
    settings = Settings(length=14, chains_per_class=5, colored=10, epochs=8, runs=1, seed=1)
    seen: dict[int, list[float]] = {0: [], 1: []}
    outcomes = study(settings, lambda model, run, accuracy: seen[model].append(accuracy))
    for model, outcome in enumerate(outcomes):
        assert len(seen[model]) == 8
        assert outcome.val_accuracy == [max(seen[model])]
        assert seen[model][outcome.best_epoch[0] - 1] == max(seen[model])
    shorter = study(replace(settings, epochs=outcomes[1].best_epoch[0]), lambda *_: None)
    assert shorter[1].accuracy == outcomes[1].accuracy, "the weights of the best epoch are tested"
