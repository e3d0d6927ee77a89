"""The heads against their formulas with the same weights."""

import pytest
import torch

from mgnni.layers.heads import GraphHead, LinearHead, ResidualHead, pool
from problems import generator

NODES, CHANNELS, FEATURES, CLASSES = 7, 4, 3, 2
BATCH = [0, 0, 0, 1, 1, 3, 3]  # graph 2 has no nodes


def normal(*shape, device, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


@pytest.fixture
def inputs(device):
    """Fused states, features, and the graph of each node."""
    z = normal(NODES, CHANNELS, device=device)
    x = normal(NODES, FEATURES, device=device, seed=2)
    return z, x, torch.tensor(BATCH, device=device)


def trained(module, device):
    """A float64 module with random parameters and running statistics."""
    module = module.to(device, torch.float64)
    with torch.no_grad():
        for index, (name, tensor) in enumerate(module.state_dict().items()):
            if tensor.is_floating_point():
                tensor.copy_(0.5 * normal(*tensor.shape, device=device, seed=10 + index))
            if name.endswith("running_var"):
                tensor.abs_().add_(0.5)
    return module.eval()


def batch_norm(x, norm):
    scaled = (x - norm.running_mean) / torch.sqrt(norm.running_var + 1e-5)
    return scaled * norm.weight + norm.bias


def elu(x):
    return torch.where(x > 0, x, torch.exp(x) - 1)


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


def affine(x, linear):
    return x @ linear.weight.T + (0 if linear.bias is None else linear.bias)


def sums(x, num_graphs=4):
    """The sum of the rows of each graph, as a loop."""
    rows = [[row for row, graph in zip(x, BATCH, strict=True) if graph == g] for g in range(4)]
    zero = torch.zeros_like(x[0])
    return torch.stack([sum(mine, zero) for mine in rows[:num_graphs]])


def test_pool_sums_nodes_per_graph_and_is_the_identity_without_batch(inputs):
    z, _, batch = inputs
    torch.testing.assert_close(pool(z, batch, 4), sums(z), rtol=1e-14, atol=0)
    assert pool(z, None, 1) is z


@pytest.mark.parametrize("with_norm", [False, True])
@pytest.mark.parametrize("by_graph", [False, True])
def test_linear_head_matches_its_formula(with_norm, by_graph, inputs, device):
    z, x, batch = inputs
    head = trained(LinearHead(CHANNELS, CLASSES, 0.5, with_norm), device)
    assert head.linear.bias is None
    want = batch_norm(z, head.norm) if with_norm else z
    want = (sums(want) if by_graph else want) @ head.linear.weight.T
    got = head(z, x, batch if by_graph else None, 4)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


def test_linear_head_uses_batch_statistics_in_training(inputs, device):
    z, x, _ = inputs
    head = trained(LinearHead(CHANNELS, CLASSES, 0.0, True), device).train()
    centred = z - z.mean(0)
    scaled = centred / torch.sqrt(centred.square().mean(0) + 1e-5)
    want = (scaled * head.norm.weight + head.norm.bias) @ head.linear.weight.T
    torch.testing.assert_close(head(z, x, None, 1), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("by_graph", [False, True])
@pytest.mark.parametrize("num_layers", [0, 1, 3])
def test_residual_head_matches_its_formula(num_layers, by_graph, inputs, device):
    z, x, batch = inputs
    head = ResidualHead(FEATURES, CHANNELS, 6, CLASSES, num_layers, 0.5)
    head = trained(head, device)
    h = elu(batch_norm(affine(z, head.first) + affine(x, head.residual), head.norms[0]))
    for linear, norm in zip(head.hidden, head.norms[1:], strict=True):
        h = elu(batch_norm(affine(h, linear) + h, norm))
    want = affine(sums(h) if by_graph else h, head.last)
    got = head(z, x, batch if by_graph else None, 4)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


def test_residual_head_depends_on_the_features(inputs, device):
    z, x, _ = inputs
    head = trained(ResidualHead(FEATURES, CHANNELS, 6, CLASSES, 2, 0.0), device)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(head(torch.zeros_like(z), x, None, 1).sum(), x)
    assert (grad != 0).any(dim=1).all()


def graph_head_by_hand(head, rows):
    """The graph head for a single graph."""
    h = rows
    for linear in head.node:
        h = relu(affine(h, linear))
    h = h.sum(0)
    for linear in head.graph:
        h = relu(affine(h, linear))
    return affine(h, head.last)


@pytest.mark.parametrize("num_layers", [0, 1, 3])
def test_graph_head_takes_each_graph_on_its_own(num_layers, inputs, device):
    z, x, batch = inputs
    head = trained(GraphHead(CHANNELS, CLASSES, num_layers, 0.5), device)
    want = torch.stack([graph_head_by_hand(head, z[batch == graph]) for graph in range(4)])
    torch.testing.assert_close(head(z, x, batch, 4), want, rtol=1e-12, atol=1e-14)


HEADS = {
    "linear": lambda dropout: LinearHead(CHANNELS, CLASSES, dropout, False),
    "linear with norm": lambda dropout: LinearHead(CHANNELS, CLASSES, dropout, True),
    "residual": lambda dropout: ResidualHead(FEATURES, CHANNELS, 6, CLASSES, 2, dropout),
    "graph": lambda dropout: GraphHead(CHANNELS, CLASSES, 2, dropout),
}


@pytest.mark.parametrize("name", HEADS)
def test_dropout_acts_in_training_only(name, inputs, device):
    z, x, batch = inputs
    head = HEADS[name](0.5).to(device, torch.float64).eval()
    first, second = head(z, x, batch, 4), head(z, x, batch, 4)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    head.train()
    assert (head(z, x, batch, 4) != head(z, x, batch, 4)).any()


@pytest.mark.parametrize("name", HEADS)
def test_reset_parameters_depends_on_the_seed_and_clears_running_statistics(name, device):
    head, other = (HEADS[name](0.5).to(device) for _ in range(2))
    head = trained(head, device).float()
    before = {key: value.clone() for key, value in head.state_dict().items()}
    for module in (head, other):
        torch.manual_seed(5)
        module.reset_parameters()
    for key, value in head.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[key])
        if value.is_floating_point():
            assert (value != before[key]).any()
        if key.endswith("running_mean"):
            assert (value == 0).all()


def test_the_linear_head_is_initialised_with_variance_one_over_channels(device):
    head = LinearHead(2000, 50, 0.0, False).to(device)
    weight = head.linear.weight.detach()
    assert weight.std().item() == pytest.approx(2000**-0.5, rel=0.02)  # 1e5 draws: 0.2 %
    assert abs(weight.mean().item()) < 5 * (2000 * 100_000) ** -0.5
    # Normal, not uniform: a uniform of this variance has no entry beyond 1.74 deviations.
    assert weight.abs().max() > 3 * 2000**-0.5
