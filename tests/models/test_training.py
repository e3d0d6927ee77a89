"""Training of MGNNI on long-range dependencies."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from mgnni import MGNNI

LENGTH, CHAINS = 7, 8


def chains(device):
    """Directed chains: the first node has the class as feature, the last is classified."""
    start = torch.arange(CHAINS) * LENGTH
    step = torch.arange(LENGTH - 1)
    source = (start[:, None] + step).flatten()
    edge_index = torch.stack([source, source + 1]).to(device)
    y = (torch.arange(CHAINS) % 2).to(device)
    x = torch.zeros(CHAINS * LENGTH, 2, device=device)
    x[start.to(device), y] = 1.0
    return x, edge_index, y, (start + LENGTH - 1).to(device)


def train(model, x, edge_index, y, last, steps=200):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(x, edge_index)[last], y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    accuracy = (model(x, edge_index)[last].argmax(1) == y).float().mean().item()
    return losses, accuracy


@pytest.mark.parametrize("options", [{}, {"memory": "low"}, {"fusion": "mean"}], ids=str)
def test_a_label_at_distance_six_is_learnt(options, device):
    x, edge_index, y, last = chains(device)
    model = MGNNI(2, 8, 2, dropout=0.0, **options).to(device)
    losses, accuracy = train(model, x, edge_index, y, last)
    assert accuracy == 1.0
    assert losses[-1] < 0.1 * losses[0]
    assert all(stats.converged for stats in model.solve_log.forward + model.solve_log.backward)


def test_without_the_last_edge_of_each_chain_nothing_can_be_learnt(device):
    x, edge_index, y, last = chains(device)
    cut = edge_index[:, ~torch.isin(edge_index[1], last)]
    model = MGNNI(2, 8, 2, dropout=0.0).to(device)
    losses, accuracy = train(model, x, cut, y, last, steps=60)
    assert accuracy == 0.5
    assert losses[-1] > 0.99 * torch.tensor(2.0).log().item()


def test_graphs_are_classified_by_long_range_dependencies(device):
    # Chains of one batch whose two marks stand at the same end, or at opposite ends.
    x, edge_index, _, _ = chains(device)
    batch = torch.arange(CHAINS, device=device).repeat_interleave(LENGTH)
    y = torch.arange(CHAINS, device=device) % 2
    x = torch.zeros_like(x)
    first = torch.arange(CHAINS, device=device) * LENGTH
    x[first, 0] = 1.0
    x[first + torch.where(y == 1, LENGTH - 1, 0), 1] = 1.0
    model = MGNNI(2, 8, 2, dropout=0.0, head="graph", head_layers=1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        logits = model(x, edge_index, batch=batch)
        loss = cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert (logits.argmax(1) == y).all()
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("gap", [20.0, 45.0, 90.0])
@pytest.mark.parametrize("solver", ["auto", "picard", "anderson", "gmres"])
def test_a_perfect_fit_does_not_stop_the_training(solver, gap, device):
    # Logits that far apart leave gradients of exp(-gap): 1e-9, 1e-20, 1e-39 at every node.
    x, edge_index, y, last = chains(device)
    model = MGNNI(2, 8, 2, dropout=0.0, solver=solver).to(device)
    logits = model(x, edge_index)[last]
    certain = gap * torch.nn.functional.one_hot(y, 2)
    cross_entropy(logits - logits.detach() + certain, y).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    if gap < 50:  # beyond that, single precision has no digits left
        assert all(p.grad.abs().max() > 0 for p in model.equilibrium.parameters())


@pytest.mark.parametrize("gap", [45.0, 90.0])
@pytest.mark.parametrize("solver", ["auto", "gmres"])
def test_one_perfectly_fitted_graph_does_not_stop_the_others(solver, gap, device):
    x, edge_index, _, _ = chains(device)
    batch = torch.arange(CHAINS, device=device).repeat_interleave(LENGTH)
    y = torch.arange(CHAINS, device=device) % 2
    model = MGNNI(2, 8, 2, dropout=0.0, solver=solver).to(device)
    logits = model(x, edge_index, batch=batch)
    certain = torch.zeros(CHAINS, 2, device=device)
    certain[0, y[0]] = gap
    cross_entropy(logits - logits.detach() + certain, y).backward()
    assert model.equilibrium.factor.grad.abs().max() > 1e-6
