"""The catalog: entries, options, and the common interface of all models."""

import inspect
import subprocess
import sys
import typing
from dataclasses import fields

import pytest
import torch

from mgnni.errors import ArgumentError
from mgnni.models.base import GraphModel
from mgnni.models.catalog import (
    KINDS,
    MODELS,
    NOT_OPTIONS,
    argument_texts,
    find_model,
    make_model,
)
from problems import generator

TABLES = {"heterophilic", "ppi", "graphs", "chains"}
EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 6, 7], [1, 2, 0, 4, 3, 3, 7, 6]])
BATCH = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1])  # with isolated nodes


def built(name, level="auto", **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_model(name, 5, 5, 3, level=level, **options)


@pytest.mark.parametrize("name", MODELS)
def test_entries_are_complete(name):
    entry = MODELS[name]
    assert entry.name == name
    assert entry.kind in KINDS
    assert set(entry.tables) <= TABLES
    assert issubclass(entry.load(), GraphModel)
    for text in (entry.title, entry.equation, entry.paper, entry.differs):
        assert text == text.strip() != ""


def test_unknown_names_raise_with_the_closest_match():
    with pytest.raises(ArgumentError, match=r"got 'gcni'\); did you mean 'gcnii'"):
        find_model("gcni")


@pytest.mark.parametrize("name", MODELS)
def test_options_are_those_of_the_class_with_plain_texts(name):
    """They are read from the source of the class; here they are compared with the class itself."""
    entry = MODELS[name]
    options, cls = entry.options(), entry.load()
    given = inspect.signature(cls).parameters
    assert list(given)[:3] == ["in_channels", "hidden_channels", "out_channels"]
    named = [one.name for one in fields(options)]
    assert named == ["hidden_channels", *(one for one in list(given)[3:] if one not in NOT_OPTIONS)]
    defaults = {one: given[one].default for one in named[1:]}
    assert options() == options(**{**defaults, **dict(entry.defaults), **dict(entry.trained)})
    hints = typing.get_type_hints(cls.__init__)
    for one in fields(options)[1:]:
        wanted = str(hints[one.name]).replace("collections.abc.Sequence[int]", "tuple[int, ...]")
        assert str(one.type) == wanted, one.name
    for one in named:  # as the command line shows them
        text = argument_texts(cls.__doc__)[one]
        text += " none uses the number of features." * (one == "hidden_channels")
        assert f"    {one}: {text}" in options.__doc__.splitlines()
        assert text.endswith(".")
        assert not any(mark in text for mark in ("`", ":obj", ":math", "default", '"'))
    assert entry.options() is options


def test_options_are_known_without_torch():
    code = (
        "import sys\n"
        "from mgnni.models.catalog import MODELS\n"
        "for entry in MODELS.values():\n"
        "    entry.options()\n"
        "sys.exit('imports torch' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_all_models_have_the_same_interface(name, device):
    """Logits per node and per graph, with weights; graphs of a batch are independent."""
    x = torch.rand(9, 5, generator=generator(1)).to(device)
    edges, batch = EDGES.to(device), BATCH.to(device)
    weight = torch.full((EDGES.size(1),), 0.5, device=device)
    by_graph = built(name, "graph").to(device).eval()
    logits = by_graph(x, edges, weight, batch)
    assert logits.shape == (2, 3)
    first = by_graph(x[:6], edges[:, :6], weight[:6], batch[:6])
    torch.testing.assert_close(logits[:1], first, rtol=1e-4, atol=1e-5)
    logits.sum().backward()
    assert all(p.grad is not None for p in by_graph.parameters() if p.requires_grad)
    if name == "dgcnn":  # for whole graphs alone
        return
    model = built(name).to(device).eval()
    rows = model(x, edges)
    assert rows.shape == (9, 3)
    assert rows.isfinite().all()
    pooled = model(x, edges, batch=batch)
    assert pooled.shape == (2, 3)
    first = model(x[:6], edges[:, :6], batch=batch[:6])
    torch.testing.assert_close(pooled[:1], first, rtol=1e-4, atol=1e-5)
    copy = built(name).to(device).eval()
    copy.load_state_dict(model.state_dict())
    torch.testing.assert_close(copy(x, edges), rows, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_built_by_name(name):
    entry = MODELS[name]
    level = "graph" if name == "dgcnn" else "node"
    torch.manual_seed(0)
    made = make_model(name, 5, None, 3, level=level)
    torch.manual_seed(0)
    known = entry.load()(5, 5, 3, level=level, **dict(entry.defaults))
    assert type(made) is entry.load()
    assert made.level == level
    torch.testing.assert_close(made.state_dict(), known.state_dict(), rtol=0, atol=0)


def test_models_are_built_with_options():
    assert make_model("mgnni", 5, 8, 3, scales=(1, 3)).equilibrium.scales == (1, 3)
    widths = [
        p.shape for p in make_model("gcn", 5, 8, 3, num_layers=3).parameters() if p.dim() == 2
    ]
    assert widths == [(8, 5), (8, 8), (3, 8)]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gcni", {}, r"'model' must be .*\(got 'gcni'\); did you mean 'gcnii'"),
        ("gcn", {"layers": 2}, r"'option of gcn' must be .*\(got 'layers'\)"),
        ("gcn", {"num_layer": 2}, r"\(got 'num_layer'\); did you mean 'num_layers'"),
    ],
)
def test_unknown_models_and_options_are_refused(name, options, said):
    with pytest.raises(ArgumentError, match=said):
        make_model(name, 5, 8, 3, **options)
