"""What the rules train on if a benchmark has folds, and the scores of one training."""

from pathlib import Path

import pytest

import mgnni
from data.raw import expect, write_gin_folds, write_tu
from mgnni.data.rules import RULES, RunHistory, get_rule
from mgnni.errors import ArgumentError
from mgnni.train.source import find_source

SIZES = [3 + graph % 5 for graph in range(43)]
TEST_RULES = [name for name, rule in RULES.items() if rule.needs_test_curve]
SMALL = {"model": "gcn", "hidden_channels": 4, "batch_size": 16, "epochs": 4}


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """43 cycles of two classes; every fold tests 4 of them."""
    write_tu(tmp_path, "MUTAG", SIZES, node_labels=True)
    write_gin_folds(tmp_path / "gin_folds" / "MUTAG", 43, tested=4)
    expect(monkeypatch, "mutag", graphs=43)
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path))


def sizes(rule: str, **options: float) -> set[tuple[int, int, int]]:
    task = find_source("mutag", rule=rule, options=dict(options)).task
    return {(one.train.numel(), one.val.numel(), one.test.numel()) for one in task.splits}


@pytest.mark.parametrize("rule", TEST_RULES)
def test_a_rule_without_validation_trains_on_the_whole_fold(rule):
    assert sizes("validation") == {(35, 4, 4)}
    assert sizes(rule) == {(39, 0, 4)}


@pytest.mark.parametrize("rule", TEST_RULES)
def test_an_option_of_the_user_comes_first(rule):
    assert sizes(rule, val_fraction=0.2) == {(31, 8, 4)}
    assert sizes("validation", val_fraction=0.2) == {(31, 8, 4)}


def test_only_benchmarks_with_folds_train_on_more():
    small = {"num_chains_per_class": 2, "length": 12}
    one, other = (find_source("colors", options=small, rule=rule) for rule in ("validation", "gin"))
    assert one.task.splits[0].val.tolist() == other.task.splits[0].val.tolist() != []
    with pytest.raises(ArgumentError, match="'rule' must be one of"):
        find_source("mutag", rule="gim")


def test_a_report_says_how_many_graphs_were_trained_on():
    for rule, rows in (("gin", (39, 0, 4)), ("validation", (35, 4, 4))):
        report = mgnni.fit("mutag", split=[0, 3], rule=rule, **SMALL).report
        for run in report["runs"]:
            assert tuple(run["rows"].values()) == rows
            assert list(run["rows"]) == ["train", "val", "test"]


def test_one_training_is_scored_by_all_rules_and_selects_as_an_honest_one():
    """Patience ends the selection, though the test curve goes on to the last epoch."""
    chosen = {"split": [0, 1, 2], "lr": 0.1, "patience": 1, **SMALL}
    held = mgnni.fit("mutag", rule="fold-max", options={"val_fraction": 0.1}, **chosen).report
    honest = mgnni.fit("mutag", **chosen).report
    assert min(run["epochs"] for run in honest["runs"]) < 4  # some stop early
    assert set(held["scores"]) == set(RULES)
    assert held["scores"]["validation"] == honest["scores"]["validation"]
    assert honest["scores"].keys() == {"validation"}
    assert [run["val"] for run in held["runs"]] == [run["val"] for run in honest["runs"]]
    histories = [
        RunHistory(run["split"], run["seed"], 1, test_curve=tuple(run["test_curve"]))
        for run in held["runs"]
    ]
    for name in TEST_RULES:
        score, wanted = held["scores"][name], get_rule(name).score(histories)
        assert (score["mean"], score["std"], score["n"]) == (wanted.mean, wanted.std, 3)
        assert score["mark"] == RULES[name].mark != ""
    own = {key: held["scores"]["fold-max"][key] for key in ("mean", "std", "n")}
    assert held["score"] == own
    assert held["protocol"]["mark"] == "†"


def test_without_a_validation_set_no_score_is_by_validation():
    report = mgnni.fit("mutag", split=[0, 1], rule="gin", **SMALL).report
    assert set(report["scores"]) == {"gin", "fold-max", "test-max"}
