"""Eigenpairs against the dense matrix of every graph."""

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import Propagation
from mgnni.graph.spectrum import padded_sizes
from problems import chain, generator


def batch_of(sizes: list[int], device: torch.device, shuffle: bool = False) -> Propagation:
    """Random undirected graphs of these sizes side by side; shuffled, their nodes interleave."""
    g = generator(1)
    edges, batch, first = [], [], 0
    for number, size in enumerate(sizes):
        if size > 1:
            edges.append(to_undirected(torch.randint(0, size, (2, 2 * size), generator=g)) + first)
        batch += [number] * size
        first += size
    edge_index, batch = torch.cat(edges, dim=1), torch.tensor(batch)
    if shuffle:
        order = torch.randperm(first, generator=g)
        edge_index, batch = torch.argsort(order)[edge_index], batch[order]
    return Propagation.from_edge_index(
        edge_index.to(device), first, batch=batch.to(device), dtype=torch.float64
    )


def rebuilt(operator: Propagation) -> torch.Tensor:
    """The dense matrix from the eigenpairs, V diag(s) V^T, block by block."""
    n = operator.num_nodes
    dense = torch.zeros(n, n, dtype=torch.float64, device=operator.device)
    for block in operator.spectrum.blocks:
        v = block.eigenvectors.double()
        matrices = v @ torch.diag_embed(block.eigenvalues) @ v.mT
        # Padded rows are added to the first node of a graph, so they must be zero.
        where = (block.nodes.unsqueeze(2).expand_as(v), block.nodes.unsqueeze(1).expand_as(v))
        dense.index_put_(where, matrices, accumulate=True)
    return dense


@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "interleaved"])
@pytest.mark.parametrize("sizes", [[6], [1, 1, 2], [3, 5, 4, 7, 1], [2, 17, 3, 9, 8, 16]], ids=str)
def test_eigenpairs_reproduce_the_matrix_of_every_graph(sizes, shuffle, device):
    operator = batch_of(sizes, device, shuffle)
    torch.testing.assert_close(rebuilt(operator), operator.to_dense(), rtol=0, atol=1e-13)


def test_eigenvectors_are_orthonormal_with_zero_padding_and_eigenvalues_are_sorted(device):
    (block,) = batch_of([3, 5, 4, 7], device).spectrum.blocks
    v = block.eigenvectors
    assert v.shape == (4, 7, 7)
    real = torch.arange(7) < torch.tensor([3, 5, 4, 7]).unsqueeze(1)
    eye = torch.diag_embed(real.double()).to(device)
    torch.testing.assert_close(v @ v.mT, eye, rtol=0, atol=1e-13)
    assert bool((v[~real] == 0).all())
    assert bool((block.eigenvalues.diff(dim=-1) >= 0).all())


def test_the_spectrum_of_a_chain_is_known(device):
    r"""Of the path with loops at its ends: eigenvalues :math:`\cos(\pi k / n)`, k = 0 .. n-1."""
    n = 9
    ends = torch.tensor([[0, n - 1], [0, n - 1]])
    edge_index = torch.cat([chain(n), ends], dim=1).to(device)
    operator = Propagation.from_edge_index(edge_index, n, self_loops=False, dtype=torch.float64)
    (block,) = operator.spectrum.blocks
    expected = torch.cos(torch.pi * torch.arange(n - 1, -1, -1, dtype=torch.float64) / n)
    torch.testing.assert_close(block.eigenvalues[0].cpu(), expected, rtol=0, atol=1e-13)


def test_no_graph_is_padded_to_a_much_larger_one(device):
    spectrum = batch_of([2] * 20 + [60], device).spectrum
    assert sorted(tuple(b.eigenvectors.shape) for b in spectrum.blocks) == [(1, 60, 60), (20, 2, 2)]


def test_blocks_are_merged_unless_that_doubles_the_work():
    def found(*sizes: int) -> list[int]:
        return padded_sizes(torch.tensor(sizes)).tolist()

    assert found(16, 17, 28, 28) == [28, 28, 28, 28]
    assert found(3, 3, 3, 3, 3, 3, 3, 8) == [3, 3, 3, 3, 3, 3, 3, 8]
    assert found(0, 1, 0) == [0, 1, 0]
    assert found(2, 3, 40) == [3, 3, 40]


def test_every_node_has_one_row(device):
    operator = batch_of([3, 5, 4, 7, 1, 40], device, shuffle=True)
    assert len(operator.spectrum.blocks) == 2
    nodes = torch.cat([block.nodes.flatten() for block in operator.spectrum.blocks])
    place = operator.spectrum.place
    assert nodes[place].tolist() == list(range(60))
    assert torch.unique(place).numel() == 60


def test_an_operator_without_nodes_has_no_blocks(device):
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    assert Propagation.from_edge_index(empty, 0).spectrum.blocks == ()


def test_the_spectrum_is_cached(device):
    operator = batch_of([3, 4], device)
    assert operator.spectrum is operator.spectrum


def test_the_spectrum_of_a_float32_operator_is_that_of_its_own_entries(device):
    operator = batch_of([3, 5], device).to(torch.float32)
    torch.testing.assert_close(rebuilt(operator), operator.to_dense().double(), rtol=0, atol=1e-6)
    exact = torch.linalg.eigvalsh(operator.to_dense().double())  # of these entries, in float64
    (block,) = operator.spectrum.blocks
    real = torch.cat([block.eigenvalues[0], block.eigenvalues[1]]).sort().values
    extra = torch.zeros(2, dtype=torch.float64, device=device)  # the smaller graph is padded
    torch.testing.assert_close(real, torch.cat([exact, extra]).sort().values, rtol=0, atol=1e-13)
