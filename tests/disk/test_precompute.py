"""Stored graphs and terms: the same equilibria, the same files after an interruption."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mgnni import Propagation
from mgnni.disk import precompute as module
from mgnni.disk.generate import generate_graph
from mgnni.disk.precompute import precompute
from mgnni.disk.stored_graph import StoredGraph, store_graph
from mgnni.disk.sweep import Sweep
from mgnni.errors import ArgumentError, DataError
from mgnni.graph import synthetic
from mgnni.models.precomputed import PrecomputedMGNNI
from problems import generator

NODES, FEATURES = 40, 5


def graph_of(folder, directed):
    """A stored random graph and its operator in float64."""
    ends = torch.randint(NODES, (2, 120), generator=generator(0))
    edges = ends if directed else torch.cat([ends, ends.flip(0)], 1)
    operator = Propagation.from_edge_index(edges, NODES, dtype=torch.float32)
    assert operator.symmetric != directed
    x = torch.randn(NODES, FEATURES, generator=generator(1))
    return store_graph(folder, operator, x), operator.double(), x.double()


def dense_terms(matrix, x, index, chebyshev):
    """All terms by dense products."""
    found = {0: x, 1: matrix @ x}
    for k in range(2, max(index) + 1):
        found[k] = 2 * matrix @ found[k - 1] - found[k - 2] if chebyshev else matrix @ found[k - 1]
    return torch.stack([found[k] for k in index], 1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("scales", "budget"), [((1, 2), 2.0), ((2, 4), 2.0), ((1, 3), 3 * 4 * NODES / 2**30)]
)
def test_stored_terms_are_those_of_dense_products(directed, scales, budget, tmp_path, monkeypatch):
    monkeypatch.setattr("mgnni.disk.stored_graph.ENTRIES", 30)  # many blocks of rows
    graph, operator, x = graph_of(tmp_path / "graph", directed)
    sweep = Sweep.open(
        precompute(graph, tmp_path / "terms", scales=scales, tol=1e-6, budget=budget)
    )
    got = sweep.rows(np.arange(NODES))
    wide = torch.cat([x, torch.ones(NODES, 1).double()], 1)
    want = dense_terms(operator.to_dense(), wide, sweep.terms.index, not directed)
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)
    for place, bound in enumerate(sweep.terms.errors()):
        error = (got[:, place].double() - want[:, place]).norm().item()
        assert error <= bound + 1e-12
        assert bound <= 1e-3 * want.norm().item()
    torch.testing.assert_close(sweep.gram, wide.mT @ wide, rtol=1e-6, atol=1e-6)


def model_of(sweep, input_map="affine", **options):
    torch.manual_seed(0)
    hidden = FEATURES if input_map == "identity" else 7
    model = PrecomputedMGNNI(
        FEATURES, hidden, 3, sweep.terms, constant=True, input_map=input_map, **options
    )
    return model.double()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("input_map", "options"),
    [
        ("affine", {}),
        ("identity", {"contraction": "spectral"}),
        ("affine", {"learn_gamma": True, "skip": True, "fusion": "concat", "head": "mlp"}),
    ],
)
def test_the_model_is_the_ordinary_one(directed, input_map, options, tmp_path):
    graph, operator, x = graph_of(tmp_path / "graph", directed)
    precompute(graph, tmp_path / "terms", scales=(1, 3), gamma=0.9, tol=1e-9)
    sweep = Sweep.open(tmp_path / "terms")
    model = model_of(sweep, input_map, tol=1e-12, dropout=0.0, **options)
    wide = torch.cat([x, torch.ones(NODES, 1).double()], 1)
    # Exact terms, because the stored ones are float32; the test above compares these.
    terms = dense_terms(operator.to_dense(), wide, sweep.terms.index, not directed)
    nodes = torch.tensor([3, 8, 9, 31])
    logits = {"rows": model(terms[nodes]), "graph": model.model(x, operator)[nodes]}
    grads = {}
    for name, one in logits.items():
        parameters = list(model.parameters())
        grads[name] = torch.autograd.grad(one.cos().sum(), parameters, materialize_grads=True)
    torch.testing.assert_close(logits["rows"], logits["graph"], rtol=1e-6, atol=1e-8)
    for got, want in zip(grads["rows"], grads["graph"], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("storage", "contraction", "tol"),
    [
        ("float32", "frobenius", 2e-4),
        ("float16", "frobenius", 3e-2),
        ("float16", "identity", 3e-2),
        ("float32", "identity", 2e-2),
    ],
)
@pytest.mark.parametrize("directed", [False, True])
def test_the_certificate_bounds_the_error(storage, directed, contraction, tol, tmp_path):
    graph, operator, x = graph_of(tmp_path / "graph", directed)
    precompute(graph, tmp_path / "terms", storage=storage, tol=tol, gamma=0.9)
    sweep = Sweep.open(tmp_path / "terms")
    # With the identity, what was left out is the largest part of the error.
    model = model_of(sweep, tol=1e-12, contraction=contraction)
    with torch.no_grad():
        z = model.states(sweep.rows(np.arange(NODES)).double())
        bias = model.model.input_map(x)
        exact = model.model.equilibrium(bias, operator)
    for index, stats in enumerate(model.certify(sweep.gram).forward):
        error = (z[index] - exact[index]).norm().item()
        assert stats.converged
        assert 0 < error <= stats.error_bound <= 2 * tol * bias.norm().item() / 0.1


def test_fewer_terms_fail_the_certificate(tmp_path):
    graph, *_ = graph_of(tmp_path / "graph", False)
    precompute(graph, tmp_path / "terms", tol=1e-2, gamma=0.9)
    sweep = Sweep.open(tmp_path / "terms")
    strict = type(sweep.terms)(**{**vars(sweep.terms), "tol": 1e-9})
    model = PrecomputedMGNNI(FEATURES, 7, 3, strict)
    assert not model.certify(sweep.gram).forward[0].converged


INTERRUPTED = """
import sys
from pathlib import Path
from mgnni.disk import precompute as module
from mgnni.disk.precompute import precompute
from mgnni.disk.stored_graph import StoredGraph
import mgnni.disk.stored_graph as stored
import os, signal
stored.ENTRIES = 30
module.SAVE_EVERY = 0.0
left = int(sys.argv[3])

def count(k, last, part):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

graph = StoredGraph.open(Path(sys.argv[1]))
precompute(graph, Path(sys.argv[2]), storage=sys.argv[4], tol=1e-3, on_term=count)
"""


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_an_interrupted_computation_gives_the_same_files(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("mgnni.disk.stored_graph.ENTRIES", 30)
    graph, *_ = graph_of(tmp_path / "graph", True)
    whole = precompute(graph, tmp_path / "whole", storage=storage, tol=1e-3)
    for stop in (1, 9, 40, 10**6):
        run = subprocess.run(
            [
                sys.executable,
                "-c",
                INTERRUPTED,
                graph.folder,
                tmp_path / "parts",
                str(stop),
                storage,
            ],
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])},
        )
        killed = stop < 10**6
        assert run.returncode == (-signal.SIGKILL if killed else 0)
        if killed:
            with pytest.raises(DataError, match="interrupted computation"):
                Sweep.open(tmp_path / "parts")
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "parts").iterdir())
    for name in names:
        assert (whole / name).read_bytes() == (tmp_path / "parts" / name).read_bytes(), name


def test_other_options_do_not_continue_a_computation(tmp_path, monkeypatch):
    graph, *_ = graph_of(tmp_path / "graph", False)
    monkeypatch.setattr(module, "SAVE_EVERY", 0.0)

    def stop(k, last, part):
        if k == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        precompute(graph, tmp_path / "terms", on_term=stop)
    with pytest.raises(ArgumentError, match="begun with"):
        precompute(graph, tmp_path / "terms", gamma=0.5)
    precompute(graph, tmp_path / "terms")
    with pytest.raises(ArgumentError, match="same graph and options"):
        precompute(graph, tmp_path / "terms", gamma=0.5)


def test_a_generated_graph_is_symmetric_normalised_and_the_same_in_blocks(tmp_path, monkeypatch):
    whole = generate_graph(tmp_path / "whole", 50, 200, features=3, classes=2, seed=4)
    monkeypatch.setattr(synthetic, "ENTRIES", 40)
    parts = generate_graph(tmp_path / "parts", 50, 200, features=3, classes=2, seed=4)
    for path in sorted(whole.folder.iterdir()):
        assert path.read_bytes() == (parts.folder / path.name).read_bytes(), path.name
    matrix, lengths = StoredGraph.open(parts.folder).block(0, 50)
    dense = matrix.to_dense().double()
    assert torch.equal(dense, dense.mT)
    assert (dense.diagonal() > 0).all()
    assert 200 < parts.nnz <= 250 == 50 + 200
    root = lengths.double().sqrt()
    torch.testing.assert_close(dense @ root, root, rtol=1e-6, atol=1e-6)  # the eigenvalue one
    operator = synthetic.random_propagation(50, 200, seed=4)
    torch.testing.assert_close(operator.to_dense().double(), dense)


def test_files_that_do_not_fit_are_refused(tmp_path):
    graph, *_ = graph_of(tmp_path / "graph", False)
    np.save(graph.folder / "x.npy", np.zeros((3, FEATURES), np.float32))
    with pytest.raises(DataError, match=r"x\.npy: must have shape \(40, 5\)"):
        StoredGraph.open(graph.folder)
    graph, *_ = graph_of(tmp_path / "labels", False)
    np.save(graph.folder / "y.npy", np.zeros(41, np.int64))
    with pytest.raises(DataError, match=r"y\.npy: must have shape \(40,\)"):
        StoredGraph.open(graph.folder)
    graph, *_ = graph_of(tmp_path / "norm", False)
    described = json.loads((graph.folder / "graph.json").read_text())
    (graph.folder / "graph.json").write_text(json.dumps({**described, "normalization": "out"}))
    with pytest.raises(ArgumentError, match="must be 'sym' or 'dir'"):
        StoredGraph.open(graph.folder)
    (graph.folder / "graph.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(DataError, match="format 1"):
        StoredGraph.open(graph.folder)
    operator = Propagation.from_edge_index(torch.tensor([[0], [1]]), 2, normalization="row")
    with pytest.raises(ArgumentError, match="must be 'sym' or 'dir'"):
        store_graph(tmp_path / "other", operator, torch.ones(2, 1))
