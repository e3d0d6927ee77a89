"""GAT against PyG's layers with the same weights; its equation is in test_weightless_models."""

import pytest
import torch
from torch.nn.functional import elu
from torch_geometric.nn import GATConv
from torch_geometric.utils import coalesce

from mgnni import ArgumentError
from mgnni.models.gat import GAT
from models.cases import CLASSES, FEATURES, HIDDEN, NODES, graph, normal
from models.weightless_cases import CASES, make

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def by_pyg(model, x, edge_index):
    """PyG's layers, which add self-loops, with the same weights."""
    edge_index = coalesce(edge_index)
    for index, conv in enumerate(model.convs):
        twin = GATConv(
            conv.in_channels,
            conv.out_channels,
            conv.heads,
            concat=conv.concat,
            residual=conv.res is not None,
        ).to(x)
        twin.load_state_dict({name: p.detach() for name, p in conv.named_parameters()})
        x = twin(x, edge_index)
        x = elu(x) if index + 1 < len(model.convs) else x
    return x


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("gat")])
@pytest.mark.parametrize("directed", [False, True])
def test_gat_is_a_stack_of_pygs_layers(name, directed, device):
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(name, device)
    want = by_pyg(model, x, edge_index)
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)
    torch.testing.assert_close(model(x, edge_index, -edge_weight), want, **TOLERANCE)


def test_residuals_are_between_the_first_and_the_last_layer():
    model = GAT(FEATURES, HIDDEN, CLASSES, num_layers=4, heads=2, residual=True)
    assert [conv.res is not None for conv in model.convs] == [False, True, True, False]


@pytest.mark.parametrize("residual", [False, True])
def test_the_number_of_parameters_for_ppi_is_as_expected(residual):
    model = GAT(50, 256, 121, num_layers=3, heads=4, out_heads=6, residual=residual)
    wide = 4 * 256
    first = 50 * wide + 3 * wide  # two attention vectors and a bias
    second = wide * wide * (1 + residual) + 3 * wide
    last = wide * 6 * 121 + 2 * 6 * 121 + 121
    assert sum(p.numel() for p in model.parameters()) == first + second + last


def test_attention_has_its_own_dropout(device):
    # With equal rows everywhere, a node receives that row times what is left of its attention.
    edge_index = torch.stack([torch.arange(40), torch.zeros(40, dtype=torch.long)]).to(device)
    model = GAT(1, 1, 1, num_layers=1, dropout=0.0, attention_dropout=0.5).to(device)
    with torch.no_grad():
        model.convs[0].lin.weight.fill_(1)
    x = torch.ones(40, 1, device=device)
    torch.testing.assert_close(model.eval()(x, edge_index), x)
    share = model.train()(x, edge_index)[0] * 40 / 2  # what is kept counts twice
    torch.testing.assert_close(share, share.round())
    assert 8 <= share.item() <= 32
    default = GAT(1, 1, 1, dropout=0.3)
    assert [conv.attention_dropout.p for conv in default.convs] == [0.3, 0.3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "'num_layers' must be a positive int"),
        ({"heads": 0}, "'heads' must be a positive int"),
        ({"out_heads": 1.5}, "'out_heads' must be a positive int"),
        ({"attention_dropout": 1.0}, "'attention_dropout' must lie in"),
        ({"dropout": -1.0}, "'dropout' must lie in"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        GAT(FEATURES, HIDDEN, CLASSES, **options)
