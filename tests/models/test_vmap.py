"""Vmapped MGNNI models against single models."""

import pytest
import torch

from mgnni import make_model as catalog_model
from models.cases import CLASSES, FEATURES, NODES, by_hand, graph, make_model, normal

RUNS = 3


def test_vmapped_models_match_single_models(device):
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    y = torch.arange(NODES, device=device) % CLASSES
    models = []
    for seed in range(RUNS):
        torch.manual_seed(seed)
        models.append(make_model(device))
    parameters, buffers = torch.func.stack_module_state(models)

    def loss(logits):
        return torch.nn.functional.cross_entropy(logits, y)

    def run(parameters, buffers):
        call = (x, edge_index, edge_weight)
        return loss(torch.func.functional_call(models[0], (parameters, buffers), call))

    losses = torch.func.vmap(run)(parameters, buffers)
    grads = torch.func.vmap(torch.func.grad(run))(parameters, buffers)
    for seed, model in enumerate(models):
        want = loss(by_hand(model, x, edge_index, edge_weight, normalization="dir")[0])
        torch.testing.assert_close(losses[seed], want, rtol=1e-9, atol=1e-11)
        named = dict(model.named_parameters())
        known = torch.autograd.grad(want, list(named.values()))
        for name, expected in zip(named, known, strict=True):
            torch.testing.assert_close(grads[name][seed], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["cgs", "gcn", "ignn"])
def test_gradients_of_an_ensemble_are_those_of_its_members(name, device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    models = []
    for seed in range(RUNS):
        torch.manual_seed(seed)
        models.append(catalog_model(name, FEATURES, 4, CLASSES, dropout=0.0).double().to(device))
    parameters, buffers = torch.func.stack_module_state(models)

    def loss(parameters, buffers):
        call = torch.func.functional_call(models[0], (parameters, buffers), (x, edge_index))
        return call[2].square().sum()

    grads = torch.func.vmap(torch.func.grad(loss))(parameters, buffers)
    for seed, model in enumerate(models):
        named = dict(model.named_parameters())
        known = torch.autograd.grad(model(x, edge_index)[2].square().sum(), list(named.values()))
        for one, expected in zip(named, known, strict=True):
            torch.testing.assert_close(grads[one][seed], expected, rtol=1e-4, atol=1e-6)
