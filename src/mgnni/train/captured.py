"""Training as CUDA graphs: recorded once, replayed, and read in one transfer an epoch.

A step on small graphs is a thousand tiny kernels, and launching them takes many times as long as
running them. Certificates are read with the losses; if one misses its tolerance, the epoch is
undone and done again by the plain way, which corrects, or fails in words.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.implicit.linear import deferred
from mgnni.solve.result import Records, SolveLog
from mgnni.train.certificates import Certificates, add_all

if TYPE_CHECKING:
    from mgnni.train.learner import Batch, Learner
    from mgnni.train.one_graph import NodeLearner

WARM_UP = 2  # times before a recording, in which kernels are compiled and memory is found


class Refused(Exception):
    """This cannot be recorded."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python from collecting garbage, as memory that is freed would end a recording."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def recorded(learner: Learner, work: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Record some work of a learner, and leave the learner as it was.

    Args:
        learner: whose parameters the work changes.
        work: what is recorded; called a few times.
        pool: memory shared with recordings that are replayed at other times.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    before = learner.moving(clone=True)
    with deferred():
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    work()
        finally:  # also if it is refused, after a step
            torch.cuda.current_stream().wait_stream(stream)
            learner.put_back(before)
        graph = torch.cuda.CUDAGraph()
        try:
            with no_collection(), torch.cuda.graph(graph, stream=stream, pool=pool):
                work()
        except RuntimeError as error:  # a layer that looks at a number
            raise Refused("a step waits for the device") from error
        finally:
            learner.put_back(before)
    return graph


def _deferred_records(log: SolveLog) -> list[tuple[str, Records]]:
    """The records of a pass by direction; all of them must be deferred."""
    found = [("forward", one) for one in log.forward_records]
    found += [("backward", one) for one in log.backward_records]
    if not all(one.deferred for _, one in found):
        raise Refused("a solve synchronises with the device")
    return found


class CapturedStep:
    """A training step on one batch."""

    def __init__(self, learner: Learner, batch: Batch, pool: Any) -> None:
        self.batch = batch  # what is recorded reads it where it is
        self.graph = recorded(learner, lambda: self._step(learner), pool)

    def _step(self, learner: Learner) -> None:
        self.loss = learner.step(*self.batch)
        _deferred_records(learner.log)
        self.log = SolveLog(learner.log.forward_records, learner.log.backward_records)

    def run(self) -> tuple[Tensor, SolveLog]:
        """Replay the step; loss and records are filled in when the device has got there."""
        self.graph.replay()
        # Other recordings may use this memory, unless they are replayed as they were recorded.
        copies = [
            tuple(replace(one, numbers=one.numbers.clone()) for one in records)
            for records in (self.log.forward_records, self.log.backward_records)
        ]
        return self.loss.clone(), SolveLog(*copies)


class CapturedEpoch:
    """A training step on one graph, and the validation pass after it.

    It is that of a learner as it is now: with other runs it must be recorded anew.
    """

    def __init__(self, learner: NodeLearner) -> None:
        self.learner = learner
        self.saved: list[Tensor] = []
        self.graph = recorded(learner, self._epoch)

    def _epoch(self) -> None:
        learner = self.learner
        moving = learner.moving()
        if len(self.saved) < len(moving):  # the first step makes the moments of the optimizer
            self.saved = [one.clone() for one in moving]
        pairs = list(zip(self.saved, moving, strict=True))
        for dtype in {one.dtype for one in self.saved}:  # one launch each
            alike = [pair for pair in pairs if pair[0].dtype is dtype]
            torch._foreach_copy_([one for one, _ in alike], [other for _, other in alike])
        self.loss = learner.step(learner.inputs, *learner.parts["train"])
        self.pending = _deferred_records(learner.log)
        self.logits = learner.predict(learner.inputs)
        self.pending += _deferred_records(learner.log)
        val = learner.validated(self.logits)
        parts = [self.loss.double(), val.double().flatten()]
        self.numbers = torch.cat([*parts, *(one.numbers.flatten() for _, one in self.pending)])

    def run(self) -> tuple[list[float], Tensor] | None:
        """Replay the epoch; return the losses and what was validated, or None if undone."""
        self.graph.replay()
        numbers = self.numbers.cpu()
        runs = self.loss.numel()
        loss, val, rest = torch.split(numbers, [runs, 2 * runs, len(numbers) - 3 * runs])
        made = Certificates()
        waiting = [(getattr(made, name), one) for name, one in self.pending]
        if not add_all(waiting, rest):
            self.learner.put_back(self.saved)
            return None
        self.learner.certificates.merge(made)
        return loss.tolist(), val.view(-1, 2)
