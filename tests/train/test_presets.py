"""The presets against what the authors' scripts and the paper say."""

import pytest
import torch

from mgnni.data.catalog import ENTRIES
from mgnni.errors import ArgumentError
from mgnni.train.config import Config
from mgnni.train.ensemble import build_model, num_parameters
from mgnni.train.presets import PRESETS, preset_for

WEBKB = ("cornell", "texas", "wisconsin", "cornell-fixed")
WIKIPEDIA = ("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered")
PPI = ("ppi", "ppi-recon")
GRAPHS = ("mutag", "ptc", "ptc-mr", "proteins", "nci1", "imdb-binary", "imdb-multi")
PAPER = (*WEBKB, *WIKIPEDIA, *PPI, *GRAPHS, "chains", "colors")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", PAPER)
def test_every_dataset_of_the_paper_has_a_model(name, preset):
    entry = ENTRIES[name]
    chosen = preset_for(name, entry.level, preset)
    assert chosen != preset_for("anything", entry.level, preset)
    count = num_parameters(chosen, entry.counts.features, entry.counts.classes, entry.level)
    assert count > 0


def values(chosen: Config, names: str) -> tuple:
    return tuple(getattr(chosen, name) for name in names.split())


@pytest.mark.parametrize("name", WEBKB)
def test_webkb_of_the_authors(name):
    chosen = preset_for(name, "node", "authors")
    assert values(chosen, "lr weight_decay epochs patience stopping undirected clip schedule") == (
        0.5,
        5e-6,
        10_000,
        500,
        "authors",
        True,
        None,
        "constant",
    )
    assert values(chosen.model, "input_map hidden_channels scales gamma dropout batch_norm") == (
        "identity",
        None,
        (1, 2),
        0.8,
        0.5,
        False,
    )
    assert values(chosen.model, "head normalization self_loops attention_channels tol") == (
        "linear",
        "sym",
        True,
        16,
        1e-6,
    )
    # Two factors of 1703 x 1703, an attention of 16, a decoder without bias.
    wanted = 2 * 1703**2 + (1703 * 16 + 16 + 16) + 1703 * 5
    assert num_parameters(chosen, 1703, 5, "node") == wanted


@pytest.mark.parametrize("name", WIKIPEDIA)
def test_wikipedia_of_the_authors(name):
    chosen = preset_for(name, "node", "authors")
    assert values(chosen, "lr weight_decay epochs patience stopping undirected") == (
        0.01,
        5e-4,
        10_000,
        500,
        "authors",
        None,
    )
    assert values(chosen.model, "input_map hidden_channels scales gamma dropout batch_norm") == (
        "mlp",
        64,
        (1, 2),
        0.8,
        0.5,
        True,
    )
    assert values(chosen.model, "head normalization self_loops flow") == (
        "linear",
        "out",
        False,
        "target_to_source",
    )
    model = build_model(chosen, 20, 5, "node")
    widths = [(linear.in_features, linear.out_features) for linear in model.input_map.linear]
    assert widths == [(20, 64), (64, 64)]
    assert not model.input_map.activate_last


@pytest.mark.parametrize("name", PPI)
def test_ppi_of_the_authors(name):
    chosen = preset_for(name, "node", "authors")
    assert values(chosen, "lr weight_decay epochs patience batch_size shuffle schedule") == (
        0.01,
        0.0,
        5000,
        None,
        2,
        True,
        "constant",
    )
    assert values(chosen.model, "input_map hidden_channels scales gamma dropout") == (
        "identity",
        None,
        (1, 2),
        0.8,
        0.1,
    )
    assert values(chosen.model, "head head_channels head_layers normalization") == (
        "residual",
        2048,
        4,
        "sym",
    )
    count = num_parameters(chosen, 50, 121, "node")
    assert round(count / 1e6, 2) == 17.27  # measured on their code


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_the_authors(name):
    chosen = preset_for(name, "graph", "authors")
    assert values(chosen, "lr weight_decay epochs patience batch_size shuffle schedule") == (
        0.01,
        0.0,
        500,
        None,
        128,
        False,
        "constant",
    )
    assert values(chosen.model, "input_map input_widths hidden_channels scales gamma dropout") == (
        "mlp",
        (64, 32),
        32,
        (1, 2),
        0.8,
        0.0,
    )
    assert values(chosen.model, "head head_layers normalization") == ("graph", 3, "sym")
    model = build_model(chosen, 7, 2, "graph")
    widths = [(linear.in_features, linear.out_features) for linear in model.input_map.linear]
    assert widths == [(7, 64), (64, 32), (32, 32)]
    assert (len(model.head.node), len(model.head.graph)) == (3, 3)


@pytest.mark.parametrize("name", WEBKB)
def test_webkb_of_the_paper(name):
    chosen = preset_for(name)
    assert chosen.model.input_map == "mlp-relu"  # two layers, followed by a ReLU
    assert len(build_model(chosen, 20, 5, "node").input_map.linear) == 2
    assert chosen.undirected
    assert chosen.model.scales in ((1, 2), (1, 2, 3))  # those it reports on
    if name == "texas":
        assert chosen.model.scales == (1, 2, 3)  # by its table of scales


def test_other_data_have_a_sensible_configuration():
    assert preset_for("my data") == Config()
    graph = preset_for("my data", "graph")
    assert graph.model.head == "graph"
    rows = build_model(graph, 4, 3, "graph")(
        torch.randn(5, 4), torch.tensor([[0], [1]]), None, torch.tensor([0, 0, 0, 1, 1])
    )
    assert rows.shape == (2, 3)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ArgumentError, match=r"'preset' must be one of .*did you mean 'authors'"):
        preset_for("cornell", "node", "author")
