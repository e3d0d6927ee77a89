import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgnni.errors import ArgumentError
from mgnni.train.config import Config, ModelConfig, changed, options_class

CHANGED = Config(
    ModelConfig(hidden_channels=None, scales=(1, 4, 8), input_widths=(32, 16), batch_norm=True),
    undirected=True,
    clip=0.5,
    patience=None,
    schedule="cosine",
)


@pytest.mark.parametrize("config", [Config(), CHANGED], ids=["defaults", "changed"])
def test_a_configuration_comes_back_from_json(config):
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert Config.from_dict(config.to_dict()) == config


def test_what_is_left_out_has_its_default():
    assert Config.from_dict({}) == Config()
    assert Config.from_dict({"model": {"gamma": 0.5}}) == Config(ModelConfig(gamma=0.5))
    assert Config.from_dict({"model": ModelConfig(gamma=0.5)}) == Config(ModelConfig(gamma=0.5))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"epoch": 3}, r"'config' must be one of .*got 'epoch'\); did you mean 'epochs'\?"),
        ({"model": {"gama": 0.1}}, r"'config\.model' .*got 'gama'\); did you mean 'gamma'\?"),
        ({"zzz": 3}, r"got 'zzz'\)$"),
        ({1: 3}, "got 1"),
        ({"epochs": "3"}, r"'config\.epochs' must be of type int \(got '3'\)"),
        ({"epochs": 3.0}, r"'config\.epochs' must be of type int \(got 3\.0\)"),
        ({"epochs": True}, r"'config\.epochs' must be of type int \(got True\)"),
        ({"epochs": None}, r"'config\.epochs' must be of type int \(got None\)"),
        ({"lr": True}, r"'config\.lr' must be of type float \(got True\)"),
        ({"lr": "fast"}, r"'config\.lr' must be of type float"),
        ({"clip": "no"}, r"'config\.clip' must be of type float"),
        ({"shuffle": 1}, r"'config\.shuffle' must be of type bool \(got 1\)"),
        ({"undirected": "yes"}, r"'config\.undirected' must be of type bool"),
        ({"stopping": 1}, r"'config\.stopping' must be of type str"),
        ({"model": {"scales": 3}}, r"'config\.model\.scales' must be a list \(got 3\)"),
        ({"model": {"scales": "12"}}, r"'config\.model\.scales' must be a list"),
        (
            {"model": {"scales": [1, 2.5]}},
            r"'config\.model\.scales' must be of type int \(got 2\.5\)",
        ),
        ({"model": {"scales": None}}, r"'config\.model\.scales' must be a list"),
        ({"model": 3}, r"'config\.model' must be a table of options \(got int\)"),
        ([("epochs", 3)], r"'config' must be a table of options \(got list\)"),
    ],
)
def test_what_it_does_not_know_is_refused(data, message):
    with pytest.raises(ArgumentError, match=message):
        Config.from_dict(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lr", -0.1),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("weight_decay", -1.0),
        ("epochs", 0),
        ("patience", 0),
        ("batch_size", 0),
        ("clip", -1.0),
        ("clip", float("nan")),
    ],
)
def test_numbers_out_of_range_are_refused(field, value):
    with pytest.raises(ArgumentError, match=f"'{field}' must be at least .* and finite"):
        Config(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "near"),
    [
        ("stopping", "metrics", "metric"),
        ("schedule", "cosin", "cosine"),
        ("precision", "16", "bf16"),
    ],
)
def test_words_are_of_a_list(field, value, near):
    with pytest.raises(ArgumentError, match=f"'{field}' must be one of .*did you mean '{near}'"):
        Config(**{field: value})


def test_whole_numbers_are_floats_where_these_are_wanted():
    found = Config.from_dict({"lr": 1, "model": {"gamma": 0}})
    assert (found.lr, found.model.gamma) == (1.0, 0.0)
    assert isinstance(found.lr, float)
    assert isinstance(found.model.gamma, float)


def test_changes_reach_training_and_model():
    found = changed(Config(), {"lr": 1, "gamma": 0.5, "scales": [1, 3], "patience": None})
    assert found == Config(ModelConfig(gamma=0.5, scales=(1, 3)), lr=1.0, patience=None)
    assert changed(CHANGED, {}) == CHANGED
    assert Config() == Config()  # frozen, so the one above is still as it was
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.lr = 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamm": 1}, "unknown option 'gamm' of mgnni; did you mean 'gamma'"),
        ({"model": {"gamma": 0.5}}, "unknown option 'model' of mgnni"),
        ({"lr": "0.1"}, "must be of type float"),
        ({"hidden_channels": 1.5}, "must be of type int"),
        ({"epochs": -1}, "at least 1"),
    ],
)
def test_changes_are_checked(changes, message):
    with pytest.raises(ArgumentError, match=message):
        changed(Config(), changes)


def test_no_name_is_both_of_the_training_and_of_the_model():
    own, inner = ({f.name for f in dataclasses.fields(cls)} for cls in (Config, ModelConfig))
    assert not own & inner


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([f.name for f in dataclasses.fields(Config)]) | st.text()


@given(st.dictionaries(names, json_values, max_size=4))
def test_any_json_is_a_configuration_or_an_error_of_ours(data):
    try:
        found = Config.from_dict(data)
    except ArgumentError:
        return
    assert Config.from_dict(found.to_dict()) == found


def test_a_configuration_can_be_pickled():
    assert pickle.loads(pickle.dumps(CHANGED)) == CHANGED
    other = changed(Config(options_class("gcn")(), "gcn"), {"num_layers": 3, "lr": 0.5})
    assert pickle.loads(pickle.dumps(other)) == other
    assert repr(CHANGED.model).startswith("ModelConfig(hidden_channels=None, scales=(1, 4, 8)")
