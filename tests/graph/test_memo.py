"""Values derived from graphs are reused only while nothing they depend on has changed."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from mgnni import Propagation
from mgnni.graph.memo import Memo, cached_propagation, memoize, memoize_differentiable
from problems import chain, lopsided_edges, propagation


class Counter:
    """Returns how often it has been called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls


class Anchor:
    """An object that can be referenced weakly."""


# The meta device stands in for an accelerator: contents cannot be compared, and only identity and
# the version counter tell whether a tensor is the same.
places = pytest.mark.parametrize("place", ["cpu", "meta"])


class TestMemo:
    """The cache itself, with tensors on the CPU and elsewhere."""

    @places
    def test_a_value_is_computed_once_for_the_same_arguments(self, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensors = (torch.ones(4, 2, device=place), None, torch.ones(3, device=place))
        for _ in range(3):
            assert memo.get(anchor, count, tensors, ("a",)) == 1

    @places
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_a_changed_version_is_noticed(self, which, place):
        memo, count = Memo(), Counter()
        tensors = [torch.ones(3, device=place) for _ in range(3)]
        anchor = tensors[0]
        assert memo.get(anchor, count, tensors) == 1
        tensors[which].mul_(1)  # the contents stay the same: only the version tells
        assert memo.get(anchor, count, tensors) == 2
        assert memo.get(anchor, count, tensors) == 2

    @places
    @pytest.mark.parametrize("which", [0, 1])
    def test_another_tensor_is_noticed_even_if_it_is_equal(self, which, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensors = [torch.ones(3, device=place) for _ in range(2)]
        assert memo.get(anchor, count, tensors) == 1
        other = list(tensors)
        other[which] = tensors[which].clone()
        assert memo.get(anchor, count, other) == 2
        assert memo.get(anchor, count, tensors) == 1

    @places
    def test_a_tensor_in_place_of_none_is_noticed(self, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensor = torch.ones(3, device=place)
        assert memo.get(anchor, count, (tensor, None)) == 1
        assert memo.get(anchor, count, (None, tensor)) == 2
        assert memo.get(anchor, count, (tensor, tensor)) == 3
        assert memo.get(anchor, count, (tensor,)) == 4

    @places
    def test_replaced_data_are_noticed(self, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensor = torch.ones(3, device=place)
        assert memo.get(anchor, count, (tensor,)) == 1
        tensor.data = torch.ones(4, device=place)  # keeps identity and version
        assert memo.get(anchor, count, (tensor,)) == 2
        tensor.data = torch.ones(4, dtype=torch.float64, device=place)
        assert memo.get(anchor, count, (tensor,)) == 3

    def test_replaced_data_are_noticed_by_their_address(self, device):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensor = torch.ones(3, device=device)
        assert memo.get(anchor, count, (tensor,)) == 1
        tensor.data = tensor.data.clone()  # keeps identity, version and contents
        assert memo.get(anchor, count, (tensor,)) == 2

    @pytest.mark.parametrize("which", [0, 1])
    @pytest.mark.parametrize("through", ["numpy", "data"])
    def test_a_write_that_keeps_the_version_is_noticed_on_the_cpu(self, through, which):
        memo, count = Memo(), Counter()
        tensors = (torch.ones(4, 2), torch.ones(3))
        assert memo.get(tensors[0], count, tensors) == 1
        version = tensors[which]._version
        changed = tensors[which].numpy() if through == "numpy" else tensors[which].data
        changed[-1] = 7
        assert tensors[which]._version == version
        assert memo.get(tensors[0], count, tensors) == 2

    @places
    def test_the_same_view_of_the_same_tensor_is_the_same(self, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        stack = torch.ones(2, 3, device=place)  # as where several runs share one tensor
        for view in (stack[1], stack[1], stack.unsqueeze(0)[0, 1]):
            assert memo.get(anchor, count, (view,)) == 1
        assert memo.get(anchor, count, (stack[0],)) == 2
        assert memo.get(anchor, count, (stack[1, :2],)) == 3
        assert memo.get(anchor, count, (stack[1].view(torch.int32),)) == 4
        stack.mul_(1)
        assert memo.get(anchor, count, (stack[1],)) == 5

    @places
    def test_other_options_and_other_anchors_have_values_of_their_own(self, place):
        memo, count, anchor = Memo(), Counter(), Anchor()
        tensor = torch.ones(3, device=place)
        assert memo.get(anchor, count, (tensor,), "a") == 1
        assert memo.get(anchor, count, (tensor,), "b") == 2
        assert memo.get(Anchor(), count, (tensor,), "a") == 3
        assert memo.get(anchor, count, (tensor,), "a") == 1

    @pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
    def test_a_write_to_the_values_of_a_sparse_tensor_is_noticed(self, layout):
        memo, count = Memo(), Counter()
        adj = torch.eye(3).to_sparse(layout=layout)
        assert memo.get(adj, count, (adj,)) == memo.get(adj, count, (adj,)) == 1
        values = adj._values() if layout is torch.sparse_coo else adj.values()
        values[0] = 5
        assert memo.get(adj, count, (adj,)) == 2
        values.numpy()[1] = 5
        assert memo.get(adj, count, (adj,)) == 3

    def test_only_the_newest_values_are_kept(self, device):
        memo, count, anchor = Memo(size=2), Counter(), Anchor()
        for number in range(3):
            memo.get(anchor, count, options=number)
        assert memo.get(anchor, count, options=2) == 3
        assert memo.get(anchor, count, options=1) == 2
        assert memo.get(anchor, count, options=0) == 4

    def test_a_value_is_freed_with_its_anchor(self, device):
        memo, anchor = Memo(), torch.ones(4, device=device)
        value = weakref.ref(memo.get(anchor, lambda: torch.zeros(5), (anchor, anchor[:2])))
        gc.collect()
        assert value() is not None
        del anchor
        gc.collect()
        assert value() is None

    def test_tensors_are_not_kept_alive_and_their_values_are_dropped(self, device):
        memo, anchor = Memo(), Anchor()
        tensor = torch.ones(3, device=device)
        watched = weakref.ref(tensor)
        value = weakref.ref(memo.get(anchor, lambda: torch.zeros(5), (tensor,)))
        del tensor
        gc.collect()
        assert watched() is None
        memo.get(anchor, lambda: torch.zeros(5))
        assert value() is None

    def test_values_computed_in_inference_mode_can_be_used_in_training(self, device):
        memo, x = Memo(), torch.ones(4, 2, device=device)
        with torch.inference_mode():
            first = memo.get(x, lambda: x * 2, (x,))
        second = memo.get(x, lambda: x * 3, (x,))
        assert second is first
        weight = torch.ones(2, 1, device=device, requires_grad=True)
        (second @ weight).sum().backward()
        assert torch.equal(weight.grad, torch.full((2, 1), 8.0, device=device))

    def test_values_of_inference_tensors_are_not_kept(self, device):
        memo, count = Memo(), Counter()
        with torch.inference_mode():
            x = torch.ones(4, 2, device=device)
            assert [memo.get(x, count, (x,)) for _ in range(2)] == [1, 2]

    def test_a_failed_computation_leaves_nothing_behind(self):
        memo, count, anchor = Memo(), Counter(), Anchor()
        with pytest.raises(ZeroDivisionError):
            memo.get(anchor, lambda: 1 // 0)
        assert memo.get(anchor, count) == 1


class TestMemoize:
    """Functions of an operator that run once per operator."""

    def test_the_function_runs_once_per_operator_and_argument(self, device):
        calls = []

        @memoize
        def power(operator, exponent):
            """Return a power of the entries."""
            calls.append((operator, exponent))
            return operator.values**exponent

        first, second = propagation("row").to(device), propagation("dir").to(device)
        for operator in (first, second, first):
            for exponent in (2, 3):
                torch.testing.assert_close(power(operator, exponent), operator.values**exponent)
        assert calls == [(first, 2), (first, 3), (second, 2), (second, 3)]
        torch.testing.assert_close(power(first, exponent=4), first.values**4)
        torch.testing.assert_close(power(first, exponent=5), first.values**5)
        assert power.__doc__ == "Return a power of the entries."

    def test_results_that_need_gradients_are_not_kept(self, device):
        def square(operator):
            return operator.values.square()

        edge_index, weight = (part.to(device) for part in lopsided_edges())
        learned = Propagation.from_edge_index(edge_index, 12, weight.requires_grad_(), "none")
        plain, differentiable = memoize(square), memoize_differentiable(square)
        assert plain(learned) is plain(learned)
        assert not plain(learned).requires_grad
        total = differentiable(learned).sum() + differentiable(learned).sum()
        (grad,) = torch.autograd.grad(total, learned.values)
        torch.testing.assert_close(grad, 4 * learned.values)
        fixed = propagation("none").to(device)
        assert differentiable(fixed) is differentiable(fixed)

    def test_a_result_is_freed_with_its_operator(self):
        @memoize
        def row(operator):
            return operator.pattern.row.clone()

        operator = propagation("row")
        value = weakref.ref(row(operator))
        assert value() is not None
        del operator
        gc.collect()
        assert value() is None

    def test_a_result_computed_in_inference_mode_can_be_used_in_training(self, device):
        @memoize
        def doubled(operator):
            return 2 * operator.values

        operator = propagation("row").to(device)
        with torch.inference_mode():
            doubled(operator)
        x = torch.ones_like(operator.values, requires_grad=True)
        (x * doubled(operator)).sum().backward()
        torch.testing.assert_close(x.grad, 2 * operator.values)


@pytest.fixture
def graph(device) -> tuple[Tensor, Tensor]:
    """A chain of five nodes in memory of its own, with equal weights in both directions."""
    edge_index = chain(5).to(device).clone()
    return edge_index, torch.full((8,), 0.5, dtype=torch.float64, device=device)


def fresh(edge_index: Tensor, num_nodes: int, *args: object, **options: object) -> Tensor:
    """The operator built without the cache."""
    return Propagation.from_edge_index(edge_index, num_nodes, *args, **options).to_dense()


class TestCachedPropagation:
    """Operators that are built once per graph."""

    def test_the_same_tensors_give_the_same_object(self, graph, device):
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

    def test_an_equal_copy_is_another_graph(self, graph):
        edge_index, _ = graph
        first = cached_propagation(edge_index, 5)
        assert cached_propagation(edge_index.clone(), 5) is not first

    @pytest.mark.parametrize("which", ["edge_index", "edge_weight", "batch"])
    @pytest.mark.parametrize("through", ["torch", "a view", "numpy", "data"])
    def test_a_change_in_place_is_noticed(self, which, through, device):
        if through in ("numpy", "data") and device.type != "cpu":
            pytest.skip("writes that keep the version are only noticed on the CPU")
        edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]], device=device)  # self-loops
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

    def test_a_change_and_its_reversal_give_the_first_operator_again(self, graph):
        edge_index, weight = graph
        first = fresh(edge_index, 5, weight)
        cached_propagation(edge_index, 5, weight)
        weight.mul_(2)
        torch.testing.assert_close(
            cached_propagation(edge_index, 5, weight).to_dense(), fresh(edge_index, 5, weight)
        )
        weight.div_(2)
        torch.testing.assert_close(cached_propagation(edge_index, 5, weight).to_dense(), first)

    def test_an_edge_index_that_is_resized_in_place_is_noticed(self, device):
        edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
        before = cached_propagation(edge_index, 3)
        edge_index.resize_(2, 4)
        edge_index.copy_(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        after = cached_propagation(edge_index, 3)
        assert after is not before
        torch.testing.assert_close(after.to_dense(), fresh(edge_index, 3))

    def test_a_change_of_the_tensor_inside_an_edge_index_object_is_noticed(self, device):
        data = torch.tensor([[0, 1], [1, 0]], device=device)
        edge_index = EdgeIndex(data, sparse_size=(3, 3))
        before = cached_propagation(edge_index)
        assert cached_propagation(edge_index) is before
        data[:, 0] = torch.tensor([1, 2], device=device)
        torch.testing.assert_close(cached_propagation(edge_index).to_dense(), fresh(data, 3))

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
    def test_another_option_builds_another_operator(self, change, graph, device):
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

    def test_another_weight_tensor_of_equal_values_is_not_confused(self, graph):
        edge_index, weight = graph
        other = weight.clone()
        first = cached_propagation(edge_index, 5, weight)
        second = cached_propagation(edge_index, 5, other)
        assert second is not first
        other.mul_(3)
        assert cached_propagation(edge_index, 5, weight) is first

    def test_two_batch_vectors_over_one_edge_index_are_not_confused(self, device):
        edge_index = torch.tensor([[0, 1], [0, 1]], device=device)
        together = torch.tensor([0, 0], device=device)
        separate = torch.tensor([0, 1], device=device)
        same = together.clone()
        operators = [cached_propagation(edge_index, 2, batch=b) for b in (together, separate, same)]
        assert [operator.num_graphs for operator in operators] == [1, 2, 1]
        for batch, operator in zip((together, separate, same), operators, strict=True):
            assert operator.batch is batch
            assert cached_propagation(edge_index, 2, batch=batch) is operator

    def test_an_operator_is_freed_with_its_edge_index(self, graph):
        edge_index, weight = graph
        edge_index, weight = edge_index.clone(), weight.clone()
        operator = cached_propagation(edge_index, 5, weight)
        operator.adjoint()
        operator.double()
        assert operator.spectrum.blocks
        watched = weakref.ref(operator)
        del operator
        gc.collect()
        assert watched() is not None, "freed while edge_index lives"
        del edge_index
        gc.collect()
        assert watched() is None, "not freed with its edge_index"

    def test_a_directed_operator_is_freed_with_its_edge_index(self, device):
        edge_index = torch.tensor([[0, 1], [1, 2]], device=device)
        operator = cached_propagation(edge_index, 3)
        watched = [weakref.ref(operator), weakref.ref(operator.adjoint())]
        del operator, edge_index
        gc.collect()
        assert all(ref() is None for ref in watched)

    def test_only_a_few_operators_are_kept_per_graph(self, graph, device):
        edge_index, _ = graph
        weights = [torch.full((8,), 1.0 + i, device=device) for i in range(7)]
        operators = [weakref.ref(cached_propagation(edge_index, 5, w)) for w in weights]
        gc.collect()
        assert [ref() is not None for ref in operators] == [False] * 3 + [True] * 4

    def test_operators_of_learnable_weights_are_not_kept(self, graph):
        """They belong to one autograd graph; a second backward pass needs a second one."""
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

    def test_freezing_weights_later_is_noticed(self, graph):
        edge_index, weight = graph
        weight.requires_grad_()
        learned = cached_propagation(edge_index, 5, weight)
        weight.requires_grad_(False)
        frozen = cached_propagation(edge_index, 5, weight)
        assert learned.values.requires_grad
        assert not frozen.values.requires_grad
        weight.requires_grad_()
        assert cached_propagation(edge_index, 5, weight).values.requires_grad

    def test_inference_tensors_are_accepted(self, device):
        with torch.inference_mode():
            edge_index = chain(4).to(device).clone()
            before = cached_propagation(edge_index, 4).to_dense()
            edge_index[:] = 0
            after = cached_propagation(edge_index, 4, normalization="none").to_dense()
        assert before.shape == (4, 4)
        torch.testing.assert_close(after[0, 0].item(), 7.0)  # six edges and the self-loop

    def test_a_failed_build_leaves_nothing_behind(self, graph):
        edge_index, _ = graph
        with pytest.raises(ValueError, match="num_nodes"):
            cached_propagation(edge_index, 2)
        built = cached_propagation(edge_index, 5).to_dense()
        torch.testing.assert_close(built, fresh(edge_index, 5))

    def test_an_operator_built_in_inference_mode_can_be_used_in_training(self, device):
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

    def test_an_array_is_refused(self):
        with pytest.raises(ValueError, match="'edge_index'"):
            cached_propagation(np.zeros((2, 0), dtype=int), 5)
