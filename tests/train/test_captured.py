"""Recorded training against the plain one, and what happens when it cannot be used.

On the CPU there is nothing to record with: a replay there runs the same work once more, with the
kernels replaced by plain torch.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from kernels.reference import no_kernels, use_kernels
from mgnni.implicit.linear import deferred
from mgnni.solve import device_rows, device_sweep
from mgnni.train import captured, graph_learner
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.learner import Learner
from mgnni.train.node_learner import NodeLearner
from train.cases import assert_same_bits, config, graph_task, node_task, runs, training


class Again:
    """A recording that is the work itself."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work

    def replay(self) -> None:
        with deferred():
            self.work()


def run_again(learner: Learner, work: Callable[[], None], pool: Any = None) -> Again:
    before = learner.step_state(clone=True)
    try:
        with deferred():
            work()
    finally:
        learner.restore_step_state(before)
    return Again(work)


@pytest.fixture(autouse=True)
def kernels(device, monkeypatch):
    use_kernels(device, monkeypatch)
    if device.type == "cpu":
        monkeypatch.setattr(captured, "capture", run_again)


def begun(task, chosen, which, device) -> Any:
    made = training(task, chosen, which, device=device.type)
    made._begin(which)
    return made.learner


def epochs(learner: NodeLearner, first: int, last: int) -> list[list[tuple[float, ...]]]:
    """Loss, validation loss and accuracy of every run in every epoch."""
    found = []
    for epoch in range(first, last + 1):
        losses = learner.train_epoch(epoch)
        found.append([(a, *b) for a, b in zip(losses, learner.validate(), strict=True)])
    return found


def assert_close(ours: list, theirs: list) -> None:
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-5)


@pytest.fixture
def pair(device, monkeypatch):
    """Make two learners of the same: one that records, and one solved by the plain way."""

    def make(which, directed=False, **options) -> tuple[NodeLearner, Callable[..., Any]]:
        task, chosen = node_task(3, directed=directed), config(**options)
        ours, theirs = (begun(task, chosen, which, device) for _ in range(2))
        ours.capturable, theirs.capturable = True, False

        def plainly(call: Callable[..., Any], *args: Any) -> Any:
            with monkeypatch.context() as other:
                no_kernels(other)
                return call(theirs, *args)

        return ours, plainly

    return make


OPTIONS = [
    {},
    {"batch_norm": True, "dropout": 0.5},
    {"directed": True},
    {"schedule": "cosine", "clip": 0.05},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_a_recorded_epoch_is_the_plain_one(count, options, pair):
    ours, plainly = pair(runs(count), **options)
    assert_close(epochs(ours, 1, 10), plainly(epochs, 1, 10))
    assert ours._captured is not None
    wanted = plainly(lambda learner: learner)
    assert ours.ensemble.step == wanted.ensemble.step == 10
    assert torch.equal(ours.ensemble.offset, wanted.ensemble.offset)
    for a, b in (
        (ours.certificates.forward, wanted.certificates.forward),
        (ours.certificates.backward, wanted.certificates.backward),
    ):
        assert (a.solves, a.failures) == (b.solves, b.failures)
        assert a.solvers == {"series" if options.get("directed") else "chebyshev"}
        assert 0 < a.relative_residual <= 1e-6
        assert 0 < a.error_bound
    assert_close(
        [one.tolist() for one in ours.scores("test")],
        plainly(lambda x: [one.tolist() for one in x.scores("test")]),
    )


def too_few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have solves miss their tolerance, as their certificates then tell."""
    for module in (device_rows, device_sweep):
        monkeypatch.setattr(module, "SHARE", 1e4)


def test_an_epoch_that_is_not_exact_enough_is_done_again(pair, monkeypatch):
    ours, plainly = pair(runs(2))
    too_few_terms(monkeypatch)
    undone = []
    run = captured.CapturedEpoch.run

    def watched(epoch: captured.CapturedEpoch) -> Any:
        before = ours.step_state(clone=True)
        found = run(epoch)
        undone.append(found is None)
        assert all(map(torch.equal, before, ours.step_state()))
        return found

    monkeypatch.setattr(captured.CapturedEpoch, "run", watched)
    assert_close(epochs(ours, 1, 4), plainly(epochs, 1, 4))
    assert undone == [True] * 4
    assert ours.ensemble.step == 4
    wanted = plainly(lambda learner: learner.certificates)
    assert ours.certificates.forward.solves == wanted.forward.solves
    assert ours.certificates.backward.solves == wanted.backward.solves
    assert ours.certificates.forward.failures == ours.certificates.backward.failures == 0
    assert ours.certificates.forward.relative_residual <= 1e-6


def test_runs_that_leave_are_left_out_of_the_recording(pair):
    ours, plainly = pair(runs(3))
    assert_close(epochs(ours, 1, 3), plainly(epochs, 1, 3))
    first = ours._captured
    ours.keep([0, 2])
    plainly(lambda learner: learner.keep([0, 2]))
    assert ours._captured is None
    found = epochs(ours, 4, 6)
    assert_close(found, plainly(epochs, 4, 6))
    assert len(found[0]) == 2
    assert ours._captured is not first
    ours.keep([1])
    plainly(lambda learner: learner.keep([1]))
    assert_close(epochs(ours, 7, 8), plainly(epochs, 7, 8))


def test_what_cannot_be_recorded_is_trained_as_if_nobody_had_tried(pair, monkeypatch):
    ours, _ = pair(runs(2), batch_norm=True, dropout=0.5)
    theirs, _ = pair(runs(2), batch_norm=True, dropout=0.5)
    theirs.capturable = False
    no_kernels(monkeypatch)
    assert_close(epochs(ours, 1, 3), epochs(theirs, 1, 3))
    assert not ours.capturable
    assert ours._captured is None
    assert torch.equal(ours.ensemble.offset, theirs.ensemble.offset)


def test_a_recording_leaves_the_learner_as_it_was(device):
    learner = begun(node_task(3), config(batch_norm=True), runs(2), device)
    learner.train_epoch(1)
    learner._captured = None
    before = learner.step_state(clone=True)
    captured.CapturedEpoch(learner)
    assert all(map(torch.equal, before, learner.step_state()))


def cuda_only(device) -> None:
    if device.type != "cuda":
        pytest.skip("streams are those of a GPU; set MGNNI_TEST_DEVICE=cuda")


def test_refused_work_is_undone(device):
    cuda_only(device)
    learner = begun(node_task(3), config(), runs(2), device)
    before = learner.step_state(clone=True)

    def work() -> None:
        learner.step(learner.inputs, *learner.parts["train"])
        raise captured.NotCapturable("for a test")

    with pytest.raises(captured.NotCapturable):
        captured.capture(learner, work)
    now = learner.step_state()
    assert all(map(torch.equal, before, now))
    assert not any(bool(one.any()) for one in now[len(before) :])  # moments


def steps_undone(learner: Learner, step: Callable[[], Any]) -> None:
    before, host = learner.step_state(clone=True), learner.ensemble.snapshot()
    first = step()
    after = learner.step_state(clone=True)
    assert not all(map(torch.equal, before, after))
    learner.restore_step_state(before)
    assert_same_bits(learner.ensemble.snapshot(), host)
    now = learner.step_state()
    assert all(map(torch.equal, before, now))
    for one in now[len(before) :]:  # moments that were not there
        assert not one.any()
    # An accelerator looks for eigenvectors from where it found the last ones.
    close = 0.0 if first.device.type == "cpu" else 1e-4
    torch.testing.assert_close(step(), first, rtol=close, atol=close)
    for one, other in zip(learner.step_state(), after, strict=True):
        torch.testing.assert_close(one, other, rtol=close, atol=close)


@pytest.mark.parametrize("count", [1, 2])
def test_a_step_can_be_undone_and_done_again_bit_for_bit(count, device):
    chosen = config(batch_norm=True, dropout=0.5, lr=0.1)
    learner = begun(node_task(3), chosen, runs(count), device)
    names = learner.ensemble.buffer_names
    assert any("running_mean" in name for name in names)
    for _ in range(2):  # without moments, and with them

        def step() -> torch.Tensor:
            return learner.step(learner.inputs, *learner.parts["train"])

        steps_undone(learner, step)


GRAPHS = {"head": "graph", "head_layers": 1, "batch_size": 4, "dropout": 0.5}


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_on_batches_that_is_not_exact_enough_is_done_again(device, shuffle, monkeypatch):
    learner, wanted = (
        begun(graph_task(), config(**GRAPHS, shuffle=shuffle), runs(1), device) for _ in range(2)
    )
    assert isinstance(learner, GraphLearner)
    with monkeypatch.context() as other:
        no_kernels(other)
        theirs = [wanted.train_epoch(epoch) for epoch in (1, 2, 3)]
    too_few_terms(monkeypatch)
    tried = []
    steps = GraphLearner._steps

    def watched(learner: GraphLearner, epoch: int, context: Any) -> Any:
        found = steps(learner, epoch, context)
        tried.append((isinstance(context, nullcontext), found[1]))
        return found

    monkeypatch.setattr(GraphLearner, "_steps", watched)
    ours = [as_on_an_accelerator(learner, epoch) for epoch in (1, 2, 3)]
    assert tried == [(False, False), (True, True)] * 3
    assert_close(ours, theirs)
    assert learner.ensemble.step == wanted.ensemble.step
    assert torch.equal(learner.ensemble.offset, wanted.ensemble.offset)
    for a, b in (
        (learner.certificates.forward, wanted.certificates.forward),
        (learner.certificates.backward, wanted.certificates.backward),
    ):
        assert (a.solves, a.failures) == (b.solves, 0)
        assert a.relative_residual <= 1e-6


def as_on_an_accelerator(learner: GraphLearner, epoch: int) -> list[float]:
    """Train for an epoch as on an accelerator, which a CPU has to be told."""
    if learner.fabric.device.type == "cuda":
        return learner.train_epoch(epoch)
    learner.set_lr(epoch)
    before = learner.step_state(clone=True)
    losses, exact = learner._steps(epoch, deferred())
    if not exact:
        learner.restore_step_state(before)
        losses, _ = learner._steps(epoch, nullcontext())
    learner.ensemble.count_steps(len(losses))
    return torch.stack(losses).mean(0).tolist()


@pytest.mark.parametrize("shuffle", [True, False])
def test_recorded_steps_are_the_plain_ones(device, shuffle, monkeypatch):
    # Batches of one graph come again in every epoch, and shuffled, in another order.
    task, chosen = graph_task(12), config(**{**GRAPHS, "batch_size": 1}, shuffle=shuffle)
    learner, wanted = (begun(task, chosen, runs(1), device) for _ in range(2))
    learner.capturable = True
    with monkeypatch.context() as other:
        no_kernels(other)
        theirs = [wanted.train_epoch(epoch) for epoch in range(1, 9)]
    ours = [as_on_an_accelerator(learner, epoch) for epoch in range(1, 9)]
    assert_close(ours, theirs)
    assert learner._captured
    for a, b in (
        (learner.certificates.forward, wanted.certificates.forward),
        (learner.certificates.backward, wanted.certificates.backward),
    ):
        assert (a.solves, a.failures) == (b.solves, 0)
    monkeypatch.setattr(graph_learner, "MAX_CAPTURED", 0)
    learner._captured.clear()
    assert_close([as_on_an_accelerator(learner, 9)], [plain_epoch(wanted, 9, monkeypatch)])
    assert not learner._captured


def plain_epoch(learner: GraphLearner, epoch: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    with monkeypatch.context() as other:
        no_kernels(other)
        return learner.train_epoch(epoch)
