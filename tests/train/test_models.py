"""Every model is trained by the one loop, and takes its own options only."""

import pytest
import torch

from mgnni import fit
from mgnni.errors import ArgumentError, DivergenceError
from mgnni.models.catalog import MODELS
from mgnni.train.config import Config, changed
from mgnni.train.device import make_fabric
from mgnni.train.fitted import Fitted
from mgnni.train.presets import preset_for
from mgnni.train.runs import Run
from mgnni.train.training import learner_for
from train.cases import graph_task, node_task

OTHERS = [name for name in MODELS if name != "mgnni"]
QUICK = {"epochs": 3, "patience": None}


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
    assert fitted.predictions(task.graphs).attention is None
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
    with pytest.raises(ArgumentError, match="unknown option 'scales' of gcn"):
        changed(preset_for("anything", model="gcn"), {"scales": (1, 2)})
    with pytest.raises(ArgumentError, match="unknown option 'architecture' of gcn"):
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
