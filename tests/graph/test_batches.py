"""Mini-batches of a collection against operators built from the edges of the batch."""

import pickle

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from mgnni import Propagation, solve_equilibrium
from mgnni.errors import ArgumentError
from mgnni.graph import batches
from mgnni.graph.batches import Collection
from problems import dense_solution, generator, lopsided_edges, weight

SIZES = [5, 1, 12, 7, 3, 30]
DIRECTED = {2, 4}  # graphs with edges one way
CHOICES = [[0], [3, 0, 5], [2, 1, 4], [5, 2, 0, 2, 1], [0, 1, 2, 3, 4, 5]]
UNDIRECTED_CHOICES = [[1], [3, 0, 5, 1, 0]]


def graphs(directed: bool, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Weighted graphs of all sizes, some of them directed if asked for."""
    found = []
    for number, size in enumerate(SIZES):
        edges, values = lopsided_edges(size, seed + number)
        if not directed or number not in DIRECTED:
            edges, values = to_undirected(edges, values, num_nodes=size)
        found.append((edges, values))
    return found


def batched(
    parts: list[tuple[Tensor, Tensor]], which: list[int], device: torch.device
) -> tuple[Tensor, int, Tensor, Tensor]:
    """Edges, nodes, weights and batch vector of some graphs side by side."""
    edges, values, batch, first = [], [], [], 0
    for number, one in enumerate(which):
        edges.append(parts[one][0] + first)
        values.append(parts[one][1])
        batch += [number] * SIZES[one]
        first += SIZES[one]
    joined = torch.cat(edges, 1).to(device), first, torch.cat(values).to(device)
    return *joined, torch.tensor(batch, device=device)


def both(
    which: list[int], device: torch.device, directed: bool, **options: object
) -> tuple[Propagation, Tensor, Propagation]:
    """The operator from a collection with the rows of its nodes, and the one built from edges."""
    parts = graphs(directed)
    options = {"dtype": torch.float64, **options}
    *everything, batch = batched(parts, list(range(len(SIZES))), device)
    collection = Collection(*everything, batch=batch, **options)
    assert len(collection) == len(SIZES)
    joined, nodes = collection.join(torch.tensor(which))
    *some, batch = batched(parts, which, device)
    return joined, nodes, Propagation.from_edge_index(*some, batch=batch, **options)


def assert_same(joined: Propagation, built: Propagation) -> None:
    tolerance = {"rtol": 1e-14, "atol": 1e-15} if joined.dtype is torch.float64 else {}
    torch.testing.assert_close(joined.to_dense(), built.to_dense(), **tolerance)
    torch.testing.assert_close(joined.matrix.to_dense(), built.to_dense(), **tolerance)
    torch.testing.assert_close(joined.adjoint().to_dense(), built.to_dense().T, **tolerance)
    for name in ("symmetric", "normalization", "reason", "num_graphs", "num_nodes", "longest_row"):
        assert getattr(joined, name) == getattr(built, name), name
    assert joined.norm_bound == pytest.approx(built.norm_bound, rel=1e-14)
    assert joined.norm.kind == built.norm.kind
    if built.norm.weight is not None:  # the unit is free, and any weight serves an isolated node
        connected = built.pattern.row.unique()
        ratio = (joined.norm.weight / built.norm.weight)[connected]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-14, atol=0)
    for name in ("crow", "col", "row"):
        assert torch.equal(getattr(joined.pattern, name), getattr(built.pattern, name)), name
        assert getattr(joined.pattern, name).dtype is getattr(built.pattern, name).dtype
    assert torch.equal(joined.batch, built.batch)
    assert (joined.dtype, joined.unit) == (built.dtype, built.unit)


@pytest.mark.parametrize("which", CHOICES, ids=str)
@pytest.mark.parametrize("normalization", ["auto", "dir", "out", "row", "none"])
def test_a_batch_of_lopsided_graphs_is_as_built_from_its_edges(normalization, which, device):
    for options in ({}, {"self_loops": False}, {"flow": "target_to_source"}):
        joined, _, built = both(which, device, True, normalization=normalization, **options)
        assert_same(joined, built)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("normalization", ["auto", "sym", "none"])
@pytest.mark.parametrize("which", UNDIRECTED_CHOICES, ids=str)
def test_a_batch_of_undirected_graphs_is_as_built_from_its_edges(
    which, normalization, dtype, device
):
    joined, _, built = both(which, device, False, normalization=normalization, dtype=dtype)
    assert joined.symmetric
    assert_same(joined, built)


def test_a_batch_is_symmetric_if_its_own_graphs_are(device):
    for which in UNDIRECTED_CHOICES:
        joined, _, _ = both(which, device, True, normalization="auto")
        assert joined.symmetric
        assert joined.normalization == "sym"
        assert joined.adjoint() is joined
    joined, _, _ = both([0, 2], device, True, normalization="auto")
    assert not joined.symmetric
    assert joined.normalization == "dir"


def test_the_nodes_of_a_batch_are_those_of_its_graphs(device):
    _, nodes, _ = both([4, 1, 4], device, False)
    first = sum(SIZES[:4])
    assert nodes.tolist() == [*range(first, first + 3), 5, *range(first, first + 3)]


def rebuilt(operator: Propagation) -> Tensor:
    """The dense matrix from the eigenpairs, V diag(s) V^T, by the places of the nodes."""
    dense = torch.zeros(operator.num_nodes, operator.num_nodes, dtype=torch.float64)
    dense = dense.to(operator.device)
    for block in operator.spectrum.blocks:
        v = block.eigenvectors
        where = (block.nodes.unsqueeze(2).expand_as(v), block.nodes.unsqueeze(1).expand_as(v))
        product = v @ torch.diag_embed(block.eigenvalues) @ v.mT
        dense.index_put_(where, product, accumulate=True)
    nodes = torch.cat([block.nodes.flatten() for block in operator.spectrum.blocks])
    assert nodes[operator.spectrum.place].tolist() == list(range(operator.num_nodes))
    return dense


@pytest.mark.parametrize("directed", [False, True], ids=["all symmetric", "some symmetric"])
@pytest.mark.parametrize("which", [*UNDIRECTED_CHOICES, [5, 0, 5, 1, 3]], ids=str)
def test_eigenpairs_of_a_batch_are_those_of_its_graphs(which, directed, device, monkeypatch):
    monkeypatch.setattr(batches, "SMALL", 1000)
    joined, _, built = both(which, device, directed, normalization="auto")
    assert joined.prefers_spectrum
    torch.testing.assert_close(rebuilt(joined), built.to_dense(), rtol=0, atol=1e-13)


def test_eigenpairs_are_computed_once_for_all_batches(device, monkeypatch):
    calls = []
    eigh = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda x: calls.append(x.shape) or eigh(x))
    *everything, batch = batched(graphs(False), list(range(len(SIZES))), device)
    collection = Collection(*everything, batch=batch)
    for which in ([0, 1], [5, 3], [2]):
        assert collection.join(torch.tensor(which))[0].spectrum.blocks
    assert sum(shape[0] for shape in calls) == len(SIZES)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("scale", [1, 3])
def test_solutions_and_certificates_are_those_of_the_batch(directed, scale, device):
    which = [2, 0, 5, 1] if directed else [3, 0, 5, 1]
    joined, _, built = both(which, device, directed, normalization="auto")
    w = weight("random", 4).to(device)
    bias = torch.randn(joined.num_nodes, 4, dtype=torch.float64, generator=generator(3)).to(device)
    options = {"scale": scale, "gamma": 0.9, "tol": 1e-10}
    found, other = (solve_equilibrium(one, w, bias, **options) for one in (joined, built))
    assert found.solver == ("series" if directed else "spectral")
    assert other.solver == ("series" if directed else "chebyshev")
    exact = dense_solution(built, w, bias, scale, 0.9)
    for result in (found, other):
        torch.testing.assert_close(result.value, exact, rtol=1e-8, atol=1e-9)
        error = (result.value - exact).square().sum(-1)
        by_graph = torch.zeros(len(which), dtype=torch.float64, device=device)
        by_graph.index_add_(0, built.batch, error)
        assert bool((by_graph.sqrt().cpu() <= result.graph_error_bound + 1e-12).all())
    assert found.contraction == pytest.approx(other.contraction, rel=1e-12)
    assert found.norm == other.norm


def test_large_graphs_are_not_decomposed(device):
    nodes = torch.arange(400)
    ring = to_undirected(torch.stack([nodes, (nodes + 1) % 400])).to(device)
    batch = (nodes >= 399).long().to(device)
    ring = ring[:, (ring < 399).all(0)]
    joined, _ = Collection(ring, 400, batch=batch).join(torch.tensor([1, 0]))
    assert not joined.prefers_spectrum


def test_an_empty_batch_has_no_nodes(device):
    *everything, batch = batched(graphs(True), [0, 1, 2], device)
    joined, nodes = Collection(*everything, normalization="dir", batch=batch).join(
        torch.tensor([], dtype=torch.long)
    )
    assert (joined.num_nodes, joined.num_graphs, nodes.numel()) == (0, 0, 0)


def test_a_joined_operator_can_be_pickled(device):
    joined, _, built = both([3, 0], device, False)
    again = pickle.loads(pickle.dumps(joined))
    torch.testing.assert_close(again.to_dense(), built.to_dense(), rtol=1e-14, atol=1e-15)
    torch.testing.assert_close(rebuilt(again), built.to_dense(), rtol=0, atol=1e-13)


def test_bad_input_is_refused(device):
    *everything, batch = batched(graphs(False), [0, 1], device)
    with pytest.raises(ArgumentError, match=r"'batch' must not decrease .*sort the nodes"):
        Collection(*everything, batch=1 - batch)
    collection = Collection(*everything, batch=batch)
    for wrong in (-1, 2):
        with pytest.raises(
            ArgumentError, match=rf"'graphs' must hold graph indices in \[0, 2\) .*{wrong}"
        ):
            collection.join(torch.tensor([0, wrong]))
    with pytest.raises(ArgumentError, match="'normalization' must not be 'sym'"):
        both([0], device, True, normalization="sym")
