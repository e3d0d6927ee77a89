"""Runs trained together are the runs trained alone; and both are a plain training loop."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.nn import functional

import mgnni.train.ensemble as ensemble_module
import mgnni.train.experiment as experiment_module
from mgnni.layers.regularization import Dropout
from mgnni.train.config import changed
from mgnni.train.device import one_thread
from mgnni.train.ensemble import Ensemble, build_model
from mgnni.train.learner import prepared
from mgnni.train.node_learner import NodeLearner, node_order
from mgnni.train.presets import preset_for
from mgnni.train.runs import INITIAL, Run, dropout_keys, dropout_offset
from train.cases import (
    EXACT,
    assert_same_bits,
    by_run,
    config,
    ending,
    losses,
    node_task,
    runs,
    trained,
    training,
)

FOUR = runs(2, 2)


def masks(ensemble: Ensemble, shape=(6, 7)) -> torch.Tensor:
    return ensemble(torch.ones(shape))


def dropouts() -> nn.Module:
    return nn.Sequential(Dropout(0.4), nn.Linear(7, 7, bias=False), Dropout(0.3))


def identity(module: nn.Module) -> nn.Module:
    nn.init.eye_(module[1].weight)
    return module


def test_initial_weights_are_those_of_a_run_alone():
    chosen, task = config(batch_norm=True), node_task()

    def build() -> nn.Module:
        return build_model(chosen, task.num_features, 3, "node")

    stacked = Ensemble(build, FOUR).snapshot()
    for place, run in enumerate(FOUR):
        alone = Ensemble(build, [run]).snapshot()
        torch.random.default_generator.manual_seed(run.seed_for(INITIAL))
        drawn = build().state_dict()
        for name, value in stacked.items():
            assert torch.equal(value[place], alone[name][0])
            assert torch.equal(value[place], drawn[name])


def test_masks_are_those_of_a_run_alone_at_every_step_and_after_others_left():
    ensemble = Ensemble(lambda: identity(dropouts()), FOUR)
    alone = [Ensemble(lambda: identity(dropouts()), [run]) for run in FOUR]
    seen = []
    for step in range(4):
        every = masks(ensemble)
        for place, one in enumerate(alone):
            assert torch.equal(every[place], masks(one)[0])
            one.step += 1
        ensemble.step += 1
        seen += list(every > 0)
        if step == 1:
            ensemble.keep([1, 3])
            alone = [alone[1], alone[3]]
            assert ensemble.runs == [FOUR[1], FOUR[3]]
    distinct = {tuple(mask.flatten().tolist()) for mask in seen}
    assert len(distinct) == len(seen) == 12  # another mask for every run and step


def test_evaluation_has_no_masks():
    ensemble = Ensemble(lambda: identity(dropouts()), FOUR).eval()
    assert torch.equal(masks(ensemble), torch.ones(4, 6, 7))
    assert float((masks(ensemble.train()) == 0).double().mean()) > 0.3


def test_a_snapshot_is_a_copy_and_can_be_restored():
    ensemble = Ensemble(lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), FOUR)
    before = ensemble.snapshot()
    kept = copy.deepcopy(before)
    ensemble(torch.randn(5, 3))  # moves the running statistics
    with torch.no_grad():
        ensemble.stacks[0].add_(1)
    assert_same_bits(before, kept)
    assert not torch.equal(ensemble.snapshot()["1.running_mean"], before["1.running_mean"])
    ensemble.restore(before)
    assert_same_bits(ensemble.snapshot(), kept)


class Tied(nn.Module):
    """A module that uses one matrix twice and counts in a buffer; it refuses negative inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if float(x.min()) < 0:
            raise ValueError("negative")
        return self.last(self.first(x).tanh())


@pytest.mark.parametrize("count", [1, 3])
def test_shared_parameters_and_buffers_are_those_of_the_run(count):
    ensemble = Ensemble(Tied, FOUR[:count])
    own = dict(ensemble.model.named_parameters()) | dict(ensemble.model.named_buffers())
    x = torch.rand(4, 5)
    for _ in range(2):
        logits = ensemble(x)
    logits.sum().backward()
    weight = ensemble.stacks[0].detach().requires_grad_()
    expected = ((x @ weight.mT).tanh() @ weight.mT).sum()
    assert torch.allclose(logits.sum(), expected, rtol=1e-5)
    (gradient,) = torch.autograd.grad(expected, weight)
    assert torch.allclose(ensemble.stacks[0].grad, gradient, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="negative"):
        ensemble(-x)
    assert ensemble.snapshot()["calls"].tolist() == [3.0] * count
    now = dict(ensemble.model.named_parameters()) | dict(ensemble.model.named_buffers())
    assert all(now[name] is tensor for name, tensor in own.items()), "also after an error"
    assert not own["calls"].any()


def test_the_generator_of_the_process_is_left_alone():
    before = torch.random.get_rng_state()
    ensemble = Ensemble(lambda: identity(dropouts()), FOUR)
    masks(ensemble)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batch_norm_takes_half_precision_and_computes_in_single():
    ensemble = Ensemble(lambda: nn.Sequential(nn.BatchNorm1d(3)), FOUR)
    x = torch.randn(5, 3).bfloat16()
    wanted = nn.BatchNorm1d(3)(x.float())
    for one in ensemble(x):
        torch.testing.assert_close(one, wanted)


@pytest.mark.parametrize("options", [{"batch_norm": True}, {"head": "residual"}], ids=str)
def test_a_single_run_is_not_mapped_over_and_is_the_same(options, monkeypatch):
    chosen, task = config(**EXACT, dropout=0.4, **options), node_task()
    graph, run = task.graphs[0], Run(1, 3)

    def build() -> nn.Module:
        return build_model(chosen, task.num_features, 3, "node")

    alone, twice = (Ensemble(build, which).double() for which in ([run], [run, run]))
    mapped = []
    monkeypatch.setattr(ensemble_module, "vmap", lambda one: mapped.append(one) or vmap(one))
    for step in range(2):
        found = []
        for each in (alone, twice):
            each.zero_grad()
            logits = each(graph.x.double(), graph.edge_index)
            logits.square().sum().backward()
            found.append(logits)
            assert len(mapped) == (step if each is alone else step + 1)
            each.step_on_device()
            each.count_steps()
        assert found[0].shape[0] == 1
        for place in range(2):
            torch.testing.assert_close(found[1][place], found[0][0], rtol=1e-10, atol=1e-10)
            for a, b in zip(alone.stacks, twice.stacks, strict=True):
                torch.testing.assert_close(b.grad[place], a.grad[0], rtol=1e-10, atol=1e-10)
            for name, value in alone.snapshot().items():
                other = twice.snapshot()[name][place]
                torch.testing.assert_close(other, value[0], rtol=1e-10, atol=1e-10)
    if "batch_norm" in options:  # its statistics went on
        fresh = Ensemble(build, [run]).snapshot()
        moved = [n for n, v in alone.snapshot().items() if not torch.equal(v, fresh[n].to(v.dtype))]
        assert any("running_mean" in name for name in moved)
        assert any("num_batches_tracked" in name for name in moved)


def test_steps_on_the_device_are_those_of_the_host():
    here, there = (Ensemble(lambda: identity(dropouts()), FOUR) for _ in range(2))
    for _ in range(5):
        here.step += 1
        there.step_on_device()
        there.count_steps()
        assert torch.equal(here.offset, there.offset)
        assert here.step == there.step
    assert torch.equal(masks(here), masks(there))
    there.step = 2
    assert int(there.offset) == dropout_offset(2)


CASES = {
    "plain": {},
    "batch norm": {"batch_norm": True},
    "clip": {"clip": 0.05},
    "directed": {"directed": True},
    "sparse features": {"features": "sparse"},
    "cosine": {"schedule": "cosine"},
    "residual head": {"head": "residual", "head_layers": 1, "head_channels": 5},
    "identity": {"input_map": "identity", "hidden_channels": None},
    "several labels": {"multilabel": True},
    "macro F1": {"metric": "macro_f1"},
    "authors": {"batch_norm": True, "normalization": "out", "flow": "target_to_source"},
    "stopping early": {"patience": 2, "epochs": 40, "batch_norm": True, "lr": 0.1, "seeds": 2},
}
OF_TASK = ("directed", "features", "multilabel", "metric")


@pytest.mark.parametrize("name", CASES)
def test_together_is_alone(name, device):
    options = dict(CASES[name])
    task = node_task(3, **{key: options.pop(key) for key in OF_TASK if key in options})
    which = runs(3, options.pop("seeds", 1))
    chosen = config(**EXACT, **options)
    one, other = (
        trained(task, chosen, which, together=together, device=device.type)
        for together in (True, False)
    )
    assert len(one.groups) == (2 if len(which) == 6 and device.type == "cpu" else 1)
    assert len(other.groups) == len(which)
    for run, numbers in losses(one).items():
        torch.testing.assert_close(
            torch.tensor(numbers), torch.tensor(losses(other)[run]), rtol=1e-8, atol=1e-10
        )
    for run, a in by_run(one).items():
        b = by_run(other)[run]
        assert ending(a) == ending(b)
        for key, value in a.weights.items():
            torch.testing.assert_close(value, b.weights[key], rtol=1e-7, atol=1e-9, msg=key)
    if name == "stopping early":  # or nothing was left out of the group
        assert len({one.epochs for one in one.finished}) >= 3


def test_sparse_features_are_used_where_they_are_sparse():
    for features, layout in (("sparse", torch.sparse_csr), ("dense", torch.strided)):
        made = training(node_task(features=features), config(), runs())
        made._begin(runs())
        assert isinstance(made.learner, NodeLearner)
        assert made.learner.inputs[0].layout is layout


def test_single_precision_agrees_over_thirty_epochs(device):
    task, which = node_task(3), runs(3)
    chosen = config(epochs=30, batch_norm=True)
    one, other = (
        trained(task, chosen, which, together=together, device=device.type)
        for together in (True, False)
    )
    for run, a in by_run(one).items():
        b = by_run(other)[run]
        assert a.test["accuracy"] == b.test["accuracy"]
        assert a.selected_epoch == b.selected_epoch


@pytest.mark.parametrize("dataset", ["texas", "chameleon"])
def test_with_a_preset_in_single_precision_runs_begin_alike(dataset):
    # Rounding differs from one processor to another, and training magnifies it: what must agree
    # is the beginning. That runs also end alike is asked for in double precision.
    task = node_task(5, directed=dataset == "chameleon", features="sparse")
    chosen = changed(preset_for(dataset), {"epochs": 12, "lr": 0.01})
    with one_thread():
        one, other = (trained(task, chosen, runs(5), together=way) for way in (True, False))
    for run, numbers in losses(one).items():
        torch.testing.assert_close(
            torch.tensor(numbers), torch.tensor(losses(other)[run]), rtol=2e-3, atol=1e-4
        )


def test_groups_that_fit_the_memory_give_the_same(monkeypatch):
    task, which, chosen = node_task(5), runs(5), config(**EXACT, patience=2, epochs=20, lr=0.1)
    whole = trained(task, chosen, which)
    a_run = 6 * 2 * task.num_rows  # channels, scales, nodes
    monkeypatch.setattr(experiment_module, "MAX_GROUP", 2 * a_run + 1)
    parts = trained(task, chosen, which)
    assert [len(group) for group in parts.groups] == [2, 2, 1]
    monkeypatch.setattr(experiment_module, "MAX_GROUP", 1)  # a run at least
    assert [len(group) for group in training(task, chosen, which).groups] == [1] * 5
    for run, a in by_run(whole).items():
        b = by_run(parts)[run]
        assert ending(a) == ending(b)
    steps = sum(one.epochs for one in whole.finished)
    for made in (whole, parts):
        assert made.certificates.backward.solves == 2 * steps  # one a scale


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_norm": True, "clip": 0.05},
        {"stopping": "loss", "schedule": "cosine"},
        {"directed": True, "features": "sparse", "undirected": True},
    ],
    ids=str,
)
def test_a_plain_loop_finds_the_same(options):
    options = dict(options)
    task = node_task(2, **{key: options.pop(key) for key in OF_TASK if key in options})
    chosen = config(**EXACT, epochs=12, lr=0.05, **options)
    which = runs(2, 2)
    ours = by_run(trained(task, chosen, which))
    for run in which:
        wanted = plain_loop(task, chosen, run)
        found = ours[run]
        assert found.selected_epoch == wanted["epoch"]
        assert found.val["accuracy"] == pytest.approx(wanted["val"], abs=1e-12)
        assert found.test["accuracy"] == pytest.approx(wanted["test"], abs=1e-12)
        for key, value in found.weights.items():
            torch.testing.assert_close(value, wanted["weights"][key], rtol=1e-7, atol=1e-9)


def plain_loop(task, chosen, run: Run) -> dict:
    """Train one model as anybody would, with the masks of this run."""
    torch.manual_seed(run.seed_for(INITIAL))
    model = build_model(chosen, task.num_features, len(task.classes), "node").double()
    layers = [part for part in model.modules() if isinstance(part, Dropout)]
    keys = dropout_keys([run], len(layers), torch.device("cpu"))
    optimizer = torch.optim.Adam(
        model.parameters(), lr=chosen.lr, weight_decay=chosen.weight_decay, fused=False
    )
    graph = prepared(task.graphs[0], chosen)
    order = node_order(graph.x, graph.edge_index, None)  # masks go by places
    at = torch.argsort(order)
    x, edge_index, y = graph.x.double()[order], at[graph.edge_index], task._labels[order]
    train, val, test = (at[task.rows(run.split, part)] for part in ("train", "val", "test"))
    best = None
    for epoch in range(1, chosen.epochs + 1):
        model.train()
        for place, layer in enumerate(layers):
            layer.keyed, layer.key = True, (keys + dropout_offset(epoch - 1))[0, place]
        if chosen.schedule == "cosine":  # PyTorch's own, in closed form
            part = (1 + math.cos(math.pi * (epoch - 1) / chosen.epochs)) / 2
            optimizer.param_groups[0]["lr"] = chosen.lr * part
        optimizer.zero_grad()
        functional.cross_entropy(model(x, edge_index)[train], y[train]).backward()
        if chosen.clip is not None:
            norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
            assert norm > chosen.clip  # or the test would not see it
            for p in model.parameters():
                p.grad *= chosen.clip / norm
        optimizer.step()
        model.eval()
        with torch.no_grad():
            logits = model(x, edge_index)
        loss = functional.cross_entropy(logits[val], y[val]).item()
        right = (logits.argmax(1) == y).double()
        key = (-loss,) if chosen.stopping == "loss" else (right[val].mean().item(), -loss)
        if best is None or key > best["key"]:
            best = {
                "key": key,
                "epoch": epoch,
                "val": right[val].mean().item(),
                "test": right[test].mean().item(),
                "weights": copy.deepcopy(model.state_dict()),
            }
    return best
