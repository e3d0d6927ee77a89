"""What is derived from an operator is derived once, and goes when the operator goes."""

import gc
import weakref

import torch

from mgnni import Propagation
from mgnni.graph.derived import derived, derived_with_gradients
from problems import lopsided_edges, propagation


def test_once_for_each_operator(device):
    calls = []

    @derived
    def longest(operator):
        """Return the longest row."""
        calls.append(operator.normalization)
        return operator.longest_row

    first, second = propagation("row").to(device), propagation("dir").to(device)
    assert [longest(first), longest(second), longest(first)] == [
        first.longest_row,
        second.longest_row,
        first.longest_row,
    ]
    assert calls == ["row", "dir"]
    assert longest.__doc__ == "Return the longest row."


def test_once_for_each_option(device):
    calls = []

    @derived
    def power(operator, exponent):
        calls.append(exponent)
        return operator.values**exponent

    operator = propagation("row").to(device)
    for exponent in (2, 3, 2, 3):
        torch.testing.assert_close(power(operator, exponent), operator.values**exponent)
    assert calls == [2, 3]


def test_what_learns_is_derived_for_every_pass_if_it_is_differentiated(device):
    calls = []

    def square(operator):
        calls.append(operator)
        return operator.values.square()

    edge_index, weight = (part.to(device) for part in lopsided_edges())
    learnt = Propagation.from_edge_index(edge_index, 12, weight.requires_grad_(), "none")
    kept, followed = derived(square), derived_with_gradients(square)
    assert kept(learnt) is kept(learnt)
    assert not kept(learnt).requires_grad
    assert len(calls) == 1
    (grad,) = torch.autograd.grad(followed(learnt).sum() + followed(learnt).sum(), learnt.values)
    torch.testing.assert_close(grad, 4 * learnt.values)
    assert len(calls) == 3
    fixed = propagation("none").to(device)
    assert followed(fixed) is followed(fixed)
    assert len(calls) == 4


def test_it_is_freed_with_its_operator():
    @derived
    def row(operator):
        return operator.pattern.row.clone()

    operator = propagation("row")
    value = weakref.ref(row(operator))
    assert value() is not None
    del operator
    gc.collect()
    assert value() is None


def test_what_was_derived_without_gradients_serves_training(device):
    @derived
    def doubled(operator):
        return 2 * operator.values

    operator = propagation("row").to(device)
    with torch.inference_mode():
        doubled(operator)
    x = torch.ones_like(operator.values, requires_grad=True)
    (x * doubled(operator)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * operator.values)
