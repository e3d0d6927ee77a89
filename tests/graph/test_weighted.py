"""Weighted sums over neighbours, against a loop over the edges."""

import pytest
import torch
from torch.func import grad, vmap

from mgnni.graph.csr import Pattern
from mgnni.graph.weighted import weighted_sum
from problems import generator, propagation

HEADS, CHANNELS, RUNS = 3, 2, 4


def draw(*shape, device, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def edge_by_edge(weight, x, pattern):
    rows = []
    for v in range(pattern.num_nodes):
        own = (pattern.row == v).nonzero().squeeze(1).tolist()
        terms = [weight[e][:, None] * x[int(pattern.col[e])] for e in own]
        rows.append(sum(terms) if terms else torch.zeros_like(x[0]))
    return torch.stack(rows)


def problem(device):
    pattern = propagation("dir", self_loops=False).to(device).pattern
    weight = draw(pattern.nnz, HEADS, device=device)
    return weight, draw(pattern.num_nodes, HEADS, CHANNELS, device=device, seed=1), pattern


def test_sums_and_gradients_of_one_node(device):
    weight, x, pattern = problem(device)
    inputs = [weight.requires_grad_(), x.requires_grad_()]
    ours, want = weighted_sum(weight, x, pattern), edge_by_edge(weight, x, pattern)
    torch.testing.assert_close(ours, want)
    busy = int(pattern.lengths.argmax())
    grads = [torch.autograd.grad(out[busy].square().sum(), inputs) for out in (ours, want)]
    for got, known in zip(*grads, strict=True):
        torch.testing.assert_close(got, known)


def test_sums_can_be_differentiated_twice(device):
    weight, x, pattern = problem(device)
    inputs = (weight[:, :1].clone().requires_grad_(), x[:, :1].clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda *args: weighted_sum(*args, pattern), inputs)
    assert torch.autograd.gradgradcheck(lambda *args: weighted_sum(*args, pattern), inputs)


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 1), (2, None)])
def test_vmap_gives_what_single_runs_give(in_dims, device):
    weight, x, pattern = problem(device)
    given = []
    for tensor, dim, seed in zip((weight, x), in_dims, (2, 3), strict=True):
        many = draw(RUNS, *tensor.shape, device=device, seed=seed)
        given.append(tensor if dim is None else many.movedim(0, dim).contiguous())

    def loss(weight, x):
        return weighted_sum(weight, x, pattern)[0].square().sum()

    ours = vmap(lambda *args: weighted_sum(*args, pattern), in_dims)(*given)
    grads = vmap(grad(loss, argnums=(0, 1)), in_dims)(*given)
    for run in range(RUNS):
        alone = [
            t if dim is None else t.select(dim, run) for t, dim in zip(given, in_dims, strict=True)
        ]
        alone = [t.clone().requires_grad_() for t in alone]
        want = edge_by_edge(*alone, pattern)
        torch.testing.assert_close(ours[run], want)
        known = torch.autograd.grad(want[0].square().sum(), alone)
        for got, expected in zip(grads, known, strict=True):
            torch.testing.assert_close(got[run], expected)


@pytest.mark.parametrize(("nodes", "channels"), [(0, 2), (4, 0), (4, 2)])
def test_empty_sums_are_zero(nodes, channels, device):
    none = torch.empty(0, dtype=torch.long, device=device)
    pattern = Pattern.from_sorted(none, none, nodes)
    weight = torch.empty(0, HEADS, device=device, requires_grad=True)
    x = torch.ones(nodes, HEADS, channels, device=device, requires_grad=True)
    total = weighted_sum(weight, x, pattern)
    assert total.shape == (nodes, HEADS, channels)
    assert not total.any()
    total.sum().backward()
    assert not x.grad.any()


def test_no_message_is_stored_per_edge(device):
    weight, x, pattern = problem(device)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append(t.numel()) or t, lambda t: t
    ):
        weighted_sum(weight.requires_grad_(), x.requires_grad_(), pattern)
    assert pattern.nnz > pattern.num_nodes
    assert sum(saved) == weight.numel() + x.numel()
