"""Errors of MGNNI, which name the argument, the value and the remedy."""

import pytest
import torch

from mgnni import MGNNI, ArgumentError, ConvergenceError, NotContractiveError, Propagation
from models.cases import FEATURES, NODES, graph, make_model, normal

NAN, INF = float("nan"), float("inf")

# what is changed in MGNNI(5, 4, 3) -> the message
CONSTRUCTION = {
    "gamma one": ({"gamma": 1.0}, r"'gamma' .*\[0, 1\).*got 1\.0.*0\.8"),
    "gamma above one": ({"gamma": 1.5}, r"'gamma' .*got 1\.5.*0\.8"),
    "gamma negative": ({"gamma": -0.5}, r"'gamma' .*got -0\.5.*0\.8"),
    "gamma nan": ({"gamma": NAN}, r"'gamma' .*got nan.*0\.8"),
    "scale zero": ({"scales": (0, 1)}, r"'scales' .*at least 1.*got 0\).*use 1"),
    "scale negative": ({"scales": (-1,)}, r"'scales' .*at least 1.*got -1\).*use 1"),
    "scale a float": ({"scales": (1.0,)}, r"'scales' .*ints.*got 1\.0\).*use 1"),
    "scales repeated": ({"scales": (1, 2, 1)}, r"'scales' .*not repeat.*got \(1, 2, 1\)"),
    "scales empty": ({"scales": ()}, r"'scales' .*at least one.*got \(\).*write \(1, 2\)"),
    "scales an int": ({"scales": 2}, r"'scales' .*sequence.*got 2.*write \(1, 2\)"),
    "hidden with identity": (
        {"input_map": "identity"},
        r"'hidden_channels' .*equal in_channels.*got 4 and 5.*input_map='mlp'",
    ),
    "dropout one": ({"dropout": 1.0}, r"'dropout' .*\[0, 1\).*got 1\.0.*0 switches it off"),
    "dropout negative": ({"dropout": -0.1}, r"'dropout' .*got -0\.1.*0 switches"),
    "dropout text": ({"dropout": "0.5"}, r"'dropout' .*got '?0\.5"),
    "tol zero": ({"tol": 0.0}, r"'tol' .*\(0, 1\).*got 0\.0.*1e-6"),
    "tol one": ({"tol": 1.0}, r"'tol' .*got 1\.0.*1e-6"),
    "tol text": ({"tol": "1e-6"}, r"'tol' .*got '?1e-6"),
    "max_iter zero": ({"max_iter": 0}, r"'max_iter' .*positive int.*got 0"),
    "max_iter a float": ({"max_iter": 1e3}, r"'max_iter' .*got 1000\.0"),
    "in_channels zero": ({"in_channels": 0}, r"'in_channels' .*positive int.*got 0"),
    "hidden_channels a float": ({"hidden_channels": 4.0}, r"'hidden_channels' .*got 4\.0"),
    "out_channels negative": ({"out_channels": -1}, r"'out_channels' .*got -1"),
    "attention_channels zero": ({"attention_channels": 0}, r"'attention_channels' .*got 0"),
    "head_layers negative": (
        {"head": "residual", "head_layers": -1},
        r"'head_layers' .*got -1",
    ),
    "head_channels negative": (
        {"head": "residual", "head_channels": -1},
        r"'head_channels' .*got -1",
    ),
    "input_widths of zero": ({"input_widths": (0,)}, r"'input_widths' .*got .*0"),
    "input_widths an int": ({"input_widths": 16}, r"'input_widths' .*got 16"),
    "batch_norm elsewhere": (
        {"head": "graph", "batch_norm": True},
        r"'batch_norm' .*head='linear'.*got True.*leave it out",
    ),
    "level against head": (
        {"head": "graph", "level": "node"},
        r"'level' .*head='graph'.*got 'node'.*head='linear'",
    ),
    "input_map misspelt": ({"input_map": "mpl"}, r"'input_map' .*got 'mpl'.*did you mean 'mlp'"),
    "fusion misspelt": (
        {"fusion": "atention"},
        r"'fusion' .*got 'atention'.*did you mean 'attention'",
    ),
    "head misspelt": ({"head": "liner"}, r"'head' .*got 'liner'.*did you mean 'linear'"),
    "level misspelt": ({"level": "nodes"}, r"'level' .*got 'nodes'.*did you mean 'node'"),
    "normalization misspelt": (
        {"normalization": "symm"},
        r"'normalization' .*got 'symm'.*did you mean 'sym'",
    ),
    "flow misspelt": (
        {"flow": "source_to_traget"},
        r"'flow' .*got 'source_to_traget'.*did you mean 'source_to_target'",
    ),
    "solver misspelt": (
        {"solver": "chebychev"},
        r"'solver' .*got 'chebychev'.*did you mean 'chebyshev'",
    ),
    "memory misspelt": ({"memory": "fats"}, r"'memory' .*got 'fats'.*did you mean 'fast'"),
    "on_failure misspelt": (
        {"on_failure": "warning"},
        r"'on_failure' .*got 'warning'.*did you mean 'warn'",
    ),
    "solver unlike any": (
        {"solver": "xyz"},
        r"'solver' must be one of \[.*'auto'.*\] \(got 'xyz'\)$",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_invalid_options_are_refused_at_construction(name):
    changes, message = CONSTRUCTION[name]
    good = {"in_channels": 5, "hidden_channels": 4, "out_channels": 3}
    MGNNI(**good)
    with pytest.raises(ArgumentError, match=message):
        MGNNI(**{**good, **changes})


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="hiden"):
        MGNNI(5, 4, 3, hiden=1)


def bad(value, at=(2, 1)):
    """Features with one entry replaced by ``value``."""
    x = normal(NODES, FEATURES, device="cpu")
    x[at] = value
    return x


CROSSING = [0] * 4 + [1] * 5

# what is changed in model(x, edge_index), on a directed graph of 9 nodes -> the message
CALL = {
    "x too wide": (
        {"x": torch.ones(NODES, 6).double()},
        r"'x' .*\(num_nodes, 5\).*got .*\(9, 6\).*in_channels",
    ),
    "x flat": ({"x": torch.ones(5).double()}, r"'x' .*\(num_nodes, 5\).*got .*\(5,\)"),
    "x of integers": (
        {"x": torch.ones(NODES, 5, dtype=torch.long)},
        r"'x' .*floating point.*got torch\.int64",
    ),
    "x a list": ({"x": [[1.0] * 5] * NODES}, r"'x' .*got list"),
    "nan in x": ({"x": bad(NAN)}, r"'x' .*finite.*got nan at row 2, column 1.*impute or drop"),
    "inf in x": ({"x": bad(INF)}, r"'x' .*finite.*got inf at row 2, column 1.*impute or drop"),
    "x of fewer nodes": (
        {"x": torch.ones(6, 5).double()},
        r"'edge_index' .*\[0, 6\).*got 6\).*num_nodes",
    ),
    "edge index too large": (
        {"edge_index": torch.tensor([[0], [9]])},
        r"'edge_index' .*\[0, 9\).*got 9\).*relabel",
    ),
    "edge index negative": (
        {"edge_index": torch.tensor([[0], [-1]])},
        r"'edge_index' .*\[0, 9\).*got -1\).*relabel",
    ),
    "edge index of floats": (
        {"edge_index": torch.zeros(2, 1)},
        r"'edge_index' .*integers.*got dtype torch\.float32.*long",
    ),
    "edge index turned": (
        {"edge_index": torch.zeros(4, 2, dtype=torch.long)},
        r"'edge_index' .*\(2, num_edges\).*got \(4, 2\).*first row",
    ),
    "edge index a list": ({"edge_index": [[0], [1]]}, r"'edge_index' .*got list"),
    "features of two kinds of nodes": (
        {"x": (torch.ones(NODES, 2), torch.ones(3, 2))},
        r"'x' .*one tensor \(got a tuple of 2\).*bipartite",
    ),
    "batch size without batch": (
        {"batch_size": 2},
        r"'batch_size' .*without 'batch' \(got 2\).*data\.batch",
    ),
    "a sparse adjacency of another size": (
        {"edge_index": torch.eye(NODES + 1).to_sparse()},
        r"'num_nodes' .*10.*got 9",
    ),
    "a bipartite adjacency": (
        {"edge_index": torch.ones(NODES, 3).to_sparse()},
        r"'edge_index' .*square.*bipartite",
    ),
    "edge weight negative": (
        {"edge_index": torch.tensor([[0, 1], [1, 2]]), "edge_weight": torch.tensor([1.0, -2.0])},
        r"'edge_weight' .*negative.*got -2\).*normalization='none'",
    ),
    "edge weight nan": (
        {"edge_index": torch.tensor([[0, 1], [1, 2]]), "edge_weight": torch.tensor([1.0, NAN])},
        r"'edge_weight' .*finite.*nan.*isfinite",
    ),
    "edge weight short": (
        {"edge_index": torch.tensor([[0, 1], [1, 2]]), "edge_weight": torch.ones(3)},
        r"'edge_weight' .*\(2,\).*got \(3,\)",
    ),
    "edge weight of integers": (
        {
            "edge_index": torch.tensor([[0, 1], [1, 2]]),
            "edge_weight": torch.ones(2, dtype=torch.long),
        },
        r"'edge_weight' .*floating point.*got torch\.int64.*float\(\)",
    ),
    "batch across an edge": (
        {"edge_index": torch.tensor([[0, 3], [1, 4]]), "batch": torch.tensor(CROSSING)},
        r"'batch' .*one graph.*edge \[3, 4\] between graphs 0 and 1.*leave batch out",
    ),
    "batch short": (
        {"batch": torch.zeros(4, dtype=torch.long)},
        r"'batch' .*\(9,\).*got torch\.int64, \(4,\)",
    ),
    "batch of floats": (
        {"batch": torch.zeros(NODES)},
        r"'batch' .*64-bit integer.*got torch\.float32",
    ),
    "batch negative": (
        {"batch": torch.full((NODES,), -1)},
        r"'batch' .*negative.*got -1",
    ),
}


@pytest.mark.parametrize("name", CALL)
def test_invalid_inputs_are_refused(name, device):
    changes, message = CALL[name]
    changes = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in changes.items()}
    model = make_model(device)
    good = {"x": normal(NODES, FEATURES, device=device), "edge_index": graph(True, device)[0]}
    model(**good)
    with pytest.raises(ArgumentError, match=message):
        model(**{**good, **changes})


@pytest.mark.parametrize("input_map", ["mlp", "identity"])
@pytest.mark.parametrize("training", [True, False])
def test_features_that_are_not_finite_are_found_in_any_configuration(input_map, training, device):
    model = make_model(device, input_map=input_map, on_failure="warn").train(training)
    with pytest.raises(ArgumentError, match=r"'x' .*got nan at row 2, column 1"):
        model(bad(NAN).to(device), graph(True, device)[0])


def test_parameters_that_are_not_finite_are_not_blamed_on_the_features(device):
    model = make_model(device)
    x, (edge_index, _) = normal(NODES, FEATURES, device=device), graph(True, device)
    with torch.no_grad():
        model.equilibrium.factor[0, 0, 0] = NAN
    with pytest.raises(ArgumentError, match=r"'weight' .*finite.*learning rate"):
        model(x, edge_index)
    model = make_model(device)
    with torch.no_grad():
        model.input_map.linear[0].weight[0, 0] = INF
    with pytest.raises(ArgumentError, match=r"'bias' .*finite"):
        model(x, edge_index)


def test_a_directed_graph_is_refused_with_sym(device):
    model = make_model(device, normalization="sym")
    with pytest.raises(
        ArgumentError, match=r"'normalization' .*'sym' .*directed.*'dir'.*to_undirected"
    ):
        model(normal(NODES, FEATURES, device=device), graph(True, device)[0])


def test_weights_beyond_a_contraction_are_refused(device):
    model = make_model(device, normalization="none", self_loops=False)
    edge_index, edge_weight = graph(True, device)
    with pytest.raises(NotContractiveError, match=r"below 1 \(got .*lower gamma"):
        model(normal(NODES, FEATURES, device=device), edge_index, 100 * edge_weight)


def test_a_solve_that_runs_out_of_iterations_is_refused(device):
    model = make_model(device, solver="picard", max_iter=2)
    with pytest.raises(
        ConvergenceError,
        match=r"after 2 iterations.*max_iter at None.*loosen tol",
    ):
        model(normal(NODES, FEATURES, device=device), graph(True, device)[0])


def test_weights_and_batches_that_do_not_match_a_propagation_are_refused(device):
    model = make_model(device)
    x, (edge_index, edge_weight) = normal(NODES, FEATURES, device=device), graph(True, device)
    one = Propagation.from_edge_index(edge_index, NODES, edge_weight, "dir")
    with pytest.raises(ArgumentError, match=r"'edge_weight' .*None.*Propagation\.from_edge_index"):
        model(x, one, edge_weight)
    two = torch.tensor([0] * 4 + [1] * 5, device=device)
    with pytest.raises(ArgumentError, match=r"'batch' .*1 graph.*got 2.*from_edge_index"):
        model(x, one, batch=two)


def test_features_that_do_not_match_a_propagation_are_named_x(device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    propagation = Propagation.from_edge_index(edge_index, NODES, edge_weight, "dir")
    with pytest.raises(ArgumentError, match=r"'x' .*9.*got .*8"):  # nobody passed a 'bias'
        model(normal(8, FEATURES, device=device), propagation)


@pytest.mark.parametrize("other", ["short", "another split"])
def test_a_batch_other_than_that_of_the_propagation_is_refused(other, device):
    model = make_model(device)
    x = normal(NODES, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    batch = torch.tensor([0] * 4 + [1] * 5, device=device)
    propagation = Propagation.from_edge_index(none, NODES, batch=batch, dtype=torch.float64)
    changed = batch[:6] if other == "short" else batch.flip(0)
    with pytest.raises(ArgumentError, match="'batch'"):
        model(x, propagation, batch=changed)


def test_tensors_on_another_device_are_refused(device):
    if device.type == "cpu":
        pytest.skip("needs a second device")
    model = make_model(device)
    x, (edge_index, edge_weight) = normal(NODES, FEATURES, device=device), graph(True, device)
    with pytest.raises(ArgumentError, match=r"'edge_index' .*cuda.*got cpu.*to\(device\)"):
        model(x, edge_index.cpu())
    with pytest.raises(ArgumentError, match=r"'edge_weight' .*cuda.*got cpu"):
        model(x, edge_index, edge_weight.cpu())
    with pytest.raises(ArgumentError, match=r"'batch' .*cuda.*got cpu"):
        model(x, edge_index, batch=torch.zeros(NODES, dtype=torch.long))
    propagation = Propagation.from_edge_index(edge_index.cpu(), NODES, normalization="dir")
    with pytest.raises(ArgumentError, match=r"propagation.*cpu.*cuda.*\.to\("):
        model(x, propagation)


def test_refusals_leave_the_model_usable(device):
    model = make_model(device)
    x, (edge_index, _) = normal(NODES, FEATURES, device=device), graph(True, device)
    want = model(x, edge_index)
    with pytest.raises(ArgumentError):
        model(bad(NAN).to(device), edge_index)
    torch.testing.assert_close(model(x, edge_index), want, rtol=0, atol=0)
