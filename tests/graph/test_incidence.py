"""The incidence matrix against Laplacians built entry by entry, and its proven norm."""

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.graph.incidence import incidence
from problems import generator, lopsided_edges, propagation


def laplacian(edge_index, weight, num_nodes):
    """The sum of w (e_i - e_j)(e_i - e_j)^T over edges, scaled by in- plus out-degrees."""
    total = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    degree = torch.zeros(num_nodes, dtype=torch.float64)
    for (j, i), w in zip(edge_index.T.tolist(), weight.tolist(), strict=True):
        total[i, i] += w
        total[j, j] += w
        total[i, j] -= w
        total[j, i] -= w
        degree[i] += w
        degree[j] += w
    scale = torch.tensor([d**-0.5 if d else 0.0 for d in degree.tolist()], dtype=torch.float64)
    return scale.view(-1, 1) * total * scale


def normal_matrix(graph, num_nodes):
    eye = graph.scale * torch.eye(num_nodes, dtype=torch.float64, device=graph.scale.device)
    return graph.scale * graph.sums(graph.differences(eye, graph.root), graph.root)


@pytest.mark.parametrize("directed", [False, True])
def test_the_square_of_the_incidence_matrix_is_the_laplacian(directed, device):
    edge_index, weight = lopsided_edges()
    if not directed:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
        weight = weight.repeat(2)
    operator = Propagation.from_edge_index(
        edge_index.to(device), 12, weight.to(device), "none", self_loops=False
    )
    got = normal_matrix(incidence(operator), 12)
    torch.testing.assert_close(got.cpu(), laplacian(edge_index, weight, 12), rtol=0, atol=1e-12)
    assert torch.linalg.matrix_norm(got, 2) <= 2 + 1e-12


def test_an_undirected_edge_is_stored_once(device):
    operator = propagation("sym", self_loops=False).to(device)
    graph = incidence(operator)
    off = operator.pattern.row != operator.pattern.col
    assert graph.copies * graph.root.size(0) == int(off.sum())
    assert graph.copies == 2


def test_the_bound_is_reached_on_a_single_edge(device):
    edge = torch.tensor([[0], [1]], device=device)
    operator = Propagation.from_edge_index(edge, 2, None, "none", False, dtype=torch.float64)
    largest = torch.linalg.matrix_norm(normal_matrix(incidence(operator), 2), 2)
    assert largest.item() == pytest.approx(2)


def test_sums_are_the_transpose_of_differences(device):
    graph = incidence(propagation("none").to(device))
    g = generator()
    x = torch.randn(12, 3, dtype=torch.float64, generator=g).to(device)
    y = torch.randn(graph.root.size(0), 3, dtype=torch.float64, generator=g).to(device)
    left = (graph.differences(x, graph.root) * y).sum()
    torch.testing.assert_close(left, (x * graph.sums(y, graph.root)).sum())


def test_the_incidence_matrix_is_cached_unless_the_weights_are_learnable(device):
    operator = propagation("none").to(device)
    assert incidence(operator) is incidence(operator)
    edge_index, weight = lopsided_edges()
    learned = weight.to(device).requires_grad_()
    operator = Propagation.from_edge_index(edge_index.to(device), 12, learned, "none")
    graph = incidence(operator)
    assert graph is not incidence(operator)
    (grad,) = torch.autograd.grad(graph.root.sum() + graph.scale.sum(), learned)
    assert grad.isfinite().all()
    assert grad.abs().max() > 0


def test_negative_weights_are_refused(device):
    edge_index = torch.tensor([[0, 1], [1, 2]], device=device)
    weight = torch.tensor([1.0, -0.5], device=device)
    operator = Propagation.from_edge_index(edge_index, 3, weight, "none")
    with pytest.raises(ArgumentError, match="must not be negative"):
        incidence(operator)
