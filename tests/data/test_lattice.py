"""The lattice: targets by brute force, and errors that no local model can beat."""

from __future__ import annotations

import itertools
import time
from functools import partial

import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from torch_geometric.utils import is_undirected, to_scipy_sparse_matrix

from mgnni import load_task
from mgnni.data.lattice import lattice, lattice_error
from mgnni.errors import ArgumentError


@pytest.mark.parametrize(("side", "dimensions"), [(7, 1), (3, 2), (6, 2), (4, 3)])
@pytest.mark.parametrize(("kernel", "decay"), [("power", 1.5), ("exponential", 0.3)])
def test_targets_are_sums_over_all_other_nodes(
    side: int, dimensions: int, kernel: str, decay: float
) -> None:
    data = lattice(side, dimensions, kernel, decay, num_lattices=3)
    nodes = 3 * side**dimensions
    assert data.num_nodes == nodes
    assert data.num_edges == 2 * dimensions * nodes
    assert is_undirected(data.edge_index)
    hops = shortest_path(
        to_scipy_sparse_matrix(data.edge_index, num_nodes=nodes).tocsr(), unweighted=True
    )
    expected = torch.zeros(nodes, dtype=torch.float64)
    for q, p in itertools.permutations(range(nodes), 2):
        d = float(hops[q, p])
        if d == float("inf"):  # in another lattice
            assert q // (nodes // 3) != p // (nodes // 3)
            continue
        weight = d**-decay if kernel == "power" else 2.718281828459045 ** (-decay * d)
        expected[q] += weight * float(data.x[p])
    torch.testing.assert_close(data.target, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(data.y, (data.target > 0).long())


def test_the_best_local_guess_has_the_error_that_is_derived() -> None:
    options = {"side": 24, "dimensions": 2, "kernel": "power", "decay": 1.0}
    data = lattice(**options, noise=0.1, num_lattices=1000)
    clean = (data.target > 0).long()
    assert float((clean != data.y).double().mean()) == pytest.approx(0.1, abs=0.005)
    x = data.x.view(1000, 24, 24).double()
    for radius in (1, 3):
        near = torch.zeros_like(x)
        for down, right in itertools.product(range(-radius, radius + 1), repeat=2):
            hops = abs(down) + abs(right)
            if 0 < hops <= radius:
                near += x.roll((down, right), (1, 2)) / hops
        wrong = ((near.flatten() > 0).long() != data.y).double().mean()
        exact = lattice_error(radius, **options, noise=0.1)
        # Targets in one lattice are correlated, so it takes many lattices.
        assert float(wrong) == pytest.approx(exact, abs=0.01)


def test_errors_fall_with_the_radius_to_the_noise() -> None:
    errors = [lattice_error(radius, noise=0.05) for radius in range(17)]
    assert errors[0] == pytest.approx(0.5)
    assert errors == sorted(errors, reverse=True)
    assert errors[16] == 0.05
    assert lattice_error(2, decay=3.0) < lattice_error(2, decay=1.0) < lattice_error(2, decay=0.0)


def test_only_neighbours_count_if_the_weights_decay_fast() -> None:
    for kernel in ("power", "exponential"):
        assert lattice_error(1, kernel=kernel, decay=100.0) == pytest.approx(0, abs=1e-12)
        assert lattice_error(0, kernel=kernel, decay=100.0) == pytest.approx(0.5)
    for refused in (lattice, partial(lattice_error, 1)):
        with pytest.raises(ArgumentError, match=r"'decay' must leave .* \(got 1000\.0"):
            refused(kernel="exponential", decay=1000.0)


def test_the_sets_are_different_lattices() -> None:
    """On one lattice a local model can learn to tell places apart, and beats the bound."""
    data = lattice(side=4, num_lattices=8, num_splits=5)
    for split in range(5):
        parts = [getattr(data, f"{name}_mask")[:, split] for name in ("train", "val", "test")]
        per_lattice = torch.stack(parts).view(3, 8, 16).sum(2)
        assert sorted(per_lattice.sum(1).tolist()) == [32, 32, 64]
        assert per_lattice.unique().tolist() == [0, 16]
        assert (per_lattice.sum(0) == 16).all()
    assert not torch.equal(data.x[:16], data.x[16:32])


def test_a_million_nodes_take_seconds() -> None:
    start = time.perf_counter()
    data = lattice(side=250)
    assert data.num_nodes == 10**6
    assert lattice(side=5, num_lattices=4).num_nodes == 100
    assert time.perf_counter() - start < 60
    assert 0.3 < float(data.y.double().mean()) < 0.7


def test_it_is_a_benchmark_with_options() -> None:
    task = load_task("lattice", side=8, noise=0.1, num_splits=3)
    assert (task.num_rows, len(task.splits), task.classes) == (1024, 3, ("0", "1"))
    again = load_task("lattice", side=8, noise=0.1, num_splits=3)
    assert torch.equal(task.graphs[0].x, again.graphs[0].x)
    assert torch.equal(task.splits[2].test, again.splits[2].test)
    assert not torch.equal(task.graphs[0].x, load_task("lattice", side=8, seed=1).graphs[0].x)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"side": 2}, "'side' must be an int of at least 3"),
        ({"side": 5000}, "'side' and 'dimensions' must give at most 3 dimensions"),
        ({"dimensions": 4}, "'side' and 'dimensions' must give at most 3 dimensions"),
        ({"num_lattices": 2}, "'num_lattices' must be an int of at least 3"),
        ({"kernel": "linear"}, "'kernel' must be one of"),
        ({"decay": -1.0}, "'decay' must lie in"),
        ({"noise": 0.5}, "'noise' must lie in"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        lattice(**options)  # type: ignore[arg-type]
