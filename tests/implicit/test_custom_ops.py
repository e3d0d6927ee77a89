"""The ops that compiled and exported models call, against dense solves and numerical gradients."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from mgnni import ConvergenceError, Propagation, normalized_gram
from mgnni.graph.custom_ops import operator_of
from mgnni.graph.product import OpArguments
from mgnni.implicit.cache import Cache

SCALES, GAMMA = [1, 3], 0.7
# psd_norm, solver, tol, max_iter, warm_start, memory, on_failure, grad_enabled
HOW = (None, "auto", 1e-10, None, False, "fast", "raise", True)


def directed(num_nodes: int = 7, normalization: str = "dir", **kwargs: Any) -> Propagation:
    """A directed graph, so that a missing transpose is noticed."""
    torch.manual_seed(0)
    edges = torch.randint(num_nodes, (2, 3 * num_nodes))
    return Propagation.from_edge_index(
        edges, num_nodes, normalization=normalization, dtype=torch.float64, **kwargs
    )


def inputs(num_nodes: int = 7, channels: int = 3) -> tuple[Tensor, Tensor]:
    """Nonsymmetric weights, and a bias."""
    torch.manual_seed(1)
    weight = torch.randn(len(SCALES), channels, channels, dtype=torch.float64)
    weight /= 2 * torch.linalg.matrix_norm(weight, 2, keepdim=True)
    return weight, torch.randn(num_nodes, channels, dtype=torch.float64)


def solve(graph: OpArguments, weight: Tensor, bias: Tensor, handle: Tensor | None = None) -> Tensor:
    """Call the op as a compiled graph does."""
    z: Tensor = torch.ops.mgnni.equilibrium(*graph, weight, bias, handle, SCALES, GAMMA, *HOW)[0]
    return z


@pytest.mark.parametrize("normalization", ["dir", "row"])
@pytest.mark.parametrize("adjoint", [False, True])
def test_the_op_returns_the_dense_solution(normalization: str, adjoint: bool) -> None:
    propagation, (weight, bias) = directed(normalization=normalization), inputs()
    z = solve(OpArguments.of(propagation, adjoint), weight, bias)
    dense = propagation.to_dense().mT if adjoint else propagation.to_dense()
    for index, scale in enumerate(SCALES):
        power = torch.linalg.matrix_power(dense, scale)
        system = torch.eye(bias.numel()).double() - GAMMA * torch.kron(
            power, weight[index].mT.contiguous()
        )
        exact = torch.linalg.solve(system, bias.flatten()).view_as(bias)
        torch.testing.assert_close(z[index], exact, rtol=0, atol=1e-8)


@pytest.mark.parametrize("adjoint", [False, True])
def test_the_op_has_the_numerical_gradients_of_all_its_inputs(adjoint: bool) -> None:
    (weight, bias), graph = inputs(), OpArguments.of(directed(), adjoint)

    def function(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return solve(graph._replace(values=1 * values), weight, bias)

    tensors = [one.requires_grad_() for one in (graph.values.clone(), weight, bias)]
    assert torch.autograd.gradcheck(function, tensors)


def test_the_product_has_the_numerical_gradients_of_all_its_inputs() -> None:
    graph = OpArguments.of(directed())
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    values = graph.values.clone().requires_grad_()
    for adjoint in (False, True):

        def function(values: Tensor, x: Tensor, adjoint: bool = adjoint) -> Tensor:
            changed = graph._replace(values=1 * values, adjoint=adjoint)
            product: Tensor = torch.ops.mgnni.propagate(*changed, x)
            return product

        assert torch.autograd.gradcheck(function, [values, x])


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_the_normalized_gram_matrix_is_that_of_eager_mode(norm: str) -> None:
    factor = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    by_op = torch.ops.mgnni.normalized_gram(factor, 1e-12, norm)[0]
    eager = normalized_gram(factor, norm=norm)
    assert torch.equal(by_op, eager)
    cotangent = torch.randn_like(eager)  # not symmetric
    (one,), (other,) = (torch.autograd.grad(w, factor, cotangent) for w in (by_op, eager))
    assert torch.equal(one, other)


@pytest.mark.parametrize("memory", ["fast", "low"])
def test_the_ops_keep_the_rules_of_torch(memory: str) -> None:
    propagation, (weight, bias) = directed(), inputs()
    graph, how = OpArguments.of(propagation), (*HOW[:5], memory, *HOW[6:])
    args = (*graph, weight.requires_grad_(), bias.requires_grad_(), None, SCALES, GAMMA, *how)
    torch.library.opcheck(torch.ops.mgnni.equilibrium, args)
    torch.library.opcheck(torch.ops.mgnni.propagate, (*graph, bias))
    torch.library.opcheck(torch.ops.mgnni.normalized_gram, (weight, 1e-12, "frobenius"))


def test_an_operator_is_built_once_and_freed_with_its_tensors() -> None:
    propagation, (weight, bias) = directed(), inputs()
    solve(OpArguments.of(propagation), weight, bias)
    known = operator_of(OpArguments.of(propagation))
    solve(OpArguments.of(propagation), 0.5 * weight, bias)
    assert operator_of(OpArguments.of(propagation)) is known
    assert operator_of(OpArguments.of(propagation, adjoint=True)) is known.adjoint()
    propagation.values.mul_(0.5)
    assert operator_of(OpArguments.of(propagation)) is not known
    freed = weakref.ref(known)
    del propagation, known
    gc.collect()
    assert freed() is None


def test_the_op_reports_to_the_cache_that_it_is_given() -> None:
    propagation, (weight, bias), cache = directed(), inputs(), Cache()
    z = solve(OpArguments.of(propagation), weight, bias.requires_grad_(), cache.handle)
    assert [one.scale for one in cache.log.forward] == SCALES
    assert all(one.converged and one.error_bound < 1e-8 for one in cache.log.forward)
    assert cache.log.backward == ()
    z.sum().backward()
    assert [one.scale for one in cache.log.backward] == SCALES


def test_a_small_number_is_the_handle_of_no_cache() -> None:
    caches = [Cache() for _ in range(20)]  # counted from zero, other processes would have the same
    assert all(Cache.find(one.handle) is one for one in caches)
    assert all(Cache.find(torch.tensor(number)) is None for number in range(10_000))


def test_the_op_raises_if_a_solve_fails() -> None:
    graph, (weight, bias) = OpArguments.of(directed()), inputs()
    how = (None, "picard", 1e-10, 2, False, "fast", "raise", True)
    with pytest.raises(ConvergenceError, match="stopped after 2 iterations"):
        torch.ops.mgnni.equilibrium(*graph, weight, bias, None, SCALES, GAMMA, *how)


def test_the_cache_of_a_compiled_layer_keeps_no_memory_that_the_graph_may_overwrite() -> None:
    graph, (weight, bias), cache = OpArguments.of(directed()), inputs(), Cache()
    how = (*HOW[:4], True, *HOW[5:])  # with a warm start
    args = (*graph, weight, bias, cache.handle, SCALES, GAMMA, *how)
    first = torch.ops.mgnni.equilibrium(*args)[0]
    expected = first.clone()
    first.data.fill_(torch.nan)  # as compiled code does, without a trace
    torch.testing.assert_close(torch.ops.mgnni.equilibrium(*args)[0], expected)
