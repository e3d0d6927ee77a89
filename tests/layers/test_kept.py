"""What is kept is computed once, noticed to be stale, and forgotten with its graph."""

import gc
import weakref

import pytest
import torch

from mgnni import Propagation
from mgnni.layers.kept import PER_GRAPH, kept
from problems import chain


def operator(device):
    return Propagation.from_edge_index(chain(4).to(device), 4)


class Counted:
    """Counts how often it was asked, and answers with that."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.calls


def test_the_same_is_computed_once(device):
    graph, x, weight = operator(device), torch.ones(4, 2, device=device), torch.ones(3).to(device)
    count = Counted()
    for _ in range(3):
        assert kept(count, graph, x, [weight], ("a",)) == 1
    stack = torch.stack([weight, weight])  # as where several runs lie in one tensor
    for _ in range(3):
        assert kept(count, graph, x, [stack[1]], ("a",)) == 2
    assert kept(count, graph, x, [stack[0]], ("a",)) == 3


@pytest.mark.parametrize("change", ["x", "copy of x", "weight", "options", "graph", "dtype"])
def test_what_changes_is_computed_anew(change, device):
    graph, x, weight = operator(device), torch.ones(4, 2, device=device), torch.ones(3).to(device)
    options, count = ("a",), Counted()
    assert kept(count, graph, x, [weight], options) == 1
    if change == "x":
        x[0, 0] = 5
    elif change == "copy of x":
        x = x.clone()
    elif change == "weight":
        weight.mul_(2)
    elif change == "options":
        options = ("b",)
    elif change == "graph":
        graph = operator(device)
    else:
        weight = weight.view(torch.int32)
    assert kept(count, graph, x, [weight], options) == 2


def test_a_change_behind_torch_is_noticed():
    graph, x, count = operator("cpu"), torch.ones(4, 2), Counted()
    assert kept(count, graph, x, []) == 1
    x.numpy()[2, 1] = 7
    assert kept(count, graph, x, []) == 2


def test_it_is_forgotten_with_the_graph_and_holds_no_features(device):
    graph, x = operator(device), torch.ones(4, 2, device=device)
    value = weakref.ref(kept(lambda: torch.zeros(5), graph, x, []))
    features = weakref.ref(x)
    del x
    gc.collect()
    assert features() is None
    assert value() is not None
    del graph
    gc.collect()
    assert value() is None


def test_a_graph_keeps_the_newest_few(device):
    graph, x, count = operator(device), torch.ones(4, 2, device=device), Counted()
    for number in range(PER_GRAPH + 1):
        kept(count, graph, x, [], (number,))
    assert count.calls == PER_GRAPH + 1
    assert kept(count, graph, x, [], (PER_GRAPH,)) == PER_GRAPH + 1
    assert kept(count, graph, x, [], (0,)) == PER_GRAPH + 2


def test_what_is_kept_by_inference_serves_training(device):
    graph, x = operator(device), torch.ones(4, 2, device=device)
    with torch.inference_mode():
        first = kept(lambda: x * 2, graph, x, [])
    weight = torch.ones(2, 1, device=device, requires_grad=True)
    second = kept(lambda: x * 3, graph, x, [])
    assert second is first
    (second @ weight).sum().backward()
    assert torch.equal(weight.grad, torch.full((2, 1), 8.0, device=device))


def test_inference_tensors_count_no_versions_and_are_not_kept(device):
    graph, count = operator(device), Counted()
    with torch.inference_mode():
        x = torch.ones(4, 2, device=device)
        assert [kept(count, graph, x, []) for _ in range(2)] == [1, 2]
