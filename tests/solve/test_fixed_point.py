"""Norms of states from their definitions, and mixed steps that are taken back."""

from types import SimpleNamespace

import pytest
import torch
from mgnni.solve.mixing import PATIENCE, Mixing

from mgnni.solve import fixed_point
from mgnni.solve.fixed_point import FixedPoint, StateNorm
from problems import generator

KINDS = ("frobenius", "max", "sum")
BATCH = (0, 2, 0, 2, 2)


def normal(*shape, device, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed)).to(device)


def by_definition(norm, x):
    """The norm of one graph, one channel at a time."""
    weight = torch.ones(len(x)) if norm.weight is None else norm.weight
    columns = []
    for column in x.T:
        pairs = [(abs(z), w) for z, w in zip(column.tolist(), weight.tolist(), strict=True)]
        columns.append(
            {
                "frobenius": sum(z * z for z, _ in pairs) ** 0.5,
                "max": max(z / w for z, w in pairs),
                "sum": sum(z * w for z, w in pairs),
            }[norm.kind]
        )
    squares = sum(c * c for c in columns) ** 0.5
    return {"frobenius": squares, "max": max(columns), "sum": sum(columns)}[norm.channels]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("channels", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_norm_its_dual_and_its_factor(kind, channels, weighted, device):
    weight = 0.1 + torch.rand(5, dtype=torch.float64, generator=generator(1)).to(device)
    norm = StateNorm(kind, weight if weighted else None, channels)
    graphs = SimpleNamespace(batch=torch.tensor(BATCH, device=device), num_graphs=3)
    x, y = (normal(5, 3, device=device, seed=seed) for seed in (2, 3))
    found, dual, factor = norm(graphs, x), norm.dual()(graphs, y), norm.to_frobenius(graphs, x)
    assert found[1] == 0  # a graph without nodes
    assert vars(norm.dual().dual()) == vars(norm)
    for graph in (0, 2):
        rows = graphs.batch == graph
        own = weight[rows] if weighted else None
        alone = StateNorm(kind, own, channels)
        assert found[graph].item() == pytest.approx(by_definition(alone, x[rows]))
        assert dual[graph].item() == pytest.approx(by_definition(alone.dual(), y[rows]))
        # Hoelder's inequality.
        pairing = (x[rows] * y[rows]).sum().abs()
        assert pairing <= found[graph] * dual[graph]
        assert x[rows].square().sum().sqrt() <= factor[graph] * found[graph] * (1 + 1e-12)
        single = SimpleNamespace(batch=None, num_graphs=1)
        assert alone(single, x[rows]).item() == pytest.approx(found[graph].item())


def test_a_mixed_step_after_which_the_residual_grew_is_taken_back(device):
    graphs = SimpleNamespace(batch=torch.tensor([0, 1], device=device), num_graphs=2)

    def numbers(*values):
        return torch.tensor(values, dtype=torch.float64, device=device)

    # Two graphs of one node: T(z) = z / 2 + 1 from 0, where one difference is enough to mix.
    mixing = Mixing(graphs, numbers([1.0], [1.0]), numbers([1.0], [1.0]), numbers(1.0, 1.0))
    following = mixing.step(numbers([1.5], [1.5]), numbers([0.5], [0.5]), numbers(0.5, 0.5))
    torch.testing.assert_close(following, numbers([2.0], [2.0]))  # the fixed point
    # Of the second graph, the map turns out to be another: a residual of 3 instead of 0.
    following = mixing.step(numbers([2.01], [5.0]), numbers([0.01], [3.0]), numbers(0.01, 3.0))
    assert following[1].item() == 1.5  # Picard's step from the point before
    # That step is no mixed one, and is kept whatever comes.
    following = mixing.step(numbers([2.0], [4.5]), numbers([0.001], [3.0]), numbers(0.001, 3.0))
    assert mixing.size.tolist() == [0.001, 3.0]
    assert mixing.refused.tolist() == [0.0, 1.0]


def test_a_graph_that_mixing_fails_is_left_to_picard(device):
    graphs = SimpleNamespace(batch=None, num_graphs=1)
    mixing = None
    for count in range(20):
        size = torch.tensor([1.0 + count], dtype=torch.float64, device=device)  # worse and worse
        image, residual = normal(3, 2, device=device, seed=count), normal(3, 2, device=device)
        if mixing is None:
            mixing = Mixing(graphs, image, residual, size)
            continue
        following = mixing.step(image, residual * (1 + count), size)
    assert mixing.refused.tolist() == [PATIENCE]
    assert torch.equal(following, image)


def test_a_graph_that_stopped_stays_converged_if_its_map_rounds_anew(monkeypatch, device):
    """As sums on an accelerator do, where some steps are taken between two looks."""
    monkeypatch.setattr(fixed_point, "LOOKS", {})
    rate, far = 0.5 ** (1 / 3), generator(5)
    for seed in range(40):
        bias = normal(6, 2, device=device, seed=seed)

        def image(z, bias=bias):
            noise = 1 + 2e-8 * torch.randn(z.shape, dtype=z.dtype, generator=far).to(z.device)
            return (rate * z + bias) * noise

        problem = FixedPoint(StateNorm(), None, "picard", 1e-6, None, None, 1)
        _, (stats,) = problem.solve(image, torch.zeros_like(bias))
        assert stats.converged, stats.failure()
