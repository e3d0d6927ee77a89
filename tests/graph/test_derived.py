"""What is derived from an operator is derived once, and goes when the operator goes."""

import gc
import weakref

import torch

from mgnni.graph.derived import derived
from problems import propagation


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
