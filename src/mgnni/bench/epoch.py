"""The tables about training: ``epoch``, ``ppi`` and ``small``."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from mgnni.bench import rivals
from mgnni.bench.compete import RIVAL, Entrant, absent, as_authors, fastest, reached, settle
from mgnni.bench.equation import Equation
from mgnni.bench.measure import errors
from mgnni.bench.problems import node_problem, ppi_problem, small_problem, trained_factor
from mgnni.bench.results import CLAIM, Errors, Row, Settings
from mgnni.bench.rivals import Solve, solved_by
from mgnni.bench.training import Trainer, TrainingCase, outcome
from mgnni.data.task import Task
from mgnni.graph.propagation import Propagation
from mgnni.solve import textbook
from mgnni.solve.textbook import Stopping
from mgnni.train.config import Config, changed
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.presets import preset_for
from mgnni.train.runs import Run

LARGEST = 0.93  # eigenvalue of g(F) after training
# Both directions and the spectral norm. Weights as initialised, so that all columns propagate.
GENERALISED = {"contraction": "spectral", "directions": "both", "fusion": "concat", "skip": True}
# Products of the head are rounded to ten bits; the equations are solved as accurately as before.
TF32 = Errors(1e-2, 1e-1)


class TrainingMethods:
    """All methods that train on one case.

    Args:
        case (TrainingCase): The task, the configuration, and the initial weights.
        settings (Settings): Device and number of repeats.
        validate (bool, optional): Whether validation is timed too. (default: :obj:`True`)
    """

    def __init__(self, case: TrainingCase, settings: Settings, validate: bool = True) -> None:
        self.case, self.settings, self.validate = case, settings, validate
        self.check = case.checked()
        self.exact = outcome(self.check.exact())

    def errors(self, make: Callable[[TrainingCase], Trainer]) -> Errors:
        """Return the errors of one epoch of a trainer."""
        return errors(outcome(make(self.check)), self.exact)

    def repeated(self, trainer: Trainer) -> Callable[[], object]:
        """Return a function that trains for one more epoch per call."""
        count = itertools.count(1)

        def run() -> None:
            trainer.train(next(count))
            if self.validate:
                trainer.validate()

        return run

    def _entrant(
        self, method: str, make: Callable[[TrainingCase], Trainer], **facts: Any
    ) -> Entrant:
        tol = self.case.config.model.tol
        run = self.repeated(make(self.case))
        return Entrant(method, run, self.errors(make), tol=tol, ours=True, **facts)

    def ours(self, method: str = "mgnni", claim: Errors = CLAIM) -> Entrant:
        """Return the training of the library."""
        return self._entrant(method, lambda case: case.learned(), claim=claim)

    def ours_in_a_loop(self) -> Entrant:
        """Return the model of the library in the hand-written loop of its rivals."""
        return self._entrant("mgnni, plain loop", lambda case: case.plain(case.model()))

    def together(self) -> Entrant:
        """Return the training of all splits at once."""
        runs = len(self.case.task.splits)
        return self._entrant(
            f"mgnni, {runs} splits together",
            lambda case: case.learned(runs),
            work=runs,
            note=f"all {runs} in this time",
        )

    def generalised(self) -> Entrant:
        """Return the training of the generalised model, which solves other equations."""
        case = self.case
        config = changed(case.config, GENERALISED)
        methods = TrainingMethods(
            TrainingCase(case.task, config, None, case.device), self.settings, self.validate
        )
        note = "both directions, spectral norm"
        return replace(methods.ours("mgnni, generalised"), comparable=False, note=note)

    def _reached(self, method: str, solve: Callable[[float], Solve], note: str = "") -> Entrant:
        def by(tol: float, case: TrainingCase) -> Trainer:
            return case.plain(solved_by(case.model(), solve(tol)))

        found = reached(
            method,
            lambda tol: self.errors(partial(by, tol)),
            lambda tol: self.repeated(by(tol, self.case)),
        )
        return replace(found, note=note or found.note)

    def textbook(self) -> Entrant:
        """Return Picard's iteration with a relative stopping criterion."""
        return self._reached(
            RIVAL,
            lambda tol: partial(textbook.equilibria, stopping=Stopping(tol, True, 2000)),
        )

    def authors(self) -> Entrant:
        """Return Picard's iteration with the stopping criterion of the authors."""

        def by(case: TrainingCase) -> Trainer:
            return case.plain(solved_by(case.model(), textbook.equilibria))

        return as_authors(self.repeated(by(self.case)), self.errors(by))

    def torchdeq(self) -> Entrant:
        """Return TorchDEQ with its fastest solver."""
        if not rivals.deq_installed():
            return absent()
        found = [
            self._reached(solver, partial(_deq, solver), note=solver)
            for solver in rivals.DEQ_SOLVERS
        ]
        return fastest("TorchDEQ", found, self.settings)

    def explicit(self, method: str, make: Callable[..., torch.nn.Module]) -> Entrant:
        """Return a network without an equation."""
        trainer = self.case.plain(make(self.case.model()))
        return Entrant(method, self.repeated(trainer), claim=None, note="solves no equation")


def _deq(solver: str, tol: float) -> Solve:
    return partial(rivals.deq_equilibria, solver=solver, tol=tol)


def _training_case(task: Task, config: Config, settings: Settings) -> TrainingCase:
    """Return a case whose weights have the spectrum they have after training."""
    width = config.model.hidden_channels or task.num_features
    generator = torch.Generator().manual_seed(0)
    factor = trained_factor(len(config.model.scales), width, LARGEST, generator)
    return TrainingCase(task, config, factor, settings.device)


def epoch_rows(settings: Settings) -> Iterator[Row]:
    """Time an epoch on Squirrel, Chameleon and Cornell."""
    for name in ("squirrel", "cornell") if settings.quick else ("squirrel", "chameleon", "cornell"):
        task = node_problem(name, settings.quick)
        config = preset_for(name, preset="authors")
        methods = TrainingMethods(_training_case(task, config, settings), settings)
        entrants = [methods.textbook(), methods.authors()]
        if settings.device.type == "cpu" or settings.quick:  # on CUDA it is in the table "solve"
            entrants.append(methods.torchdeq())
        entrants += [
            methods.ours(),
            methods.ours_in_a_loop(),
            methods.together(),
            methods.explicit("GCN", rivals.gcn),
            methods.explicit("APPNP", rivals.appnp),
        ]
        if config.model.hidden_channels:  # otherwise the states are as wide as the features
            entrants.append(methods.generalised())
        width = config.model.hidden_channels or task.num_features
        yield from settle(f"{task.name}, h = {width}", entrants, settings)


def small_rows(settings: Settings) -> Iterator[Row]:
    """Time one training step on a batch of 128 graphs of 18 nodes."""
    task, config = small_problem(settings.quick), preset_for("mutag")
    methods = TrainingMethods(_training_case(task, config, settings), settings, validate=False)
    entrants = [
        methods.textbook(),
        methods.ours(),
        methods.ours_in_a_loop(),
        methods.explicit("GIN", rivals.gin),
    ]
    width = config.model.hidden_channels or task.num_features
    yield from settle(f"{task.name}, h = {width}", entrants, settings)


def ppi_rows(settings: Settings) -> Iterator[Row]:
    """Time an epoch in batches of two graphs, then the equations of one batch.

    Most of an epoch is spent in the head. It takes minutes on a CPU and is left out there.
    """
    task = ppi_problem(settings.quick)
    # The same batches in every epoch, and no dropout: the losses of all methods can be compared.
    options = {"shuffle": False, "dropout": 0.0}
    if settings.quick:
        options["head_channels"] = 32
    config = changed(preset_for("ppi", preset="authors"), options)
    case = _training_case(task, config, settings)
    if settings.quick or settings.device.type == "cuda":
        name = f"{task.name}, epoch, head {config.model.head_channels}"
        yield from settle(name, _ppi_epochs(TrainingMethods(case, settings), config), settings)
    yield from settle(f"{task.name}, solves of a step", _ppi_solves(case, settings), settings)


def _ppi_epochs(methods: TrainingMethods, config: Config) -> Iterator[Entrant]:
    yield methods.textbook()
    yield methods.authors()
    yield methods.ours()
    yield methods.ours_in_a_loop()
    if methods.settings.device.type == "cuda":
        curves = [_losses(methods, config)]
        with _tf32():
            found = methods.ours("mgnni, tf32", TF32)
            curves.append(_losses(methods, config))
        apart = max(abs(a - b) for a, b in zip(*curves, strict=True))
        note = f"losses of {len(curves[0])} epochs within {apart:.1e} of those in float32"
        # Less accurate by design, so it is not compared with the rival.
        yield replace(found, run=_tf32()(found.run) if found.run else None, ours=False, note=note)


def _losses(methods: TrainingMethods, config: Config) -> list[float]:
    """Return the loss of each epoch of a training with its own learning rate."""
    learner = GraphLearner(methods.case.task, config, [Run(0, 0)], methods.case.fabric)
    return [
        learner.train_epoch(epoch)[0] for epoch in range(1, 4 if methods.settings.quick else 21)
    ]


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    """Allow matrix products in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _ppi_solves(case: TrainingCase, settings: Settings) -> Iterator[Entrant]:
    (x, edge_index, _, batch), *_ = case.train[0]
    propagation = Propagation.from_edge_index(edge_index, len(x), batch=batch)
    # The features are the bias, which then needs no gradient.
    random = Equation.random(propagation, x.size(1), LARGEST)
    equation = replace(random, bias=x, bias_grad=False)
    textbook_loop, target = equation.textbook(CLAIM)
    yield textbook_loop
    yield equation.authors()
    if settings.device.type == "cpu" or settings.quick:
        yield from equation.torchdeq(settings, CLAIM)
    yield equation.by_us(target)
