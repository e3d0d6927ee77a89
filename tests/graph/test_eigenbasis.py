"""Bases of eigenvectors, against dense decompositions."""

import gc
import weakref

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.graph import eigenbasis
from mgnni.graph.eigenbasis import leading_eigenbasis, published_eigenbasis
from problems import chain, generator, lopsided_edges, propagation


def low_rank(dense: torch.Tensor, count: int) -> torch.Tensor:
    """The matrix nearest to a symmetric one among those of a rank."""
    u, s, v = torch.linalg.svd(dense)
    return (u[:, :count] * s[:count]) @ v[:count]


def in_nodes(basis) -> torch.Tensor:
    """Q diag(s) Q^T, column by column."""
    eye = torch.eye(basis.place.numel(), dtype=torch.float64, device=basis.place.device)
    return basis.states(basis.operator.apply(basis.coordinates(eye)))


@pytest.mark.parametrize("count", [1, 3, 12, 50])
def test_leading_vectors_make_the_nearest_operator_of_their_rank(count, device):
    operator = propagation("sym", self_loops=False).to(device)  # no two eigenvalues are equal
    got = in_nodes(leading_eigenbasis(operator, count))
    torch.testing.assert_close(got, low_rank(operator.to_dense(), count), rtol=0, atol=1e-12)


def test_lanczos_finds_the_same_as_all_eigenpairs(monkeypatch, device):
    operator = propagation("sym", num_nodes=40, self_loops=False).to(device)
    all_of_them = in_nodes(leading_eigenbasis(operator, 5))
    monkeypatch.setattr(eigenbasis, "DENSE", 10)
    few = in_nodes(
        leading_eigenbasis(propagation("sym", num_nodes=40, self_loops=False).to(device), 5)
    )
    torch.testing.assert_close(few, all_of_them, rtol=0, atol=1e-10)


def test_graphs_of_a_batch_have_their_own_vectors(device):
    sizes = (4, 1, 7)
    edges = [chain(size) for size in sizes]
    start = [0, 4, 5]
    joined = torch.cat([e + s for e, s in zip(edges, start, strict=True)], 1).to(device)
    batch = torch.repeat_interleave(torch.arange(4), torch.tensor([4, 1, 7, 0])).to(device)
    batch = torch.where(batch == 2, 3, batch)  # one graph has no nodes
    operator = Propagation.from_edge_index(joined, 12, batch=batch, dtype=torch.float64)
    got = in_nodes(leading_eigenbasis(operator, 2))
    want = torch.zeros(12, 12, dtype=torch.float64, device=device)
    for size, first in zip(sizes, start, strict=True):
        own = slice(first, first + size)
        want[own, own] = low_rank(operator.to_dense()[own, own], 2)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_published_vectors_are_the_real_parts_of_true_ones(device):
    operator = propagation("dir").to(device)
    basis = published_eigenbasis(operator)
    values, vectors = torch.linalg.eig(operator.to_dense().T.cpu())
    order = values.real.argsort(stable=True)
    entries = basis.operator.values.cpu()
    torch.testing.assert_close(entries.sort().values, values.real[order], rtol=0, atol=1e-10)
    # A vector is one up to a factor, and LAPACK makes its largest entry real: compare projectors.
    q = basis.blocks[0].eigenvectors[0].cpu()
    assert values.imag.abs().max() > 0.01
    for number, value in enumerate(entries.tolist()):
        near = (values.real - value).abs() < 1e-8
        if near.sum() == 1:
            v = vectors[:, near].squeeze(1).real
            torch.testing.assert_close(q[:, number].outer(q[:, number]), v.outer(v))


@pytest.mark.parametrize("find", [lambda one: leading_eigenbasis(one, 3), published_eigenbasis])
def test_a_basis_is_cached_and_freed_with_its_operator(find, device):
    operator = propagation("sym").to(device)
    basis = find(operator)
    assert find(operator) is basis
    reference = weakref.ref(basis)
    del operator, basis
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("find", [lambda one: leading_eigenbasis(one, 3), published_eigenbasis])
def test_the_diagonal_operator_of_coordinates_knows_its_eigenpairs(find, device):
    operator = find(propagation("sym").to(device)).operator
    spectrum = operator.spectrum
    x = torch.randn(operator.num_nodes, 2, dtype=torch.float64, generator=generator()).to(device)
    torch.testing.assert_close(spectrum.states(spectrum.coordinates(x)), x)
    entries = torch.cat([block.eigenvalues.flatten() for block in spectrum.blocks])
    torch.testing.assert_close(
        spectrum.states(entries.unsqueeze(1) * spectrum.coordinates(x)), operator.apply(x)
    )


def test_graphs_without_nodes_or_edges_have_a_basis(device):
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    for nodes in (0, 1, 3):
        operator = Propagation.from_edge_index(none, nodes, dtype=torch.float64, self_loops=False)
        x = torch.randn(nodes, 2, dtype=torch.float64, generator=generator()).to(device)
        for basis in (leading_eigenbasis(operator, 2), published_eigenbasis(operator)):
            out = basis.states(basis.operator.apply(basis.coordinates(x)))
            torch.testing.assert_close(out, torch.zeros_like(x))


def test_directed_graphs_and_learnable_weights_are_refused(device):
    with pytest.raises(ArgumentError, match="must be symmetric"):
        leading_eigenbasis(propagation("dir").to(device), 3)
    edge_index, weight = lopsided_edges()
    learned = weight.to(device).requires_grad_()
    operator = Propagation.from_edge_index(edge_index.to(device), 12, learned, "dir")
    with pytest.raises(ArgumentError, match="must not require grad"):
        published_eigenbasis(operator)
