"""An epoch of training and validation on the benchmarks of one graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from mgnni.bench import deq, explicit
from mgnni.bench.compete import RIVAL, Entrant, absent, as_authors, fastest, reached, settle
from mgnni.bench.layer import Solve, solved_by
from mgnni.bench.measure import errors
from mgnni.bench.problems import node_problem, trained_factor
from mgnni.bench.row import CLAIM, Errors, Row
from mgnni.bench.settings import Settings
from mgnni.bench.study import Study
from mgnni.bench.trainer import Trainer, outcome
from mgnni.solve import textbook
from mgnni.solve.textbook import Stopping
from mgnni.train.presets import preset_for

LARGEST = 0.93  # eigenvalue of g(F), as training leaves it


class Field:
    """All who compete in training on one study.

    Args:
        study: the task, the configuration, and what all start from.
        settings: where, and how thoroughly.
        validate: whether validation is a part of what is timed.
    """

    def __init__(self, study: Study, settings: Settings, validate: bool = True) -> None:
        self.study, self.settings, self.validate = study, settings, validate
        self.check = study.checked()
        self.exact = outcome(self.check.exact())

    def errors(self, make: Callable[[Study], Trainer]) -> Errors:
        """Measure what an epoch of a trainer computes."""
        return errors(outcome(make(self.check)), self.exact)

    def repeated(self, trainer: Trainer) -> Callable[[], object]:
        """Return what trains for one epoch more each time it is called."""
        count = itertools.count(1)

        def run() -> None:
            trainer.train(next(count))
            if self.validate:
                trainer.validate()

        return run

    def _entrant(self, method: str, make: Callable[[Study], Trainer], **facts: Any) -> Entrant:
        """One of the library's own."""
        tol = self.study.config.model.tol
        run = self.repeated(make(self.study))
        return Entrant(method, run, self.errors(make), tol=tol, ours=True, **facts)

    def ours(self, method: str = "mgnni", claim: Errors = CLAIM) -> Entrant:
        """The library's training."""
        return self._entrant(method, lambda study: study.learned(), claim=claim)

    def ours_in_a_loop(self) -> Entrant:
        """The library's model in the loop of its rivals."""
        return self._entrant("mgnni, plain loop", lambda study: study.plain(study.model()))

    def together(self) -> Entrant:
        """All splits at once."""
        runs = len(self.study.task.splits)
        return self._entrant(
            f"mgnni, {runs} splits together",
            lambda study: study.learned(runs),
            work=runs,
            note=f"all {runs} in this time",
        )

    def _reached(self, method: str, solve: Callable[[float], Solve], note: str = "") -> Entrant:
        def by(tol: float, study: Study) -> Trainer:
            return study.plain(solved_by(study.model(), solve(tol)))

        found = reached(
            method,
            lambda tol: self.errors(partial(by, tol)),
            lambda tol: self.repeated(by(tol, self.study)),
        )
        return replace(found, note=note or found.note)

    def textbook(self) -> Entrant:
        """Picard, stopped by relative change."""
        return self._reached(
            RIVAL,
            lambda tol: partial(textbook.equilibria, stopping=Stopping(tol, True, 2000)),
        )

    def authors(self) -> Entrant:
        """Picard, stopped as the authors do."""

        def by(study: Study) -> Trainer:
            return study.plain(solved_by(study.model(), textbook.equilibria))

        return as_authors(self.repeated(by(self.study)), self.errors(by))

    def torchdeq(self) -> Entrant:
        """TorchDEQ with the solver of its own that is fastest here."""
        if not deq.installed():
            return absent("TorchDEQ", "not installed; pip install 'mgnni[bench]'")
        found = [
            self._reached(solver, partial(_through_deq, solver), note=solver)
            for solver in deq.SOLVERS
        ]
        return fastest("TorchDEQ", found, self.settings)

    def explicit(self, method: str, make: Callable[..., torch.nn.Module]) -> Entrant:
        """A network without an equation."""
        trainer = self.study.plain(make(self.study.model()))
        return Entrant(method, self.repeated(trainer), claim=None, note="solves no equation")


def _through_deq(solver: str, tol: float) -> Solve:
    return partial(deq.equilibria, solver=solver, tol=tol)


def rows(settings: Settings) -> Iterator[Row]:
    """Time an epoch on Squirrel, Chameleon and Cornell."""
    for name in ("squirrel", "cornell") if settings.quick else ("squirrel", "chameleon", "cornell"):
        task = node_problem(name, settings.quick)
        config = preset_for(name, preset="authors")
        width = config.model.hidden_channels or task.num_features
        generator = torch.Generator().manual_seed(0)
        factor = trained_factor(len(config.model.scales), width, LARGEST, generator)
        field = Field(Study(task, config, factor, settings.device), settings)
        entrants = [field.textbook(), field.authors()]
        if settings.device.type == "cpu" or settings.quick:  # else the table "solve" has it
            entrants.append(field.torchdeq())
        entrants += [
            field.ours(),
            field.ours_in_a_loop(),
            field.together(),
            field.explicit("GCN", explicit.gcn),
            field.explicit("APPNP", explicit.appnp),
        ]
        yield from settle(f"{task.name}, h = {width}", entrants, settings)
