"""The files of presets, and MGNNI's against the scripts of its authors and its paper."""

from collections.abc import Iterator
from dataclasses import fields
from importlib import resources
from typing import Any

import pytest
import torch

from mgnni.data.catalog import ENTRIES
from mgnni.errors import ArgumentError
from mgnni.models.catalog import MODELS
from mgnni.models.mgnni_presets import PRESETS as MODEL_PRESETS
from mgnni.train.config import Config, changed, options_class
from mgnni.train.ensemble import build_model
from mgnni.train.presets import (
    BASES,
    KINDS,
    preset_blocks,
    preset_file,
    preset_for,
    space_for,
)
from train.cases import num_parameters

WEBKB = ("cornell", "texas", "wisconsin", "cornell-fixed")
WIKIPEDIA = ("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered")
PPI = ("ppi", "ppi-recon")
GRAPHS = ("mutag", "ptc", "ptc-mr", "proteins", "nci1", "imdb-binary", "imdb-multi")
PAPER = (*WEBKB, *WIKIPEDIA, *PPI, *GRAPHS, "chains", "colors")


@pytest.mark.parametrize("preset", BASES)
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


def test_other_data_have_a_sensible_configuration():
    assert preset_for("my data") == Config()
    graph = preset_for("my data", "graph")
    assert graph.model.head == "graph"
    rows = build_model(graph, 4, 3, "graph")(
        torch.randn(5, 4), torch.tensor([[0], [1]]), None, torch.tensor([0, 0, 0, 1, 1])
    )
    assert rows.shape == (2, 3)


TABLE = [name for name, entry in MODELS.items() if "graphs" in entry.tables]


@pytest.mark.parametrize("model", TABLE)
def test_graph_models_of_the_table_select_by_the_loss_of_their_small_validation_sets(model):
    for name in GRAPHS:
        for preset in BASES:
            chosen = preset_for(name, "graph", preset, model)
            assert (chosen.stopping, chosen.patience) == ("loss", None)


@pytest.mark.parametrize("model", ["gin", "gcn"])
@pytest.mark.parametrize("name", GRAPHS)
def test_gin_and_its_gcn_have_the_updates_of_gins_script(name, model):
    chosen = preset_for(name, "graph", model=model)
    assert chosen.epochs * chosen.batches_per_epoch == 17_500
    options = "lr weight_decay batch_size schedule lr_period lr_decay shuffle"
    assert values(chosen, options) == (0.01, 0.0, 32, "step", 50, 0.5, True)
    count = (chosen.model.num_layers, build_model(chosen, 7, 2, "graph").readout.linear)
    assert (count[0], len(count[1])) == ((5 if model == "gin" else 4), 5)
    assert preset_for("anything", "graph", model=model).batches_per_epoch is None


def test_dgcnn_trains_on_single_graphs_or_at_a_rate_scaled_by_the_root_of_the_batch():
    rates = {"mutag": 1e-4, "ptc": 1e-4, "nci1": 1e-4, "proteins": 1e-5, "imdb-multi": 1e-4}
    for name, rate in rates.items():
        chosen = preset_for(name, "graph", model="dgcnn")
        assert chosen.batch_size == (1 if name in ("mutag", "ptc") else 50)
        assert chosen.lr == pytest.approx(rate * chosen.batch_size**0.5, rel=0.02)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ArgumentError, match=r"'preset' must be one of .*did you mean 'authors'"):
        preset_for("cornell", "node", "author")


SHARED = preset_file("shared")
OTHER = ("other nodes", "own nodes", "other graphs")
NAMES = {*ENTRIES, *SHARED["groups"], *KINDS, *OTHER}


def blocks_of(name: str) -> Iterator[dict[str, Any]]:
    """All blocks in a file, wherever they stand."""
    file = preset_file(name)
    lists = [entry["settings"] for entry in file.get("presets", [])]
    lists += [file.get("search", []), file.get("search graphs", [])]
    lists += file.get("blocks", {}).values()
    return (block for blocks in lists for block in blocks if not isinstance(block, str))


def test_every_model_has_a_file_and_no_file_is_without_a_model():
    folder = resources.files("mgnni.train") / "preset_files"
    assert {file.name for file in folder.iterdir() if file.name != "tuned"} == {
        f"{name}.json" for name in (*MODELS, "shared")
    }


@pytest.mark.parametrize("name", [*MODELS, "shared"])
def test_every_value_has_a_source_and_a_note(name):
    assert list(blocks_of(name))
    for block in blocks_of(name):
        assert set(block) <= {"source", "note", "differs", "values", "from_preset"}, block
        assert block["source"] in SHARED["sources"], block
        assert isinstance(block["note"], str)
        assert block["note"]
        assert block.get("differs", "some")
        assert ("values" in block) != ("from_preset" in block), block
        assert block.get("from_preset", "ppi") in MODEL_PRESETS


@pytest.mark.parametrize("name", MODELS)
def test_a_file_names_only_known_datasets_options_and_blocks(name):
    file, options = preset_file(name), {one.name for one in fields(options_class(name))}
    assert set(file) <= {"presets", "search", "search graphs", "blocks"}
    known = (options | {one.name for one in fields(Config)}) - {"model", "architecture"}
    for block in blocks_of(name):
        assert set(block.get("values", ())) <= known, block
    named = {*SHARED["blocks"], *file.get("blocks", {})}
    assert len(named) == len(SHARED["blocks"]) + len(file.get("blocks", {}))
    used = [one for one in file["search"] if isinstance(one, str)]
    seen = []
    for entry in file["presets"]:
        assert set(entry) <= {"datasets", "preset", "settings"}
        assert set(entry["datasets"]) <= NAMES
        assert entry.get("preset", "paper") in BASES
        which = [entry["preset"]] if "preset" in entry else BASES
        seen += [(dataset, preset) for dataset in entry["datasets"] for preset in which]
        used += [one for one in entry["settings"] if isinstance(one, str)]
    assert len(set(seen)) == len(seen), "two presets for one dataset"
    assert set(used) <= named
    assert set(file.get("blocks", {})) <= set(used)


def test_groups_are_of_benchmarks_and_every_shared_block_is_used():
    used = {
        one
        for name in MODELS
        for blocks in (
            *(e["settings"] for e in preset_file(name)["presets"]),
            preset_file(name)["search"],
        )
        for one in blocks
        if isinstance(one, str)
    }
    assert set(SHARED["blocks"]) - {"default"} <= used
    for members in (*SHARED["groups"].values(), *KINDS.values()):
        assert set(members) <= set(ENTRIES)
    heterophilic = {*SHARED["groups"]["webkb"], *SHARED["groups"]["wikipedia"]}
    assert heterophilic == set(KINDS["heterophilic"])


def test_the_most_specific_preset_applies_and_later_blocks_override_earlier_ones():
    gin = {name: preset_for(name, "graph", model="gin").model for name in ("mutag", "imdb-multi")}
    assert (gin["mutag"].hidden_channels, gin["mutag"].pooling) == (32, "sum")
    assert (gin["imdb-multi"].hidden_channels, gin["imdb-multi"].pooling) == (64, "mean")
    sgc = preset_for("squirrel", model="sgc")
    assert (sgc.lr, sgc.weight_decay) == (0.2, 0.0)  # 0.05, 5e-6 in an earlier block
    assert preset_blocks("cora", "node", "paper", "h2gcn") == ["default"]
    assert preset_for("cora", model="h2gcn") == changed(
        Config(options_class("h2gcn")(), "h2gcn"), {"epochs": 500, "patience": 100}
    )


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mgnni"])
def test_settings_are_of_a_model_that_can_be_built(name):
    for kind, datasets in KINDS.items():
        if name == "dgcnn" and kind != "graphs":  # it classifies whole graphs alone
            continue
        for dataset in datasets:
            entry = ENTRIES[dataset]
            config = preset_for(dataset, entry.level, model=name)
            assert config.architecture == name
            sizes = (entry.counts.features, entry.counts.classes)
            assert num_parameters(config, *sizes, entry.level) > 0
            assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("name", MODELS)
def test_searched_values_are_valid(name):
    for level in ("node", "graph"):
        space = space_for(name, level)
        assert space
        for option, values in space.items():
            assert values
            for value in values:
                changed(preset_for("anything", model=name), {option: value})


def test_search_spaces_are_those_of_the_paper():
    scales = ((1, 2), (1, 3))
    assert space_for("mgnni") == {
        "scales": (*scales, (1, 2, 3)),
        "lr": (0.01, 0.05, 0.1, 0.5),
        "weight_decay": (5e-6, 5e-4),
    }
    graphs = {"lr": (0.001, 0.01), "weight_decay": (0.0, 5e-6)}
    assert space_for("mgnni", "graph") == {"scales": scales, **graphs}
    assert space_for("eignn", "graph") == {"gamma": (0.8,), **graphs}
    cgs = space_for("cgs")
    assert (cgs["lr"], cgs["weight_decay"], cgs["gamma"]) == (
        (0.001, 0.005, 0.01, 0.05),
        (5e-6, 5e-4),
        (0.5, 0.8),
    )


@pytest.mark.parametrize("name", MODELS)
def test_datasets_in_the_tables_of_the_paper_have_a_preset_of_their_own(name):
    for kind in MODELS[name].tables:
        for dataset in KINDS[kind]:
            assert preset_blocks(dataset, "node", "paper", name) != ["default"], (name, dataset)
