"""A whole epoch on one graph as a CUDA graph: recorded once, replayed, read in one transfer.

An epoch of a small graph is a thousand tiny kernels, and launching them takes many times as long as
running them. The recorded epoch holds a training step and the validation pass after it. Its
certificates are read with the losses; if one misses its tolerance, the epoch is undone and done
again by the plain way, which corrects, or fails in words.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgnni.implicit.linear import SolveLog, deferred
from mgnni.solve.planned import Pending
from mgnni.train.certificates import Certificates

if TYPE_CHECKING:
    from mgnni.train.one_graph import NodeLearner

WARM_UP = 2  # epochs before a recording, in which kernels are compiled and memory is found


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from collecting garbage, as memory that is freed would end a recording."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Refused(Exception):
    """This epoch cannot be recorded."""


class CapturedEpoch:
    """The epoch of a learner, as it is now: with other runs it must be recorded anew."""

    def __init__(self, learner: NodeLearner) -> None:
        self.learner = learner
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        before = learner.moving(clone=True)
        with deferred():
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for _ in range(WARM_UP):
                    self.saved = [one.clone() for one in learner.moving()]
                    self._epoch()
                learner.put_back(before)
            torch.cuda.current_stream().wait_stream(self.stream)
            self.graph = torch.cuda.CUDAGraph()
            with _no_collection(), torch.cuda.graph(self.graph, stream=self.stream):
                self._epoch()
        learner.put_back(before)

    def _epoch(self) -> None:
        learner = self.learner
        pairs = list(zip(self.saved, learner.moving(), strict=True))
        for dtype in {one.dtype for one in self.saved}:  # one launch each
            alike = [pair for pair in pairs if pair[0].dtype is dtype]
            torch._foreach_copy_([one for one, _ in alike], [other for _, other in alike])
        self.loss = learner.step(learner.inputs, *learner.parts["train"])
        self.pending = _pending(learner.log, 2)
        self.logits = learner.predict(learner.inputs)
        self.pending += _pending(learner.log, 1)
        val = learner.validated(self.logits)
        parts = [self.loss.double(), val.double().flatten()]
        self.numbers = torch.cat([*parts, *(one.numbers.flatten() for one in self.pending)])

    def run(self) -> tuple[list[float], Tensor] | None:
        """Replay the epoch; return the losses and what was validated, or None if undone."""
        self.graph.replay()
        numbers = self.numbers.cpu()
        runs = self.loss.numel()
        sizes = [runs, 2 * runs, *(pending.numbers.numel() for pending in self.pending)]
        loss, val, *rest = torch.split(numbers, sizes)
        made = Certificates()
        parts = zip((made.forward, made.backward, made.forward), self.pending, rest, strict=True)
        if not all(c.add_pending(p, r.view_as(p.numbers).numpy()) for c, p, r in parts):
            self.learner.put_back(self.saved)
            return None
        self.learner.certificates.merge(made)
        return loss.tolist(), val.view(-1, 2)


def _pending(log: SolveLog, count: int) -> list[Pending]:
    """The records of a pass, which must all be pending."""
    if len(log.pending) != count:
        raise Refused("the equations are not solved without a look at them")
    return log.pending
