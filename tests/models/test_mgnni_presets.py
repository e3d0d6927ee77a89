"""The authors' configurations: numbers of parameters, options and known solutions."""

import pytest
import torch

from mgnni import MGNNI, ArgumentError
from mgnni.layers.regularization import Dropout
from mgnni.models.mgnni_presets import PRESETS
from models.cases import (
    CLASSES,
    FEATURES,
    NODES,
    batch_of_graphs,
    by_hand,
    graph,
    normal,
)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def linear(a, b, bias=True):
    return a * b + (b if bias else 0)


def attention(h):
    return linear(h, 16) + linear(16, 1, bias=False)


@pytest.mark.parametrize(("features", "classes"), [(1703, 5), (20, 3)])
def test_webkb_has_as_many_channels_as_features(features, classes):
    with torch.device("meta"):
        model = MGNNI.from_preset("webkb", features, classes)
    assert model.equilibrium.factor.shape == (2, features, features)
    want = 2 * features**2 + attention(features) + linear(features, classes, bias=False)
    assert count(model) == want


@pytest.mark.parametrize(("features", "classes"), [(2325, 5), (20, 3)])
def test_wikipedia_is_64_wide_with_batch_norm(features, classes):
    model = MGNNI.from_preset("wikipedia", features, classes)
    want = linear(features, 64) + linear(64, 64) + 2 * 64**2 + attention(64) + 2 * 64
    assert count(model) == want + linear(64, classes, bias=False)


def test_ppi_has_as_many_parameters_as_the_authors_model():
    with torch.device("meta"):
        model = MGNNI.from_preset("ppi", 50, 121)
    head = 2 * linear(50, 2048) + 4 * linear(2048, 2048) + 5 * 2 * 2048 + linear(2048, 121)
    assert count(model) == 2 * 50**2 + attention(50) + head == 17_268_545
    assert model.equilibrium.factor.numel() == 5000


@pytest.mark.parametrize(("features", "classes"), [(7, 2), (37, 3)])
def test_tu_has_three_layers_before_and_after_the_sum(features, classes):
    model = MGNNI.from_preset("tu", features, classes)
    inputs = linear(features, 64) + linear(64, 32) + linear(32, 32)
    head = 6 * linear(32, 32) + linear(32, classes)
    assert count(model) == inputs + 2 * 32**2 + attention(32) + head


@pytest.mark.parametrize(
    ("name", "dropout", "level", "normalization", "self_loops", "flow"),
    [
        ("webkb", 0.5, "node", "sym", True, "source_to_target"),
        ("wikipedia", 0.5, "node", "out", False, "target_to_source"),
        ("ppi", 0.1, "node", "sym", True, "source_to_target"),
        ("tu", 0.0, "graph", "sym", True, "source_to_target"),
    ],
)
def test_options_are_those_of_the_authors_code(
    name, dropout, level, normalization, self_loops, flow
):
    model = MGNNI.from_preset(name, 8, 3)
    assert model.graph_options == {
        "normalization": normalization,
        "self_loops": self_loops,
        "flow": flow,
    }
    assert model.level == level
    assert (model.equilibrium.scales, model.equilibrium.gamma) == ((1, 2), 0.8)
    rates = {m.p for m in model.modules() if isinstance(m, Dropout)}
    assert rates == {dropout}


@pytest.mark.parametrize(
    ("name", "changes", "directed", "normalization"),
    [
        ("webkb", {}, False, "sym"),
        ("wikipedia", {"hidden_channels": 4}, True, "out"),
        ("ppi", {"head_channels": 8}, False, "sym"),
    ],
)
def test_logits_match_the_equations(name, changes, directed, normalization, device):
    model = MGNNI.from_preset(name, FEATURES, CLASSES, tol=1e-12, **changes)
    model = model.to(device, torch.float64).eval()
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    want, _ = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_heads_of_the_text_match_the_equations(head, device):
    """A linear map or an MLP of the fused states, per node and of sums over graphs."""
    options = {"hidden_channels": 4, "input_map": "mlp-relu", "head": head, "head_layers": 2}
    model = MGNNI.from_preset("tu", FEATURES, CLASSES, tol=1e-12, level="auto", **options)
    model = model.to(device, torch.float64).eval()
    x, edge_index, batch, _ = batch_of_graphs(device)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    for given in (None, batch):
        want, _ = by_hand(model, x, edge_index, batch=given)
        torch.testing.assert_close(model(x, edge_index, batch=given), want, rtol=1e-8, atol=1e-10)


def test_tu_returns_one_row_per_graph(device):
    model = MGNNI.from_preset("tu", FEATURES, CLASSES, tol=1e-12, hidden_channels=4)
    model = model.to(device, torch.float64).eval()
    x, edge_index, batch, _ = batch_of_graphs(device)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    want, _ = by_hand(model, x, edge_index, batch=batch)
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, rtol=1e-8, atol=1e-10)


def test_wikipedia_aggregates_out_neighbours(device):
    """Solve by hand for one channel, where g(F) = 1, with a bias at node 2 only.

    The edges 0->1, 0->2, 1->2, 2->0 have out-degrees 2, 1, 1; with s = 1/sqrt(2)

        S = [[0, s, s], [0, 0, 1], [s, 0, 0]],  S S = [[1/2, 0, s], [s, 0, 0], [0, 1/2, 1/2]].
    """
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 0]], device=device)
    x = torch.tensor([[0.0], [0.0], [1.0]], dtype=torch.float64, device=device)
    model = MGNNI.from_preset(
        "wikipedia", 1, 2, hidden_channels=1, input_map="identity", tol=1e-12
    ).to(device, torch.float64)
    with torch.no_grad():
        model.equilibrium.factor.fill_(1.0)
    seen = []
    model.equilibrium.register_forward_hook(lambda module, inputs, output: seen.append(output))
    model.eval()(x, edge_index)
    g, s = 0.8, 0.5**0.5
    # Z = g S Z + B: z0 = g s (z1 + z2), z1 = g z2, z2 = 1 + g s z0.
    z2 = 1 / (1 - g * s * g * s * (1 + g))
    first = [g * s * (1 + g) * z2, g * z2, z2]
    # Z = g S S Z + B: z0 = g (z0 / 2 + s z2), z1 = g s z0, z2 = 1 + g (z1 + z2) / 2.
    ratio = g * s / (1 - g / 2)  # of z0 to z2
    z2 = 1 / (1 - g / 2 * (1 + g * s * ratio))
    second = [ratio * z2, g * s * ratio * z2, z2]
    want = torch.tensor([first, second], dtype=torch.float64, device=device).unsqueeze(-1)
    torch.testing.assert_close(seen[0], want, rtol=1e-10, atol=0)


def test_arguments_override_the_preset_without_changing_it():
    before = {name: dict(options) for name, options in PRESETS.items()}
    model = MGNNI.from_preset("tu", 7, 2, scales=(1, 4), gamma=0.6, dropout=0.25)
    assert (model.equilibrium.scales, model.equilibrium.gamma) == ((1, 4), 0.6)
    assert {part.p for part in model.head.dropout} == {0.25}
    assert before == PRESETS


def test_unknown_presets_raise_with_the_closest_match():
    with pytest.raises(ArgumentError, match=r"'name' .*got 'wikipdia'.*did you mean 'wikipedia'"):
        MGNNI.from_preset("wikipdia", 7, 2)


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="normalisation"):
        MGNNI.from_preset("tu", 7, 2, normalisation="sym")
