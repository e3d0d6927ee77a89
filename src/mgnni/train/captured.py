"""Training as CUDA graphs: captured once, replayed, and read with one transfer per epoch.

A step on small graphs launches a thousand tiny kernels, which takes much longer than running them.
Certificates are read together with the losses. If one misses its tolerance, the epoch is undone and
repeated without capture, where solves are corrected or fail with an error.
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
    from mgnni.train.node_learner import NodeLearner

WARM_UP = 2  # passes before a capture, which compile kernels and allocate memory


class NotCapturable(Exception):
    """The work synchronises with the device, so it cannot be captured."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection: freeing device memory would end a capture."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def capture(learner: Learner, work: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Capture work of a learner as a CUDA graph, and leave the learner unchanged.

    Args:
        learner (Learner): The learner whose weights the work changes.
        work (Callable[[], None]): The work to capture; called a few times.
        pool (Any, optional): Memory pool shared with other graphs, which must not be replayed at
            the same time. (default: :obj:`None`)
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    before = learner.step_state(clone=True)
    with deferred():
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    work()
        finally:  # also if a step turned out not to be capturable
            torch.cuda.current_stream().wait_stream(stream)
            learner.restore_step_state(before)
        graph = torch.cuda.CUDAGraph()
        try:
            with no_collection(), torch.cuda.graph(graph, stream=stream, pool=pool):
                work()
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:  # a layer that synchronises
            raise NotCapturable("a step waits for the device") from error
        finally:
            learner.restore_step_state(before)
    return graph


def _deferred_records(log: SolveLog) -> list[tuple[str, Records]]:
    """Return the records of a pass by direction; all must still be on the device."""
    found = [("forward", one) for one in log.forward_records]
    found += [("backward", one) for one in log.backward_records]
    if not all(one.deferred for _, one in found):
        raise NotCapturable("a solve synchronises with the device")
    return found


class CapturedStep:
    """A captured training step on one batch."""

    def __init__(self, learner: Learner, batch: Batch, pool: Any) -> None:
        self.batch = batch  # kept alive, as the graph reads its memory
        self.graph = capture(learner, lambda: self._step(learner), pool)

    def _step(self, learner: Learner) -> None:
        self.loss = learner.step(*self.batch)
        _deferred_records(learner.log)
        self.log = SolveLog(learner.log.forward_records, learner.log.backward_records)

    def run(self) -> tuple[Tensor, SolveLog]:
        """Replay the step; loss and statistics are available once the device has finished it."""
        self.graph.replay()
        # Other graphs of the pool may overwrite this memory.
        copies = [
            tuple(replace(one, numbers=one.numbers.clone()) for one in records)
            for records in (self.log.forward_records, self.log.backward_records)
        ]
        return self.loss.clone(), SolveLog(*copies)


class CapturedEpoch:
    """A captured training step on one graph, and the validation pass after it.

    It belongs to the current runs of the learner; with other runs it must be captured again.
    """

    def __init__(self, learner: NodeLearner) -> None:
        self.learner = learner
        self.saved: list[Tensor] = []
        self.graph = capture(learner, self._epoch)

    def _epoch(self) -> None:
        learner = self.learner
        state = learner.step_state()
        if len(self.saved) < len(state):  # the first step creates the moments of the optimizer
            self.saved = [one.clone() for one in state]
        pairs = list(zip(self.saved, state, strict=True))
        for dtype in {one.dtype for one in self.saved}:  # one launch per dtype
            alike = [pair for pair in pairs if pair[0].dtype is dtype]
            torch._foreach_copy_([one for one, _ in alike], [other for _, other in alike])
        self.loss = learner.step(learner.inputs, *learner.parts["train"])
        self.pending = _deferred_records(learner.log)
        self.logits = learner.predict(learner.inputs)
        self.pending += _deferred_records(learner.log)
        val = learner.loss_and_accuracy(self.logits)
        parts = [self.loss.double(), val.double().flatten()]
        self.numbers = torch.cat([*parts, *(one.numbers.flatten() for _, one in self.pending)])

    def run(self) -> tuple[list[float], Tensor] | None:
        """Replay the epoch; return training losses and validation results, or None if undone."""
        self.graph.replay()
        numbers = self.numbers.cpu()
        runs = self.loss.numel()
        loss, val, rest = torch.split(numbers, [runs, 2 * runs, len(numbers) - 3 * runs])
        made = Certificates()
        waiting = [(getattr(made, name), one) for name, one in self.pending]
        if not add_all(waiting, rest):
            self.learner.restore_step_state(self.saved)
            return None
        self.learner.certificates.merge(made)
        return loss.tolist(), val.view(-1, 2)
