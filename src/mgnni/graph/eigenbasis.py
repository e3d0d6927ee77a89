"""Node states in the coordinates of eigenvectors, in which the operator of a graph is diagonal."""

from __future__ import annotations

from dataclasses import dataclass

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

DENSE = 4096  # nodes up to which all eigenpairs are computed, not only the leading ones


@dataclass(frozen=True, eq=False)
class Part:
    """Eigenvectors of some graphs, each padded to a common size.

    Attributes:
        nodes (Tensor): Node of each row, shape ``(graphs, size)``.
        vectors (Tensor): One vector per column, shape ``(graphs, size, count)``. Padded rows are
            zero.
    """

    nodes: Tensor
    vectors: Tensor


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    r"""Vectors :math:`Q`, and the operator :math:`\operatorname{diag}(s)` of their coordinates.

    Attributes:
        operator (Propagation): The diagonal operator, with one node per vector.
        parts (tuple[Part]): The vectors.
        place (Tensor): Row of each node in the concatenation of all parts, shape
            ``(num_nodes,)``.
    """

    operator: Propagation
    parts: tuple[Part, ...]
    place: Tensor

    def coordinates(self, x: Tensor) -> Tensor:
        r"""Return :math:`Q^{\top} X`, one row per vector."""
        found = [part.vectors.mT @ x[part.nodes] for part in self.parts]
        return torch.cat([one.flatten(0, 1) for one in found]) if found else x[:0]

    def states(self, y: Tensor) -> Tensor:
        """Return :math:`Q Y`, one row per node."""
        counts = [part.vectors.size(0) * part.vectors.size(2) for part in self.parts]
        rows = []
        for part, own in zip(self.parts, torch.split(y, counts), strict=True):
            graphs, _, count = part.vectors.shape
            rows.append((part.vectors @ own.view(graphs, count, -1)).flatten(0, 1))
        return torch.cat(rows)[self.place] if rows else y


def _check_fixed(propagation: Propagation) -> None:
    if propagation.values.requires_grad:
        raise ArgumentError(
            "'edge_weight' must not require gradients (got one that does), because eigenvectors "
            "are not differentiated; use variant='iterative' or 'closed'"
        )


def leading_eigenbasis(propagation: Propagation, count: int) -> Eigenbasis:
    """Return the eigenvectors of the eigenvalues of largest magnitude of every graph.

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
    return _leading(propagation, count)


@memoize
def _leading(propagation: Propagation, count: int) -> Eigenbasis:
    n = propagation.num_nodes
    if propagation.batch is None and n > DENSE and count < n // 4:
        return _lanczos(propagation, count)
    parts, values = [], []
    for block in propagation.spectrum.blocks:
        size = block.eigenvalues.size(1)
        order = block.eigenvalues.abs().topk(min(count, size)).indices
        vectors = block.eigenvectors.gather(2, order.unsqueeze(1).expand(-1, size, -1))
        parts.append(Part(block.nodes, vectors))
        values.append(block.eigenvalues.gather(1, order))
    return _basis(propagation, parts, values, propagation.spectrum.place)


def _lanczos(propagation: Propagation, count: int) -> Eigenbasis:
    pattern, n = propagation.pattern, propagation.num_nodes
    entries = propagation.values.double().cpu().numpy()
    matrix = scipy.sparse.csr_matrix(
        (entries, pattern.col.cpu().numpy(), pattern.crow.cpu().numpy()), shape=(n, n)
    )
    start = np.random.default_rng(0).standard_normal(n)  # for deterministic results
    values, vectors = scipy.sparse.linalg.eigsh(matrix, count, which="LM", v0=start)
    place = torch.arange(n, device=propagation.device)
    part = Part(place.unsqueeze(0), torch.from_numpy(vectors).to(propagation.values).unsqueeze(0))
    return _basis(propagation, [part], [torch.from_numpy(values).unsqueeze(0)], place)


def published_eigenbasis(propagation: Propagation) -> Eigenbasis:
    r"""Return the real parts of the eigenvectors and eigenvalues of :math:`S = P^{\top}`.

    This is what the authors of EIGNN use. Imaginary parts are dropped, so for a directed graph it
    is not an eigenbasis, and :math:`Q^{\top}` is not its inverse.
    """
    _check_fixed(propagation)
    return _published(propagation)


@memoize
def _published(propagation: Propagation) -> Eigenbasis:
    device, graph = propagation.device, propagation.graph_of_node()
    dense = propagation.to_dense().double().T.cpu()  # as the authors do
    parts, values, order = [], [], []
    for index in range(propagation.num_graphs):
        nodes = (graph == index).nonzero().squeeze(1)
        if not nodes.numel():
            continue
        own = nodes.cpu()
        found, vectors = torch.linalg.eig(dense[own][:, own])
        parts.append(Part(nodes.unsqueeze(0), vectors.real.to(propagation.values).unsqueeze(0)))
        values.append(found.real.unsqueeze(0))
        order.append(nodes)
    place = torch.empty(propagation.num_nodes, dtype=torch.long, device=device)
    if order:
        place[torch.cat(order)] = torch.arange(propagation.num_nodes, device=device)
    return _basis(propagation, parts, values, place)


def _basis(
    propagation: Propagation, parts: list[Part], values: list[Tensor], place: Tensor
) -> Eigenbasis:
    """Combine vectors and their eigenvalues, which have shape ``(graphs, count)`` per part."""
    device = propagation.device
    graph = propagation.graph_of_node()
    of_vector = [
        graph[part.nodes[:, :1]].expand(one.shape) for part, one in zip(parts, values, strict=True)
    ]
    empty = [torch.zeros(0, device=device)]
    entries = torch.cat([one.to(device).flatten() for one in values] or empty)
    number = torch.arange(entries.numel(), device=device)
    batch = None
    if propagation.batch is not None:
        batch = torch.cat([one.flatten() for one in of_vector] or [number])
    largest = float(entries.abs().max()) if entries.numel() else 0.0
    operator = Propagation(
        Pattern.from_sorted(number, number, entries.numel()),
        entries.to(propagation.dtype),
        symmetric=True,
        bound=Bound(largest, NodeNorm("frobenius"), "largest entry of a diagonal matrix"),
        normalization=propagation.normalization,
        batch=batch,
        num_graphs=propagation.num_graphs,
    )
    return Eigenbasis(operator, tuple(parts), place)
