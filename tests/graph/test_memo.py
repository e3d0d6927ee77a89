"""Operators are remembered for as long as nothing changed, and not a moment longer."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from mgnni import Propagation
from mgnni.graph.memo import PER_GRAPH, cached_propagation
from problems import chain


@pytest.fixture
def graph(device) -> tuple[Tensor, Tensor]:
    """A chain of five nodes in memory of its own, with equal weights on both directions."""
    edge_index = chain(5).to(device).clone()
    return edge_index, torch.full((8,), 0.5, dtype=torch.float64, device=device)


def fresh(edge_index: Tensor, num_nodes: int, *args: object, **options: object) -> Tensor:
    """What the operator must be, built anew."""
    return Propagation.from_edge_index(edge_index, num_nodes, *args, **options).to_dense()


def test_the_same_tensors_give_the_same_object(graph, device):
    edge_index, weight = graph
    batch = torch.zeros(5, dtype=torch.long, device=device)
    for options in (
        {},
        {"edge_weight": weight},
        {"batch": batch},
        {"edge_weight": weight, "batch": batch, "normalization": "dir", "dtype": torch.float64},
    ):
        first = cached_propagation(edge_index, 5, **options)
        assert cached_propagation(edge_index, 5, **options) is first
        torch.testing.assert_close(first.to_dense(), fresh(edge_index, 5, **options))


def test_an_equal_copy_is_another_graph(graph):
    edge_index, _ = graph
    first = cached_propagation(edge_index, 5)
    assert cached_propagation(edge_index.clone(), 5) is not first


@pytest.mark.parametrize("which", ["edge_index", "edge_weight", "batch"])
@pytest.mark.parametrize("through", ["torch", "a view", "numpy", "data"])
def test_a_change_in_place_is_seen(which, through, graph, device):
    if through in ("numpy", "data") and device.type != "cpu":
        pytest.skip("memory behind torch's back is watched on the CPU alone")
    edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]], device=device)  # loops on three nodes
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=device)
    batch = torch.tensor([0, 1, 2], device=device)
    tensors = {"edge_index": edge_index, "edge_weight": weight, "batch": batch}
    options = {"normalization": "none", "self_loops": False}
    before = cached_propagation(num_nodes=3, **tensors, **options)
    assert cached_propagation(num_nodes=3, **tensors, **options) is before
    changed = tensors[which]
    if through == "torch":
        changed.mul_(0)
    elif through == "a view":
        changed.view(-1)[:] = 0
    elif through == "data":
        changed.data.fill_(0)
    else:
        changed.numpy()[...] = 0
    after = cached_propagation(num_nodes=3, **tensors, **options)
    assert after is not before
    expected = Propagation.from_edge_index(num_nodes=3, **tensors, **options)
    torch.testing.assert_close(after.to_dense(), expected.to_dense(), rtol=0, atol=0)
    assert after.num_graphs == expected.num_graphs
    assert cached_propagation(num_nodes=3, **tensors, **options) is after


def test_a_change_and_back_is_right_either_way(graph):
    edge_index, weight = graph
    first = fresh(edge_index, 5, weight)
    cached_propagation(edge_index, 5, weight)
    weight.mul_(2)
    torch.testing.assert_close(
        cached_propagation(edge_index, 5, weight).to_dense(), fresh(edge_index, 5, weight)
    )
    weight.div_(2)
    torch.testing.assert_close(cached_propagation(edge_index, 5, weight).to_dense(), first)


def test_an_edge_index_that_grew_in_place_is_seen(device):
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    before = cached_propagation(edge_index, 3)
    edge_index.resize_(2, 4)
    edge_index.copy_(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    after = cached_propagation(edge_index, 3)
    assert after is not before
    torch.testing.assert_close(after.to_dense(), fresh(edge_index, 3))


@pytest.mark.parametrize(
    "change",
    [
        {"num_nodes": 6},
        {"normalization": "row"},
        {"self_loops": False},
        {"flow": "target_to_source"},
        {"dtype": torch.float64},
        {"norm_bound": 2.0},
        {"edge_weight": True},
        {"batch": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_option_builds_another_operator(change, graph, device):
    edge_index, weight = graph
    options = {"num_nodes": 5, "normalization": "out"}
    first = cached_propagation(edge_index, **options)
    if "edge_weight" in change:
        change = {"edge_weight": weight}
    if "batch" in change:
        change = {"batch": torch.zeros(5, dtype=torch.long, device=device)}
    second = cached_propagation(edge_index, **{**options, **change})
    assert second is not first
    expected = Propagation.from_edge_index(edge_index, **{**options, **change})
    torch.testing.assert_close(second.to_dense(), expected.to_dense())
    assert (second.num_nodes, second.norm_bound, second.norm.kind, second.dtype) == (
        expected.num_nodes,
        expected.norm_bound,
        expected.norm.kind,
        expected.dtype,
    )
    assert cached_propagation(edge_index, **options) is first


def test_another_weight_tensor_of_equal_values_is_not_confused(graph):
    edge_index, weight = graph
    other = weight.clone()
    first = cached_propagation(edge_index, 5, weight)
    second = cached_propagation(edge_index, 5, other)
    assert second is not first
    other.mul_(3)
    assert cached_propagation(edge_index, 5, weight) is first


def test_an_entry_dies_with_its_edge_index(graph):
    edge_index, weight = graph
    edge_index, weight = edge_index.clone(), weight.clone()
    operator = cached_propagation(edge_index, 5, weight)
    operator.adjoint()
    operator.double()
    assert operator.spectrum.blocks
    watched = [weakref.ref(operator), weakref.ref(weight)]
    del operator, weight
    gc.collect()
    assert all(ref() is not None for ref in watched), "remembered while edge_index lives"
    del edge_index
    gc.collect()
    assert all(ref() is None for ref in watched), "kept alive after its edge_index died"


def test_a_directed_entry_dies_with_its_edge_index(device):
    edge_index = torch.tensor([[0, 1], [1, 2]], device=device)
    operator = cached_propagation(edge_index, 3, normalization="dir")
    watched = [weakref.ref(operator), weakref.ref(operator.adjoint())]
    del operator, edge_index
    gc.collect()
    assert all(ref() is None for ref in watched)


def test_few_operators_are_kept_for_one_graph(graph, device):
    edge_index, _ = graph
    weights = [torch.full((8,), 1.0 + i, device=device) for i in range(PER_GRAPH + 3)]
    operators = [weakref.ref(cached_propagation(edge_index, 5, w)) for w in weights]
    gc.collect()
    alive = [ref() is not None for ref in operators]
    assert alive == [False] * 3 + [True] * PER_GRAPH


def test_weights_that_are_learnt_are_not_remembered(graph):
    """Their values belong to one autograd graph; a second backward pass needs a second one."""
    edge_index, weight = graph
    weight.requires_grad_()
    x = torch.randn(5, 2, dtype=torch.float64, device=edge_index.device)
    grads = []
    for _ in range(2):
        operator = cached_propagation(edge_index, 5, weight)
        grads.append(torch.autograd.grad(operator.apply(x).square().sum(), weight)[0])
    torch.testing.assert_close(*grads)
    again = cached_propagation(edge_index, 5, weight)
    assert cached_propagation(edge_index, 5, weight) is not again


def test_weights_frozen_later_are_remembered(graph):
    edge_index, weight = graph
    weight.requires_grad_()
    learnt = cached_propagation(edge_index, 5, weight)
    weight.requires_grad_(False)
    frozen = cached_propagation(edge_index, 5, weight)
    assert learnt.values.requires_grad
    assert not frozen.values.requires_grad
    weight.requires_grad_()
    assert cached_propagation(edge_index, 5, weight).values.requires_grad


def test_inference_tensors_are_taken(device):
    with torch.inference_mode():
        edge_index = chain(4).to(device).clone()
        before = cached_propagation(edge_index, 4).to_dense()
        edge_index[:] = 0
        after = cached_propagation(edge_index, 4, normalization="none").to_dense()
    assert before.shape == (4, 4)
    torch.testing.assert_close(after[0, 0].item(), 7.0)  # six edges and the self-loop


def test_a_failed_build_leaves_nothing_behind(graph):
    edge_index, _ = graph
    with pytest.raises(ValueError, match="num_nodes"):
        cached_propagation(edge_index, 2)
    torch.testing.assert_close(cached_propagation(edge_index, 5).to_dense(), fresh(edge_index, 5))


def test_an_operator_made_under_inference_mode_serves_training(device):
    edge_index = torch.tensor([[0, 1, 1], [1, 2, 0]], device=device)
    x = torch.randn(3, 2, dtype=torch.float64, device=device)
    options = {"normalization": "dir", "dtype": torch.float64}
    with torch.inference_mode():
        first = cached_propagation(edge_index, 3, **options)
        first.multiply(x)
        first.adjoint()
    second = cached_propagation(edge_index, 3, **options)
    assert second is first
    x.requires_grad_()
    (grad,) = torch.autograd.grad(second.apply(x).sum(), x, create_graph=True)
    torch.testing.assert_close(grad, fresh(edge_index, 3, **options).T @ torch.ones_like(x))
