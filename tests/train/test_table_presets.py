"""Presets against their sources: MGNNI's paper, and the rows of its heterophilic table."""

import json
from importlib import resources

import pytest
import torch

from mgnni.models.catalog import MODELS
from mgnni.train.config import changed
from mgnni.train.ensemble import build_model
from mgnni.train.presets import BASES, KINDS, preset_file, preset_for, space_for

WEBKB = preset_file("shared")["groups"]["webkb"]
WIKIPEDIA = preset_file("shared")["groups"]["wikipedia"]


def values(chosen, names: str) -> tuple:
    return tuple(getattr(chosen, name) for name in names.split())


@pytest.mark.parametrize("name", WEBKB)
def test_webkb_of_the_paper(name):
    chosen = preset_for(name)
    assert chosen.model.input_map == "mlp-relu"  # two layers, followed by a ReLU
    assert len(build_model(chosen, 20, 5, "node").input_map.linear) == 2
    assert chosen.undirected
    # Chosen on the validation set.
    assert chosen.model.scales == ((1, 2, 3) if name == "wisconsin" else (1, 2))
    assert (chosen.lr, chosen.weight_decay) == (0.01, 5e-4)


@pytest.mark.parametrize("name", [*WEBKB, *WIKIPEDIA])
def test_values_of_mgnni_are_those_of_the_stored_search(name):
    file = resources.files("mgnni.train") / "preset_files" / "tuned" / f"mgnni-{name}.json"
    if not file.is_file():
        pytest.skip(f"no search on {name} is stored")
    chosen, config = json.loads(file.read_text("utf-8"))["chosen"], preset_for(name)
    assert config == changed(config, chosen)


@pytest.mark.parametrize("name", KINDS["graphs"])
def test_graphs_of_the_paper(name):
    """Three layers and a ReLU, 32 channels, a sum, and a linear map without bias."""
    chosen = preset_for(name, "graph")
    assert values(chosen, "lr weight_decay epochs patience") == (0.01, 0.0, 500, None)
    model = build_model(chosen, 7, 2, "graph")
    assert len(model.input_map.linear) == 3
    assert model.input_map.activate_last
    head = sum(parameter.numel() for parameter in model.head.parameters())
    assert head == 32 * 2


@pytest.mark.parametrize("name", KINDS["ppi"])
def test_ppi_of_the_paper(name):
    """An MLP of four layers after the equilibria; no dropout, learning rate .001."""
    chosen = preset_for(name)
    assert values(chosen, "lr weight_decay batch_size") == (0.001, 0.0, 2)
    assert chosen.model.dropout == 0
    model = build_model(chosen, 50, 121, "node")
    maps = [m for m in model.head.modules() if isinstance(m, torch.nn.Linear)]
    assert [(m.in_features, m.out_features) for m in maps] == [
        (50, 2048),
        (2048, 2048),
        (2048, 2048),
        (2048, 121),
    ]
    assert not any("Norm" in type(m).__name__ for m in model.modules())


ON_NODES = [name for name in MODELS if name != "dgcnn"]  # it classifies whole graphs alone
TRAINING = "epochs patience stopping schedule clip precision"


@pytest.mark.parametrize("preset", BASES)
@pytest.mark.parametrize("name", ON_NODES)
def test_all_models_have_one_budget_and_one_rule_on_heterophilic_graphs(name, preset):
    for dataset in KINDS["heterophilic"]:
        config = preset_for(dataset, "node", preset, name)
        assert values(config, TRAINING) == (10_000, 500, "authors", "constant", None, "32")


@pytest.mark.parametrize("name", ON_NODES)
def test_webkb_is_undirected_for_all_models(name):
    for dataset in WEBKB:
        assert preset_for(dataset, model=name).undirected is True


def test_on_wikipedia_only_models_whose_source_does_so_make_the_graph_undirected():
    undirected = {name for name in ON_NODES if preset_for("squirrel", model=name).undirected}
    assert undirected == {"h2gcn", "geom-gcn", "mignn"}


def test_baselines_have_the_weight_decay_of_the_scripts_of_geom_gcn():
    for name, datasets, decay in (
        ("graphsage", WEBKB, 5e-5),
        ("graphsage", WIKIPEDIA, 5e-6),
        ("sgc", WEBKB, 5e-5),
        ("gcn", WIKIPEDIA, 5e-6),
        ("geom-gcn", WEBKB, 5e-5),
        ("geom-gcn", WIKIPEDIA, 5e-6),
        ("gat", WIKIPEDIA, 5e-6),
    ):
        for dataset in datasets:
            assert preset_for(dataset, model=name).weight_decay == decay


def test_ignn_is_that_of_the_table():
    """One equilibrium 16 wide, unit rows, D_out^-1/2 (A + I) D_out^-1/2 along the edges."""
    for dataset in KINDS["heterophilic"]:
        model = preset_for(dataset, model="ignn").model
        assert values(model, "hidden_channels num_layers unit_rows kappa dropout") == (
            16,
            1,
            True,
            0.9,
            0.5,
        )
        assert values(model, "normalization self_loops flow") == ("out", True, "source_to_target")


@pytest.mark.parametrize("name", WIKIPEDIA)
def test_eignn_has_a_normalised_head_on_wikipedia(name):
    chosen = preset_for(name, model="eignn")
    assert values(chosen, "lr weight_decay undirected") == (0.01, 5e-4, None)
    assert values(chosen.model, "batch_norm dropout gamma variant") == (True, 0.5, 0.8, "iterative")
    graph = values(chosen.model, "normalization self_loops flow")
    assert graph == ("out", True, "target_to_source")


def test_hyperparameters_chosen_on_validation_sets_are_from_their_search_spaces():
    for name, options in (("cgs", "lr weight_decay gamma"), ("h2gcn", "num_layers weight_decay")):
        space = space_for(name)
        for dataset in KINDS["heterophilic"]:
            config = preset_for(dataset, model=name)
            for option in options.split():
                value = getattr(config, option, None) or getattr(config.model, option)
                assert value in space[option], (name, dataset, option)
    assert preset_for("chameleon", model="cgs").lr == 0.001
    rounds = [preset_for(data, model="h2gcn").model.num_layers for data in ("texas", "chameleon")]
    assert rounds == [1, 2]
