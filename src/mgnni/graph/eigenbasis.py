"""Node states in the coordinates of eigenvectors, in which the operator of a graph is diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.csr import Pattern
from mgnni.graph.memo import memoize
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation
from mgnni.graph.spectrum import Block, Spectrum

DENSE = 4096  # nodes up to which all eigenpairs are computed, not only the leading ones


@dataclass(frozen=True, eq=False)
class Eigenbasis(Spectrum):
    r"""Vectors :math:`Q`, and the operator :math:`\operatorname{diag}(s)` of their coordinates.

    Attributes:
        operator (Propagation): The diagonal operator, with one node per vector.
    """

    operator: Propagation


def _check_fixed(propagation: Propagation) -> None:
    if propagation.values.requires_grad:
        raise ArgumentError(
            "'edge_weight' must not require gradients (got one that does), because eigenvectors "
            "are not differentiated; use variant='iterative' or 'closed'"
        )


@memoize
def leading_eigenbasis(propagation: Propagation, count: int) -> Eigenbasis:
    """Return the eigenvectors of the eigenvalues of largest magnitude of every graph, cached.

    Args:
        propagation (Propagation): A symmetric operator.
        count (int): Number of eigenvectors per graph, at most its number of nodes. Ties are broken
            by the decomposition: a normalised graph has an eigenvalue 1 per connected component.
    """
    if not propagation.symmetric:
        raise ArgumentError(
            "the operator must be symmetric, so that eigenvectors are orthogonal (got a directed "
            "graph); make it undirected, or use variant='iterative'"
        )
    _check_fixed(propagation)
    n = propagation.num_nodes
    if propagation.batch is None and n > DENSE and count < n // 4:
        return _lanczos(propagation, count)
    blocks = []
    for block in propagation.spectrum.blocks:
        size = block.eigenvalues.size(1)
        order = block.eigenvalues.abs().topk(min(count, size)).indices
        vectors = block.eigenvectors.gather(2, order.unsqueeze(1).expand(-1, size, -1))
        blocks.append(Block(block.nodes, block.eigenvalues.gather(1, order), vectors))
    return _basis(propagation, blocks, propagation.spectrum.place)


def _lanczos(propagation: Propagation, count: int) -> Eigenbasis:
    pattern, n = propagation.pattern, propagation.num_nodes
    entries = propagation.values.double().cpu().numpy()
    matrix = scipy.sparse.csr_matrix(
        (entries, pattern.col.cpu().numpy(), pattern.crow.cpu().numpy()), shape=(n, n)
    )
    start = np.random.default_rng(0).standard_normal(n)  # for deterministic results
    values, vectors = scipy.sparse.linalg.eigsh(matrix, count, which="LM", v0=start)
    place = torch.arange(n, device=propagation.device)
    eigenvalues = torch.from_numpy(values).to(propagation.device)
    eigenvectors = torch.from_numpy(vectors).to(propagation.values)
    pairs = place.unsqueeze(0), eigenvalues.unsqueeze(0), eigenvectors.unsqueeze(0)
    return _basis(propagation, [Block(*pairs)], place)


@memoize
def published_eigenbasis(propagation: Propagation) -> Eigenbasis:
    r"""Return the real parts of the eigenvectors and eigenvalues of :math:`S = P^{\top}`, cached.

    This is what the authors of EIGNN use. Imaginary parts are dropped, so for a directed graph it
    is not an eigenbasis, and :math:`Q^{\top}` is not its inverse.
    """
    _check_fixed(propagation)
    device, graph = propagation.device, propagation.graph_of_node()
    dense = propagation.to_dense().double().T.cpu()  # as the authors do
    blocks, order = [], []
    for index in range(propagation.num_graphs):
        nodes = (graph == index).nonzero().squeeze(1)
        if not nodes.numel():
            continue
        own = nodes.cpu()
        found, vectors = torch.linalg.eig(dense[own][:, own])
        pairs = found.real.to(device), vectors.real.to(propagation.values)
        blocks.append(Block(nodes.unsqueeze(0), *(one.unsqueeze(0) for one in pairs)))
        order.append(nodes)
    place = torch.empty(propagation.num_nodes, dtype=torch.long, device=device)
    if order:
        place[torch.cat(order)] = torch.arange(propagation.num_nodes, device=device)
    return _basis(propagation, blocks, place)


def _basis(propagation: Propagation, blocks: list[Block], place: Tensor) -> Eigenbasis:
    """Combine the vectors of all blocks, and make the operator of their eigenvalues."""
    device, batch = propagation.device, propagation.batch
    empty = [torch.zeros(0, device=device)]
    entries = torch.cat([block.eigenvalues.flatten() for block in blocks] or empty)
    number = torch.arange(entries.numel(), device=device)
    if batch is not None:  # of each vector
        graphs = [batch[one.nodes[:, :1]].expand_as(one.eigenvalues).flatten() for one in blocks]
        batch = torch.cat(graphs or [number])
    largest = float(entries.abs().max()) if entries.numel() else 0.0
    operator = Propagation(
        Pattern.from_sorted(number, number, entries.numel()),
        entries.to(propagation.dtype),
        symmetric=True,
        bound=Bound(largest, NodeNorm("frobenius"), "largest entry of a diagonal matrix"),
        normalization=propagation.normalization,
        batch=batch,
        num_graphs=propagation.num_graphs,
        find_spectrum=partial(_diagonal_spectrum, number, entries, propagation.dtype),
    )
    return Eigenbasis(tuple(blocks), place, operator)


def _diagonal_spectrum(number: Tensor, entries: Tensor, dtype: torch.dtype) -> Spectrum:
    """Return the eigenpairs of a diagonal operator, whose eigenvectors are the unit vectors."""
    ones = torch.ones(number.numel(), 1, 1, dtype=dtype, device=number.device)
    return Spectrum((Block(number.unsqueeze(1), entries.unsqueeze(1), ones),), number)
