"""Results on a device agree with those on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import MGNNI, Propagation, solve_equilibria
from mgnni.solve.prepare import METHODS
from problems import lopsided_edges


@pytest.fixture
def accelerator(device):
    if device.type == "cpu":
        pytest.skip("compares an accelerator with the CPU; set MGNNI_TEST_DEVICE=cuda")
    return device


def problem(directed: bool):
    edge_index, edge_weight = lopsided_edges(300, seed=3)
    if not directed:
        edge_index, edge_weight = to_undirected(edge_index, edge_weight, num_nodes=300)
    factor = torch.randn(2, 16, 16)
    gram = factor.mT @ factor
    weight = gram / torch.linalg.matrix_norm(gram, keepdim=True)
    return edge_index, edge_weight, weight, torch.randn(300, 16), torch.randn(2, 300, 16)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_solutions_and_gradients_agree_on_both_devices(accelerator, solver, directed):
    if directed and solver in METHODS and METHODS[solver].needs_symmetric_operator:
        pytest.skip(f"{solver} is for symmetric operators")
    edge_index, edge_weight, weight, bias, cotangent = problem(directed)
    found = []
    for device in (torch.device("cpu"), accelerator):
        w, b = weight.to(device).requires_grad_(), bias.to(device).requires_grad_()
        e = edge_weight.float().to(device).requires_grad_()
        prop = Propagation.from_edge_index(
            edge_index.to(device), 300, e, "dir" if directed else "sym"
        )
        results = solve_equilibria(prop, w, b, (1, 3), 0.8, solver=solver, tol=2e-7)
        z = torch.stack([result.value for result in results])
        found.append([z, *torch.autograd.grad(z, [w, b, e], cotangent.to(device))])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs.cpu()).norm() <= 1e-5 * ours.norm()


@pytest.mark.parametrize("name", ["webkb", "wikipedia", "ppi", "tu"])
def test_models_agree_on_both_devices(accelerator, name):
    edge_index, _ = lopsided_edges(300, seed=3)
    edge_index = to_undirected(edge_index, num_nodes=300)
    x = torch.randn(300, 20)
    model = MGNNI.from_preset(name, 20, 3, dropout=0.0, tol=2e-7)
    found = []
    for device in (torch.device("cpu"), accelerator):
        model.to(device).zero_grad()
        logits = model(x.to(device), edge_index.to(device))
        logits.square().mean().backward()
        gradients = [p.grad.cpu().clone() for p in model.parameters() if p.grad is not None]
        found.append([logits.detach().cpu(), *gradients])
    largest = max(float(g.norm()) for g in found[0][1:])
    (logits, *gradients), (logits_there, *gradients_there) = found
    assert (logits - logits_there).norm() <= 1e-5 * logits.norm()
    for ours, theirs in zip(gradients, gradients_there, strict=True):
        # Gradients that nearly cancel have larger relative errors.
        assert (ours - theirs).norm() <= 1e-5 * ours.norm() + 1e-6 * largest
