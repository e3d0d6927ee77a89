from __future__ import annotations

import dataclasses
import json
import random

import numpy as np
import pytest

from mgnni.data.rules import (
    DEFAULT_RULE,
    RULES,
    Rule,
    RunHistory,
    Score,
    get_rule,
    scores_of,
)
from mgnni.errors import ArgumentError

# Three folds, four epochs. Means over folds: 0.5, 0.6, 0.6, 0.4; a tie, of which epoch 2 is first.
CURVES = ((0.5, 0.6, 0.9, 0.3), (0.4, 0.5, 0.3, 0.5), (0.6, 0.7, 0.6, 0.4))
SELECTED = (3, 1, 4)


def runs_of(curves=CURVES, selected=SELECTED) -> list[RunHistory]:
    return [
        RunHistory(split, 0, epoch, test=curve[epoch - 1], test_curve=tuple(curve))
        for split, (curve, epoch) in enumerate(zip(curves, selected, strict=True))
    ]


@pytest.mark.parametrize(
    ("name", "epochs", "values"),
    [
        ("validation", (3, 1, 4), (0.9, 0.4, 0.4)),
        ("gin", (2, 2, 2), (0.6, 0.5, 0.7)),
        ("fold-max", (3, 2, 2), (0.9, 0.5, 0.7)),  # fold 1 ties at epochs 2 and 4
        ("test-max", (3, 2, 2), (0.9, 0.5, 0.7)),
    ],
)
def test_every_rule_on_curves_made_by_hand(name, epochs, values):
    score = get_rule(name).score(runs_of())
    assert (score.rule, score.n) == (name, 3)
    assert score.epochs == epochs
    assert score.values == values
    assert score.mean == pytest.approx(np.mean(values))
    assert score.std == pytest.approx(np.std(values, ddof=1))


def test_a_common_epoch_ties_whatever_the_rounding():
    # In floats 0.1 + 0.2 > 0.3 + 0.0, though both epochs are as good.
    curves = [(0.3, 0.1), (0.0, 0.2)]
    assert get_rule("gin").score(runs_of(curves, (1, 1))).epochs == (1, 1)


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_order_of_the_runs_does_not_matter(name):
    generator = random.Random(1)
    curves = [[generator.random() for _ in range(6)] for _ in range(7)]
    runs = runs_of(curves, [1 + i % 6 for i in range(7)])
    score = get_rule(name).score(runs)
    turned = get_rule(name).score(runs[::-1])
    assert (turned.mean, turned.std) == (score.mean, score.std)
    assert turned.values == score.values[::-1]
    assert turned.epochs == score.epochs[::-1]


@pytest.mark.parametrize("name", ["gin", "fold-max", "test-max"])
def test_looking_at_the_test_never_hurts_and_pure_noise_gains(name):
    generator = random.Random(2)
    curves = [[generator.gauss(0.5, 0.05) for _ in range(50)] for _ in range(10)]
    runs = runs_of(curves, [50] * 10)
    honest = get_rule("validation").score(runs).mean
    assert get_rule(name).score(runs).mean > honest
    assert get_rule("fold-max").score(runs).mean >= get_rule(name).score(runs).mean


def test_a_common_epoch_sees_differences_of_a_thousandth():
    # Means 0.5, 0.503 and 0.502: with two digits all three would tie, and the first would win.
    runs = runs_of([(0.4, 0.405, 0.404), (0.6, 0.601, 0.6)], (1, 1))
    assert get_rule("gin").score(runs).epochs == (2, 2)


def test_a_single_run_has_no_deviation():
    for rule in RULES.values():
        score = rule.score(runs_of()[:1])
        assert score.std is None
        assert score.n == 1


def test_which_rules_are_honest_and_how_they_are_marked():
    assert [name for name, rule in RULES.items() if rule.honest] == ["validation"] == [DEFAULT_RULE]
    assert {name: rule.mark for name, rule in RULES.items()} == {
        "validation": "",
        "gin": "‡",
        "fold-max": "†",
        "test-max": "†",
    }
    for rule in RULES.values():
        assert rule.honest != rule.needs_test_curve
        assert rule.honest == (not rule.mark)
        assert rule.honest != ("TEST" in rule.description and "optimistic" in rule.description)
        assert "\n" not in rule.description
        assert len(rule.description) < 80
        assert rule.score(runs_of()).mark == rule.mark


def test_the_honest_rule_never_looks_at_the_curve():
    runs = runs_of()
    bare = [dataclasses.replace(run, test_curve=None) for run in runs]
    other = [dataclasses.replace(run, test_curve=(1.0,) * 9) for run in runs]
    rule = get_rule("validation")
    assert rule.score(bare) == rule.score(other) == rule.score(runs)


@pytest.mark.parametrize(
    "name", ["", "Validation", "fold", "max", "fold_max", "test", "best", None]
)
def test_only_the_exact_name_leads_to_a_rule(name):
    with pytest.raises(ArgumentError, match="'rule' must be one of"):
        get_rule(name)


@pytest.mark.parametrize("name", ["gin", "fold-max", "test-max"])
@pytest.mark.parametrize("curve", [None, ()])
def test_a_missing_curve_is_named(name, curve):
    runs = [*runs_of()[:2], RunHistory(2, 5, 1, test=0.5, test_curve=curve)]
    with pytest.raises(ArgumentError, match=r"after every epoch .*split 2 with seed 5"):
        get_rule(name).score(runs)


def test_a_missing_test_value_is_named():
    runs = [*runs_of()[:2], RunHistory(2, 5, 1, test_curve=(0.5,))]
    with pytest.raises(ArgumentError, match=r"selected epoch .*split 2 with seed 5"):
        get_rule("validation").score(runs)


def test_a_common_epoch_needs_curves_of_one_length():
    runs = runs_of([(0.1, 0.2, 0.3), (0.1, 0.2)], (1, 1))
    with pytest.raises(ArgumentError, match=r"from 2 to 3 epochs"):
        get_rule("gin").score(runs)
    assert get_rule("fold-max").score(runs).epochs == (3, 2)


def test_other_refusals():
    for rule in RULES.values():
        with pytest.raises(ArgumentError, match="at least one run"):
            rule.score([])
        with pytest.raises(ArgumentError, match="split 0 with seed 0 twice"):
            rule.score([runs_of()[0], runs_of()[0]])
    with pytest.raises(ArgumentError, match="'selected_epoch' must be at least 1"):
        RunHistory(0, 0, 0)
    for history in ({"test": float("nan")}, {"test_curve": (0.1, float("inf"))}):
        with pytest.raises(ArgumentError, match=r"must be finite .*split 3 with seed 1"):
            RunHistory(3, 1, 1, **history)


def test_a_score_is_plain_data():
    score = get_rule("gin").score(runs_of())
    plain = json.loads(json.dumps(dataclasses.asdict(score)))
    plain["values"], plain["epochs"] = tuple(plain["values"]), tuple(plain["epochs"])
    assert Score(**plain) == score
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.mean = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Rule.__setattr__(get_rule("gin"), "mark", "")


def test_the_same_runs_are_scored_by_every_rule_that_they_can_answer():
    runs = runs_of()
    found = scores_of(runs)
    assert {name: score.values for name, score in found.items()} == {
        "validation": (0.9, 0.4, 0.4),
        "gin": (0.6, 0.5, 0.7),
        "fold-max": (0.9, 0.5, 0.7),
        "test-max": (0.9, 0.5, 0.7),
    }
    assert {name: score.mark for name, score in found.items()} == {
        "validation": "",
        "gin": "‡",
        "fold-max": "†",
        "test-max": "†",
    }
    # Without a validation set the epoch is the last, which no rule reports.
    whole = [dataclasses.replace(run, validated=False) for run in runs]
    assert set(scores_of(whole)) == {"gin", "fold-max", "test-max"}
    short = [*whole[:2], dataclasses.replace(whole[2], test_curve=(0.6, 0.7))]
    assert set(scores_of(short)) == {"fold-max", "test-max"}
    honest = [dataclasses.replace(run, test_curve=None) for run in runs]
    assert set(scores_of(honest)) == {"validation"}
    with pytest.raises(ArgumentError, match="must not repeat a run"):
        scores_of(runs * 2)


def test_an_epoch_that_was_not_validated_is_not_reported_as_such():
    with pytest.raises(ArgumentError, match=r"selected on a validation set .* hold one out"):
        get_rule("validation").score([RunHistory(0, 0, 3, 0.5, validated=False)])
    assert [name for name, rule in RULES.items() if rule.needs_validation] == ["validation"]
