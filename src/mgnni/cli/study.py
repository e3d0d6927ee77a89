"""The experiment of the quick start: the same training for one scale and for several."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.data.chains import color_chains
from mgnni.graph.propagation import Propagation
from mgnni.models.mgnni import MGNNI
from mgnni.train.certificates import Certificates
from mgnni.train.device import one_thread

SCALES: tuple[tuple[int, ...], ...] = ((1,), (1, 4, 8))

OnEpoch = Callable[[int, int, float], None]  # which model, which run, accuracy on validation


@dataclass(frozen=True)
class Settings:
    """Everything that decides the outcome; what the command does not offer has its value here."""

    length: int
    chains_per_class: int
    colored: int
    epochs: int
    runs: int
    seed: int
    num_features: int = 16  # two colours; the other channels are room for the states
    train_fraction: float = 0.2
    val_fraction: float = 0.2
    input_map: str = "identity"
    gamma: float = 0.8
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    tol: float = 1e-6
    exact_tol: float = 1e-12  # of the second evaluation, in float64

    def data(self, run: int) -> Any:
        """Draw the chains of a run; training, validation and test have no chain in common."""
        return color_chains(
            self.chains_per_class,
            self.length,
            self.colored,
            self.num_features,
            self.seed + run,
            split="chains",
            train_fraction=self.train_fraction,
            val_fraction=self.val_fraction,
        )

    def model(self, scales: Sequence[int], tol: float) -> MGNNI:
        """Build a model; only its scales tell one from the other."""
        width = self.num_features
        return MGNNI(
            width,
            width,
            2,
            scales,
            self.gamma,
            input_map=self.input_map,
            dropout=self.dropout,
            tol=tol,
        )


@dataclass
class Outcome:
    """What became of one model, over all runs."""

    scales: tuple[int, ...]
    accuracy: list[float] = field(default_factory=list)  # on test nodes, one number a run
    by_hop: list[list[float]] = field(default_factory=list)  # runs, hops
    exact: list[float] = field(default_factory=list)  # as accuracy, solved again to exact_tol
    exact_by_hop: list[list[float]] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)  # at the best epoch
    certificates: Certificates = field(default_factory=Certificates)
    seconds: float = 0.0


def study(settings: Settings, on_epoch: OnEpoch) -> tuple[Outcome, ...]:
    """Train and test every model in every run."""
    outcomes = tuple(Outcome(scales) for scales in SCALES)
    # At this size a second thread waits more than it works.
    with one_thread(), torch.random.fork_rng(devices=[]):
        for run in range(settings.runs):
            data = settings.data(run)
            propagation = Propagation.from_edge_index(data.edge_index, data.num_nodes)
            for index, outcome in enumerate(outcomes):
                start = time.perf_counter()
                torch.manual_seed(settings.seed + run)
                report = functools.partial(on_epoch, index, run)
                model = _train(outcome, settings, data, propagation, report)
                _test(outcome, settings, data, propagation, model)
                outcome.seconds += time.perf_counter() - start
    return outcomes


def _train(
    outcome: Outcome,
    settings: Settings,
    data: Any,
    propagation: Propagation,
    on_epoch: Callable[[float], None],
) -> MGNNI:
    """Return the model as it was at its best epoch, chosen on the validation chains alone."""
    model = settings.model(outcome.scales, settings.tol)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    train, val, y = data.train_mask, data.val_mask, data.y
    best = (-1.0, 0.0)  # accuracy, and among equals the smaller loss
    best_epoch, best_state = 0, model.state_dict()
    for epoch in range(1, settings.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data.x, propagation)[train], y[train])
        loss.backward()  # type: ignore[no-untyped-call]
        outcome.certificates.record(model.solve_log)
        optimizer.step()
        logits = _predict(outcome, model, data.x, propagation)
        accuracy = float((logits[val].argmax(1) == y[val]).float().mean())
        score = (accuracy, -float(nn.functional.cross_entropy(logits[val], y[val])))
        if score > best:
            best, best_epoch, best_state = score, epoch, copy.deepcopy(model.state_dict())
        on_epoch(accuracy)
    model.load_state_dict(best_state)
    outcome.best_epoch.append(best_epoch)
    outcome.val_accuracy.append(best[0])
    return model


def _test(
    outcome: Outcome, settings: Settings, data: Any, propagation: Propagation, model: MGNNI
) -> None:
    """Test once as trained, and once with the same weights solved far more exactly."""
    logits = _predict(outcome, model, data.x, propagation)
    exact = settings.model(outcome.scales, settings.exact_tol).double()
    exact.load_state_dict(model.state_dict())
    exact.eval()
    with torch.no_grad():
        exact_logits = exact(data.x.double(), propagation.double())
    for result, overall, by_hop in (
        (logits, outcome.accuracy, outcome.by_hop),
        (exact_logits, outcome.exact, outcome.exact_by_hop),
    ):
        right = (result.argmax(1) == data.y)[data.test_mask].double()
        overall.append(float(right.mean()))
        by_hop.append(_mean_by(data.hop[data.test_mask], right))


def _predict(outcome: Outcome, model: MGNNI, x: Tensor, propagation: Propagation) -> Tensor:
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(x, propagation)
    outcome.certificates.record(model.solve_log)
    return logits


def _mean_by(hop: Tensor, value: Tensor) -> list[float]:
    """Mean of the values at each hop; every test chain has nodes at all of them."""
    count = torch.bincount(hop)
    means: list[float] = (torch.bincount(hop, weights=value) / count).tolist()
    return means
