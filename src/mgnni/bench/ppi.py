"""Many graphs and a deep head, as on PPI: an epoch, and the solves of one of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from mgnni.bench.compete import Entrant, settle
from mgnni.bench.epoch import LARGEST, Field
from mgnni.bench.equation import Equation
from mgnni.bench.problems import ppi_problem, trained_factor
from mgnni.bench.row import CLAIM, Errors, Row
from mgnni.bench.settings import Settings
from mgnni.bench.study import Study
from mgnni.graph.propagation import Propagation
from mgnni.train.config import Config, changed
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.presets import preset_for
from mgnni.train.runs import Run

# Products of the head are rounded to ten bits; the equations are solved as exactly as ever.
TF32 = Errors(1e-2, 1e-1)


def rows(settings: Settings) -> Iterator[Row]:
    """Time an epoch in batches of two graphs, then the equations of one batch alone.

    An epoch is all but the head's, which takes minutes on a CPU: there it is left out.
    """
    task = ppi_problem(settings.quick)
    # The same batches in every epoch, which the rivals have as well.
    options = {"shuffle": False, **({"head_channels": 32} if settings.quick else {})}
    config = changed(preset_for("ppi"), options)
    generator = torch.Generator().manual_seed(0)
    factor = trained_factor(len(config.model.scales), task.num_features, LARGEST, generator)
    study = Study(task, config, factor, settings.device)
    if settings.quick or settings.device.type == "cuda":
        case = f"{task.name}, epoch, head {config.model.head_channels}"
        yield from settle(case, _epochs(Field(study, settings), config), settings)
    yield from settle(f"{task.name}, solves of a step", _solves(study, settings), settings)


def _epochs(field: Field, config: Config) -> Iterator[Entrant]:
    yield field.textbook()
    yield field.authors()
    yield field.ours()
    yield field.ours_in_a_loop()
    if field.settings.device.type == "cuda":
        curves = [_losses(field.study, config, field.settings)]
        with _tf32():
            found = field.ours("mgnni, tf32", TF32)
            curves.append(_losses(field.study, config, field.settings))
        apart = max(abs(a - b) for a, b in zip(*curves, strict=True))
        note = f"losses of {len(curves[0])} epochs within {apart:.1e} of those in float32"
        yield replace(_in_tf32(found), note=note)


def _losses(study: Study, config: Config, settings: Settings) -> list[float]:
    """The loss of each epoch of a training, with its own rate."""
    learner = GraphLearner(study.task, config, [Run(0, 0)], study.fabric)
    return [learner.train_epoch(epoch)[0] for epoch in range(1, 4 if settings.quick else 21)]


def _solves(study: Study, settings: Settings) -> Iterator[Entrant]:
    """The features are the bias, so that it needs no gradient."""
    (x, edge_index, _, batch), *_ = study.train[0]
    propagation = Propagation.from_edge_index(edge_index, len(x), batch=batch)
    drawn = Equation.random(propagation, x.size(1), LARGEST)
    equation = replace(drawn, bias=x, bias_grad=False)
    textbook, target = equation.textbook(CLAIM)
    yield textbook
    yield equation.authors()
    if settings.device.type == "cpu" or settings.quick:
        yield from equation.torchdeq(settings, CLAIM)
    yield equation.by_us(target)


class _tf32:
    """Allow products in tf32."""

    def __enter__(self) -> None:
        self.before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self.before)


def _in_tf32(entrant: Entrant) -> Entrant:
    run: Callable[[], object] | None = entrant.run

    def within() -> None:
        with _tf32():
            if run is not None:
                run()

    # Less exact by design: it is held to its own claim, and compared with nobody.
    return replace(entrant, run=within, ours=False)
