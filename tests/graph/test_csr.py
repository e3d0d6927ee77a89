"""Sparsity patterns against dense matrices."""

import pytest
import torch

from mgnni.graph.csr import Pattern
from problems import generator


def sparse(num_nodes: int, density: float, seed: int, device: torch.device):
    """A random dense matrix with its pattern and its non-zeros in CSR order."""
    g = generator(seed)
    dense = torch.randn(num_nodes, num_nodes, dtype=torch.float64, generator=g)
    dense *= torch.rand(num_nodes, num_nodes, generator=g) < density
    row, col = dense.nonzero().unbind(1)
    return dense, Pattern.from_sorted(row.to(device), col.to(device), num_nodes), dense[row, col]


cases = pytest.mark.parametrize(
    ("num_nodes", "density"), [(7, 0.4), (7, 0.05), (7, 0.0), (1, 1.0), (0, 0.0), (5, 1.0)]
)


@cases
def test_the_pattern_is_that_of_the_matrix(num_nodes, density, device):
    dense, pattern, values = sparse(num_nodes, density, 0, device)
    assert pattern.num_nodes == num_nodes
    assert pattern.nnz == int((dense != 0).sum())
    assert pattern.row.tolist() == dense.nonzero()[:, 0].tolist()
    assert pattern.longest_row == (int((dense != 0).sum(1).max()) if num_nodes else 0)
    torch.testing.assert_close(pattern.matrix(values.to(device)).to_dense().cpu(), dense)


@cases
def test_the_transpose_carries_the_values_along(num_nodes, density, device):
    dense, pattern, values = sparse(num_nodes, density, 1, device)
    other, order = pattern.transposed
    result = other.matrix(values.to(device)[order]).to_dense().cpu()
    torch.testing.assert_close(result, dense.T.contiguous(), rtol=0, atol=0)


@cases
def test_a_sampled_product_is_the_full_one_where_the_matrix_has_entries(num_nodes, density, device):
    dense, pattern, _ = sparse(num_nodes, density, 2, device)
    left = torch.randn(num_nodes, 3, dtype=torch.float64)
    right = torch.randn(num_nodes, 3, dtype=torch.float64)
    expected = (left @ right.T)[dense != 0]
    sampled = pattern.sampled_product(left.to(device), right.to(device))
    torch.testing.assert_close(sampled.cpu(), expected)


def test_tensors_cached_in_inference_mode_can_be_used_in_training(device):
    _, pattern, values = sparse(7, 0.4, 3, device)
    with torch.inference_mode():
        row, (other, order) = pattern.row, pattern.transposed
    cached = (row, order, other.crow, other.col)
    assert not any(tensor.is_inference() for tensor in cached)
    x = torch.ones(7, 2, dtype=torch.float64, device=device, requires_grad=True)
    pattern.sampled_product(x, x).sum().backward()
    assert float(x.grad.sum()) == 4 * len(values)
