"""The settings of all models: complete, understood, and trained by the one loop."""

from dataclasses import fields

import pytest
import torch
from mgnni.train.baselines import tables
from mgnni.train.spaces import space_for

from mgnni import fit
from mgnni.data.catalog import ENTRIES
from mgnni.errors import ArgumentError, DivergenceError
from mgnni.models.catalog import MODELS
from mgnni.train.config import Config, changed, options_class
from mgnni.train.device import make_fabric
from mgnni.train.ensemble import num_parameters
from mgnni.train.fitted import Fitted
from mgnni.train.learner import learner_for
from mgnni.train.presets import KINDS, preset_for
from mgnni.train.runs import Run
from train.cases import graph_task, node_task

OTHERS = [name for name in MODELS if name != "mgnni"]
QUICK = {"epochs": 3, "patience": None}


def test_every_model_has_settings_and_a_search_space():
    assert set(tables.PRESETS) == set(tables.SPACES) == set(OTHERS)
    for name, entry in MODELS.items():
        if name != "mgnni":
            assert set(entry.tables) <= set(tables.PRESETS[name]) | set(KINDS), name


@pytest.mark.parametrize("name", OTHERS)
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
def test_what_is_searched_are_options(name):
    known = {one.name for one in (*fields(Config), *fields(options_class(name)))}
    space = space_for(name)
    assert space
    assert set(space) <= known
    for option, values in space.items():
        for value in values:
            changed(preset_for("anything", model=name), {option: value})


@pytest.mark.parametrize("name", MODELS)
def test_a_kind_in_the_tables_of_the_paper_has_settings_of_its_own(name):
    for kind in MODELS[name].tables:
        for dataset in KINDS[kind]:
            if name != "mgnni":
                own = tables.PRESETS[name]
                assert kind in own or dataset in own, (name, dataset)


@pytest.mark.parametrize("name", [name for name in OTHERS if name != "dgcnn"])
def test_training_on_nodes(name, tmp_path):
    """The same runs together and alone, kept, read again, and predicted with."""
    task = node_task(2)
    # In double precision, as Adam makes steps of the rounding of a gradient that is zero: that of
    # a bias before a BatchNorm.
    config = changed(preset_for("anything", model=name), {**QUICK, "precision": "64"})
    if config.model.hidden_channels is not None:
        config = changed(config, {"hidden_channels": 6})
    fitted = fit(task, config=config, split="all", device="cpu", output=tmp_path / "run")
    assert fitted.report["model"] == name
    assert len(fitted.report["runs"]) == 2
    alone = fit(task, config=config, split=1, device="cpu")
    for key, value in alone.weights[0].items():
        torch.testing.assert_close(fitted.weights[1][key], value, rtol=1e-3, atol=1e-4)
    loaded = Fitted.load(tmp_path / "run")
    torch.testing.assert_close(loaded.predict_proba(task.graphs[0]), fitted.predict_proba())
    assert fitted.explain(task.graphs).attention is None
    moved = any(
        not torch.equal(a, b)
        for a, b in zip(fitted.weights[0].values(), fitted.weights[1].values(), strict=True)
    )
    assert moved


@pytest.mark.parametrize("name", OTHERS)
def test_training_on_graphs(name):
    task = graph_task()
    config = changed(preset_for("anything", "graph", model=name), {**QUICK, "batch_size": 4})
    fitted = fit(task, config=config, device="cpu")
    assert fitted.predict_proba().shape == (len(task.graphs), len(task.classes))


def test_a_configuration_and_a_model_must_agree():
    config = preset_for("anything", model="gcn")
    with pytest.raises(ArgumentError, match="'model' must be that of the config, 'gcn'"):
        fit(node_task(1), config=config, model="gat")
    with pytest.raises(ArgumentError, match="'model' must hold the options of gat, a GATConfig"):
        Config(config.model, "gat")


def test_options_of_another_model_are_refused():
    with pytest.raises(ArgumentError, match="got 'scales'"):
        changed(preset_for("anything", model="gcn"), {"scales": (1, 2)})
    with pytest.raises(ArgumentError, match="got 'architecture'"):
        changed(preset_for("anything", model="gcn"), {"architecture": "gat"})


def test_parameters_that_are_single_numbers_are_clipped_and_looked_at():
    """As the one of MIGNN is."""
    config = changed(preset_for("anything", model="mignn"), {**QUICK, "clip": 1e-3})
    task = node_task(2)
    fitted = fit(task, config=config, split="all", device="cpu")
    assert any(value.dim() == 0 for value in fitted.weights[0].values())
    learner = learner_for(task)(task, config, [Run(0, 0), Run(1, 0)], make_fabric("cpu", "32"))
    learner.check_finite(1)
    learner.ensemble.stacks[0].data[1] = torch.inf
    with pytest.raises(DivergenceError, match="weights of split 1, seed 0 overflowed in epoch 1"):
        learner.check_finite(1)
