"""What an epoch computed is read off rightly, whoever computed it."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import remove_self_loops

from mgnni.bench.epoch import TrainingMethods
from mgnni.bench.measure import distance, errors
from mgnni.bench.problems import node_problem, ppi_problem, small_problem, trained_factor
from mgnni.bench.results import CLAIM, MISSED, Errors, Settings
from mgnni.bench.rivals import appnp, gcn, gin, solved_by
from mgnni.bench.training import TrainingCase, outcome
from mgnni.solve.textbook import equilibria
from mgnni.train.config import changed
from mgnni.train.loss import row_losses
from mgnni.train.presets import preset_for

CASES = {
    "one graph": (node_problem, "squirrel", {"hidden_channels": 8}),
    "many graphs": (ppi_problem, "ppi", {"head_channels": 16}),
    "small graphs": (small_problem, "mutag", {}),
}


def training_case(case: str, device) -> TrainingCase:
    make, name, changes = CASES[case]
    task = make(name, True) if make is node_problem else make(True)
    config = changed(preset_for(name), changes)
    width = config.model.hidden_channels or task.num_features
    factor = trained_factor(2, width, 0.93, torch.Generator().manual_seed(0))
    return TrainingCase(task, config, factor, device)


@pytest.mark.parametrize("case", CASES)
def test_the_gradients_are_those_of_the_loss(device, case):
    check = training_case(case, device).checked()
    (_, *gradients) = outcome(check.exact())
    model = check.model().double().train()
    model.equilibrium.options = model.equilibrium.options.__class__("auto", 1e-12)
    ((x, *rest), labels, weight), *others = check.train
    assert not others, "one batch, so that there is one gradient"
    loss = (row_losses(model(x.double(), *rest), labels) * weight.double()).sum()
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    for found, want in zip(gradients, wanted, strict=True):
        assert distance(found, want, floor=1e-6) < 1e-6


@pytest.mark.parametrize("case", CASES)
def test_learner_and_loop_compute_the_same(device, case):
    check = training_case(case, device).checked()
    exact = outcome(check.exact())
    assert errors(outcome(check.learned()), exact).within(CLAIM)
    assert errors(outcome(check.plain(check.model())), exact).within(CLAIM)


def test_the_weights_stay_in_the_check_and_move_a_little_in_the_race(device):
    whole = training_case("one graph", device)
    for one, moved in ((whole.checked(), False), (whole, True)):
        trainer = one.plain(one.model())
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.train(1)
        same = [torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)]
        assert not any(same) if moved else all(same)


def test_a_solver_that_is_off_is_found_out(device):
    methods = TrainingMethods(training_case("one graph", device), Settings(device, quick=True))

    def off(*arguments):
        return (1 + 1e-4) * equilibria(*arguments)

    def off_backwards(*arguments):
        z = equilibria(*arguments)
        return z.detach() + (1 + 1e-3) * (z - z.detach())

    for solve in (off, off_backwards):
        found = methods.errors(lambda one, by=solve: one.plain(solved_by(one.model(), by)))
        assert not found.within(CLAIM)
        assert methods._reached("off", lambda tol, by=solve: by).verdict == MISSED
    assert found.within(Errors(1e-5, 1e-2)), "only its gradients are off"


@pytest.mark.parametrize("make", [gcn, appnp])
def test_a_matrix_is_as_good_as_an_edge_list(device, make):
    one = training_case("one graph", device)
    network = make(one.model()).to(device).eval()
    ((x, edge_index, _), _, _) = one.train[0]
    inputs = (x, remove_self_loops(edge_index)[0])  # of which the two make something else
    by_matrix = network(*inputs)
    network.fixed = False
    for part in network.modules():
        if hasattr(part, "_cached_edge_index"):
            part._cached_edge_index = part._cached_adj_t = None
    assert distance(by_matrix, network(*inputs)) < 1e-5


def test_gin_has_one_row_a_graph(device):
    one = training_case("small graphs", device)
    (inputs, labels, _) = one.train[0]
    assert gin(one.model()).to(device)(*inputs).shape == (len(labels), 2)
