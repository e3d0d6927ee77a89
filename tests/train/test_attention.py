import pytest
import torch

from mgnni.train.fit import fit
from train.cases import graph_task, node_task

SHORT = {"epochs": 3, "hidden_channels": 4}


def test_the_sample_is_the_attention_of_the_best_run():
    task = node_task(2)
    fitted = fit(task, split="all", scales=(1, 3), **SHORT)
    sample = fitted.report["attention"]
    found = fitted.predictions(task.graphs)
    assert sample["scales"] == [1, 3]
    assert sample["nodes"] == list(range(40))  # all of them, up to a hundred
    assert torch.tensor(sample["weights"]) == pytest.approx(found.attention, abs=1e-4)
    classes = [fitted.classes[index] for index in found.chosen.int().argmax(1).tolist()]
    assert sample["predicted"] == classes
    assert sum(one["nodes"] for one in sample["means"]) == 40
    for one in sample["means"]:
        assert one["nodes"] == classes.count(one["class"])
        rows = found.attention[torch.tensor([name == one["class"] for name in classes])]
        assert one["weights"] == pytest.approx(rows.mean(0).tolist(), abs=1e-4)
    run = fitted.runs[fitted.best]
    assert (sample["split"], sample["seed"]) == (run.split, run.seed)


@pytest.mark.parametrize("options", [{"scales": (2,)}, {"fusion": "mean"}, {"model": "gcn"}])
def test_without_attention_there_is_no_sample(options):
    assert "attention" not in fit(node_task(1), **SHORT, **options).report


def test_many_graphs_have_no_sample():
    assert "attention" not in fit(graph_task(splits=1), **SHORT).report
