"""Vmapped MGNNI models against single models."""

import torch

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
