"""Attention over scales against a loop over nodes."""

import math

import pytest
import torch

from mgnni.layers.fusion import ScaleAttention, ScaleMean
from problems import generator

SCALES, NODES, CHANNELS, WIDTH = 3, 5, 4, 6


@pytest.fixture
def states(device):
    shape = (SCALES, NODES, CHANNELS)
    return torch.randn(shape, dtype=torch.float64, generator=generator(1)).to(device)


@pytest.fixture
def attention(device):
    return ScaleAttention(CHANNELS, WIDTH).to(device, torch.float64)


def by_hand(attention, z):
    """Softmax over scales of q . tanh(W z + b) as a loop over nodes."""
    w, b = attention.project.weight.tolist(), attention.project.bias.tolist()
    (q,) = attention.query.weight.tolist()
    fused, weights = [], []
    for node in range(NODES):
        scores = []
        for scale in range(SCALES):
            row = z[scale, node].tolist()
            inner = [
                math.tanh(sum(a * x for a, x in zip(line, row, strict=True)) + offset)
                for line, offset in zip(w, b, strict=True)
            ]
            scores.append(sum(a * x for a, x in zip(q, inner, strict=True)))
        total = sum(math.exp(score) for score in scores)
        alpha = [math.exp(score) / total for score in scores]
        weights.append(alpha)
        fused.append(
            [
                sum(alpha[scale] * z[scale, node, channel].item() for scale in range(SCALES))
                for channel in range(CHANNELS)
            ]
        )
    options = {"dtype": torch.float64, "device": z.device}
    return torch.tensor(fused, **options), torch.tensor(weights, **options)


def test_attention_is_that_of_the_paper(attention, states):
    fused, weight = attention(states)
    want_fused, want_weight = by_hand(attention, states)
    torch.testing.assert_close(weight, want_weight, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(fused, want_fused, rtol=1e-12, atol=1e-14)
    assert (want_weight.std(0) > 1e-3).all()  # nodes differ, or the axis would not show


def test_weights_sum_to_one_at_every_node(attention, states):
    _, weight = attention(states)
    assert weight.shape == (NODES, SCALES)
    ones = torch.ones(NODES, dtype=torch.float64, device=states.device)
    torch.testing.assert_close(weight.sum(dim=1), ones, rtol=1e-14, atol=0)


def test_attention_parameters_have_the_expected_shapes(attention):
    shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
    assert shapes == {
        "project.weight": (WIDTH, CHANNELS),
        "project.bias": (WIDTH,),
        "query.weight": (1, WIDTH),
    }


def test_one_scale_gets_all_the_weight(attention, states):
    fused, weight = attention(states[:1])
    torch.testing.assert_close(fused, states[0])
    torch.testing.assert_close(weight, torch.ones_like(weight))


def test_attention_is_differentiable(attention, states):
    assert torch.autograd.gradcheck(attention, (states.requires_grad_(),))


def test_attention_of_a_node_is_independent_of_other_nodes(attention, states):
    fused, _ = attention(states)
    changed = states.clone()
    changed[:, 0] += 1.0
    other, _ = attention(changed)
    assert (other[0] != fused[0]).any()
    torch.testing.assert_close(other[1:], fused[1:], rtol=0, atol=0)


def test_attention_of_huge_states_does_not_overflow(attention, states):
    fused, weight = attention(1e6 * states)
    assert fused.isfinite().all()
    torch.testing.assert_close(weight.sum(1), torch.ones_like(weight[:, 0]))


def test_reset_parameters_depends_on_the_seed_only(attention):
    before = [p.detach().clone() for p in attention.parameters()]
    torch.manual_seed(5)
    attention.reset_parameters()
    once = [p.detach().clone() for p in attention.parameters()]
    torch.manual_seed(5)
    attention.reset_parameters()
    for old, new, again in zip(before, once, attention.parameters(), strict=True):
        assert (old != new).any()
        torch.testing.assert_close(again.detach(), new, rtol=0, atol=0)


def test_the_mean_weights_all_scales_equally(states):
    mean = ScaleMean()
    fused, weight = mean(states)
    torch.testing.assert_close(fused, (states[0] + states[1] + states[2]) / 3)
    torch.testing.assert_close(weight, torch.full_like(weight, 1 / 3))
    assert weight.shape == (NODES, SCALES)
    assert list(mean.parameters()) == []
    mean.reset_parameters()
