"""The operator: transpose, symmetry, batches, copies and derivatives."""

import copy
import gc
import io
import pickle

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import ArgumentError, Propagation
from mgnni.graph.normalize import NORMALIZATIONS
from problems import chain, dense_propagation, generator, lopsided_edges, propagation, state_norm

normalizations = pytest.mark.parametrize("normalization", NORMALIZATIONS)


@normalizations
def test_the_adjoint_is_the_transpose(normalization, device):
    operator = propagation(normalization).to(device)
    adjoint = operator.adjoint()
    torch.testing.assert_close(adjoint.to_dense(), operator.to_dense().T, rtol=1e-12, atol=0)
    x, y = torch.randn(2, 12, 3, dtype=torch.float64, device=device)
    torch.testing.assert_close(
        (operator.multiply(x) * y).sum(), (x * adjoint.multiply(y)).sum(), rtol=1e-13, atol=1e-13
    )
    assert adjoint.norm_bound == operator.norm_bound
    assert adjoint.norm.kind == operator.norm.dual().kind
    assert state_norm(adjoint, adjoint.multiply(x)) <= adjoint.norm_bound * state_norm(adjoint, x)


def test_the_adjoint_is_cached_and_its_adjoint_is_the_operator(device):
    operator = propagation("dir").to(device)
    assert operator.adjoint() is operator.adjoint()
    assert operator.adjoint().adjoint() is operator
    symmetric = propagation("sym").to(device)
    assert symmetric.adjoint() is symmetric


def test_an_adjoint_can_be_used_after_its_operator_is_freed(device):
    operator = propagation("out").to(device)
    dense, adjoint = operator.to_dense(), operator.adjoint()
    del operator
    gc.collect()
    torch.testing.assert_close(adjoint.adjoint().to_dense(), dense, rtol=0, atol=0)


@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "none"])
def test_symmetry_is_found_on_an_undirected_graph(normalization, device):
    edge_index, weight = lopsided_edges(10)
    edge_index, weight = to_undirected(edge_index, weight)
    operator = Propagation.from_edge_index(
        edge_index.to(device), 10, weight.to(device), normalization, dtype=torch.float64
    )
    assert operator.symmetric
    dense = operator.to_dense()
    torch.testing.assert_close(dense, dense.T, rtol=1e-12, atol=0)
    assert operator.norm.kind == "frobenius"
    assert operator.adjoint() is operator


@pytest.mark.parametrize("normalization", ["dir", "out", "row", "none"])
def test_asymmetry_is_found(normalization, device):
    operator = propagation(normalization).to(device)
    assert not operator.symmetric
    dense = operator.to_dense()
    assert not torch.allclose(dense, dense.T)


@pytest.mark.parametrize("change", ["value", "pattern"])
def test_a_slight_asymmetry_is_noticed(change, device):
    edge_index = chain(6)
    weight = torch.ones(edge_index.size(1), dtype=torch.float64)
    if change == "value":
        weight[3] += 1e-9
    else:
        edge_index = torch.cat([edge_index, torch.tensor([[0], [5]])], dim=1)
        weight = torch.cat([weight, torch.tensor([1e-9], dtype=torch.float64)])
    edge_index, weight = edge_index.to(device), weight.to(device)
    for normalization in ("dir", "out", "none"):
        assert not Propagation.from_edge_index(edge_index, 6, weight, normalization).symmetric
    with pytest.raises(ArgumentError, match="directed graph"):
        Propagation.from_edge_index(edge_index, 6, weight, "sym")
    operator = Propagation.from_edge_index(edge_index, 6, weight, "auto")
    assert (operator.normalization, operator.symmetric) == ("dir", False)


@pytest.mark.parametrize("directed", [False, True])
def test_the_default_normalization_follows_the_direction_of_the_edges(directed, device):
    edge_index = chain(6)[:, :-1] if directed else chain(6)
    kind = "dir" if directed else "sym"
    for options in ({}, {"normalization": "auto"}):
        operator = Propagation.from_edge_index(edge_index.to(device), 6, **options)
        assert (operator.normalization, operator.symmetric) == (kind, not directed)
        expected = Propagation.from_edge_index(edge_index.to(device), 6, normalization=kind)
        assert torch.equal(operator.to_dense(), expected.to_dense())


def test_the_repr_is_short_and_does_not_change_with_use():
    operator = propagation("out")
    text = repr(operator)
    assert text == (
        "Propagation(num_nodes=12, nnz=41, normalization='out', norm_bound=1, "
        "dtype=torch.float64, device='cpu')"
    )
    operator.apply(torch.ones(12, 1, dtype=torch.float64))
    operator.adjoint()
    assert repr(operator) == text


def test_a_row_normalised_regular_graph_is_symmetric(device):
    nodes = torch.arange(7)
    ring = to_undirected(torch.stack([nodes, (nodes + 1) % 7]))
    operator = Propagation.from_edge_index(ring.to(device), 7, normalization="row")
    assert operator.symmetric
    assert operator.norm_bound == 1.0


@normalizations
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("num_nodes", [0, 1, 4])
def test_a_graph_without_edges(num_nodes, self_loops, normalization, device):
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(
        empty, num_nodes, None, normalization, self_loops, dtype=torch.float64
    )
    eye = torch.eye(num_nodes, dtype=torch.float64, device=device)
    expected = eye if self_loops else torch.zeros_like(eye)
    torch.testing.assert_close(operator.to_dense(), expected)
    x = torch.randn(num_nodes, 2, dtype=torch.float64, device=device)
    torch.testing.assert_close(operator.multiply(x), expected @ x)
    torch.testing.assert_close(operator.adjoint().multiply(x), expected @ x)
    assert operator.symmetric
    assert operator.norm_bound == float(self_loops and num_nodes > 0)
    assert operator.num_nodes == operator.largest_graph == num_nodes


@normalizations
def test_isolated_nodes_aggregate_from_themselves_only(normalization, device):
    for self_loops in (True, False):
        operator = propagation(normalization, self_loops=self_loops).to(device)
        dense = operator.to_dense()
        expected = torch.zeros(2, 12, dtype=torch.float64, device=device)
        if self_loops:
            expected[0, 10] = expected[1, 11] = 1.0
        torch.testing.assert_close(dense[10:], expected)
        torch.testing.assert_close(dense.T[10:], expected)


def test_repeated_self_loops_of_one_node_add_up(device):
    edge_index = torch.zeros(2, 3, dtype=torch.long, device=device)  # three loops add up
    weight = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64, device=device)
    given = Propagation.from_edge_index(edge_index, 1, weight, "none", False)
    assert given.to_dense().item() == 1.0
    assert given.pattern.nnz == 1
    for normalization in ("sym", "dir", "out", "row"):
        operator = Propagation.from_edge_index(edge_index, 1, weight, normalization)
        assert operator.to_dense().item() == pytest.approx(1.0, abs=1e-15)


@normalizations
def test_multiply_into_overwrites_and_adds(normalization, device):
    operator = propagation(normalization).to(device)
    x, y = torch.randn(2, 12, 5, dtype=torch.float64, device=device)
    product = operator.to_dense() @ x
    nan = torch.full_like(x, float("nan"))  # previous contents must not be read
    torch.testing.assert_close(operator.multiply_into(nan, x), product)
    torch.testing.assert_close(operator.multiply_into(nan, x, 2.5), 2.5 * product)
    out = y.clone()
    assert operator.multiply_into(out, x, 2.0, -1.0) is out
    torch.testing.assert_close(out, 2 * product - y)


def test_multiply_into_without_entries(device):
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(empty, 3, self_loops=False, dtype=torch.float64)
    x = torch.randn(3, 2, dtype=torch.float64, device=device)
    nan = torch.full_like(x, float("nan"))
    torch.testing.assert_close(operator.multiply_into(nan, x), torch.zeros_like(x))
    torch.testing.assert_close(operator.multiply_into(x.clone(), x, 2.0, -1.0), -x)


def test_apply_takes_powers(device):
    operator = propagation("out").to(device)
    x = torch.randn(12, 2, dtype=torch.float64, device=device)
    dense = operator.to_dense()
    for power in range(4):
        expected = torch.linalg.matrix_power(dense, power) @ x
        torch.testing.assert_close(operator.apply(x, power), expected)


def test_states_may_have_any_strides(device):
    operator = propagation("dir").to(device)
    wide = torch.randn(3, 24, dtype=torch.float64, device=device)
    for x in (wide[:, :12].T, wide.T[::2], wide[0, 0].expand(12, 2)):
        torch.testing.assert_close(operator.multiply(x), operator.to_dense() @ x)


class TestBatch:
    """The operator of a batch is block-diagonal, with one block per graph."""

    def graphs(self, normalization: str):
        parts = []
        for seed, size in enumerate((5, 3, 8)):
            edge_index, weight = lopsided_edges(size, seed)
            if normalization == "sym":
                edge_index, weight = to_undirected(edge_index, weight, num_nodes=size)
            parts.append((edge_index, weight, size))
        return parts

    def batched(self, parts, normalization, device, order=None, **options):
        first, edges, weights, batch = 0, [], [], []
        for number, (edge_index, weight, size) in enumerate(parts):
            edges.append(edge_index + first)
            weights.append(weight)
            batch += [number] * size
            first += size
        edge_index, weight, batch = torch.cat(edges, 1), torch.cat(weights), torch.tensor(batch)
        if order is not None:
            edge_index, batch = torch.argsort(order)[edge_index], batch[order]
        return Propagation.from_edge_index(
            edge_index.to(device),
            first,
            weight.to(device),
            normalization,
            batch=batch.to(device),
            **options,
        )

    @normalizations
    def test_blocks_are_the_graphs_on_their_own(self, normalization, device):
        parts = self.graphs(normalization)
        operator = self.batched(parts, normalization, device)
        expected = torch.block_diag(
            *[dense_propagation(e, n, w, normalization) for e, w, n in parts]
        )
        torch.testing.assert_close(operator.to_dense().cpu(), expected, rtol=1e-13, atol=0)
        assert operator.num_graphs == 3
        assert operator.largest_graph == 8
        assert operator.graph_of_node().tolist() == [0] * 5 + [1] * 3 + [2] * 8
        assert "num_graphs=3" in repr(operator)

    @normalizations
    def test_restricting_keeps_graphs_whole(self, normalization, device):
        parts = self.graphs(normalization)
        order = torch.randperm(16, generator=generator(3))  # nodes of the graphs interleave
        operator = self.batched(parts, normalization, device, order)
        full = operator.to_dense()
        for keep in ([True, False, True], [False, True, False], [True] * 3, [False] * 3):
            mask = torch.tensor(keep, device=device)
            part, nodes = operator.restrict(mask)
            expected = mask[operator.batch].nonzero().squeeze(1)
            assert nodes.tolist() == expected.tolist()
            torch.testing.assert_close(part.to_dense(), full[nodes][:, nodes], rtol=0, atol=0)
            assert part.num_graphs == sum(keep)
            kept = mask.nonzero().squeeze(1)
            assert kept[part.batch].tolist() == operator.batch[nodes].tolist()
            assert part.norm_bound == operator.norm_bound
            assert part.symmetric == operator.symmetric
            x = torch.randn(len(nodes), 2, dtype=torch.float64, device=device)
            if len(nodes):
                after = state_norm(part, part.multiply(x))
                assert after <= part.norm_bound * state_norm(part, x) * (1 + 1e-13)

    def test_restricting_twice(self, device):
        operator = self.batched(self.graphs("out"), "out", device)
        once, nodes = operator.restrict(torch.tensor([False, True, True], device=device))
        twice, inner = once.restrict(torch.tensor([False, True], device=device))
        nodes = nodes[inner]
        assert nodes.tolist() == list(range(8, 16))
        torch.testing.assert_close(twice.to_dense(), operator.to_dense()[nodes][:, nodes])
        torch.testing.assert_close(twice.norm.weight, operator.norm.weight[nodes])

    def test_an_edge_between_graphs_is_refused(self, device):
        batch = torch.tensor([0, 0, 1, 1], device=device)
        edge_index = torch.tensor([[0, 2, 1], [1, 3, 2]], device=device)
        with pytest.raises(ArgumentError, match=r"edge \[1, 2\] between graphs 0 and 1"):
            Propagation.from_edge_index(edge_index, 4, normalization="dir", batch=batch)

    def test_a_skipped_graph_index_is_an_empty_graph(self, device):
        batch = torch.tensor([0, 2, 2], device=device)
        operator = Propagation.from_edge_index(
            torch.tensor([[1, 2], [2, 1]], device=device), 3, batch=batch
        )
        assert operator.num_graphs == 3
        assert operator.largest_graph == 2

    def test_a_batch_without_nodes(self, device):
        empty = torch.zeros(2, 0, dtype=torch.long, device=device)
        operator = Propagation.from_edge_index(empty, 0, batch=empty[0])
        assert (operator.num_graphs, operator.largest_graph, operator.num_nodes) == (0, 0, 0)


def same(left: Propagation, right: Propagation) -> None:
    """Check that two operators agree."""
    torch.testing.assert_close(left.to_dense(), right.to_dense(), rtol=0, atol=0)
    for name in ("num_nodes", "num_graphs", "symmetric", "norm_bound", "reason", "normalization"):
        assert getattr(left, name) == getattr(right, name)
    assert left.norm.kind == right.norm.kind
    for a, b in ((left.norm.weight, right.norm.weight), (left.batch, right.batch)):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("normalization", ["sym", "out"])
def test_copies_are_equal_and_separate(normalization, used, device):
    operator = propagation(normalization).to(device)
    if used:
        operator.multiply(torch.ones(12, 1, dtype=torch.float64, device=device))
        operator.adjoint()
        if operator.symmetric:
            assert operator.spectrum.blocks
    saved = io.BytesIO()
    torch.save(operator, saved)
    saved.seek(0)
    for other in (
        copy.deepcopy(operator),
        pickle.loads(pickle.dumps(operator)),
        torch.load(saved, weights_only=False),
    ):
        same(operator, other)
        same(operator.adjoint(), other.adjoint())
        assert other.adjoint() is not operator.adjoint()
        other.values.zero_()
        assert operator.values.abs().sum() > 0


@pytest.mark.parametrize("normalization", ["sym", "out"])
def test_pickles_leave_out_cached_results(normalization):
    operator = propagation(normalization).to(torch.float32)
    before = len(pickle.dumps(operator))
    operator.apply(torch.ones(12, 1, requires_grad=True)).sum().backward()
    assert operator.double().adjoint().core is None
    assert operator.longest_row > 0
    if operator.symmetric:
        assert operator.spectrum.blocks
    assert len(pickle.dumps(operator)) == before


def test_an_adjoint_can_be_copied(device):
    operator = propagation("dir").to(device)
    other = pickle.loads(pickle.dumps(operator.adjoint()))
    same(other, operator.adjoint())
    same(other.adjoint(), operator)


@pytest.mark.parametrize("normalization", ["sym", "out"])
def test_converting_the_dtype_rounds_once(normalization, device):
    operator = propagation(normalization).to(device)
    assert operator.to(torch.float64) is operator
    assert operator.double() is operator
    single = operator.to(torch.float32)
    assert single.dtype is torch.float32
    torch.testing.assert_close(single.to_dense(), operator.to_dense().float(), rtol=0, atol=0)
    assert single.double() is single.double()
    torch.testing.assert_close(
        single.double().to_dense(), single.to_dense().double(), rtol=0, atol=0
    )
    assert (single.norm.kind, single.norm_bound) == (operator.norm.kind, operator.norm_bound)
    with pytest.raises(ArgumentError, match=r"'dtype' must be .*got torch\.float16"):
        operator.to(torch.float16)


def test_moving_to_the_same_device_returns_the_operator_itself(device):
    operator = propagation("sym").to(device)
    assert operator.to(operator.device) is operator
    assert operator.to(str(operator.device)) is operator


def test_moving_to_a_device_and_back_keeps_the_operator(device):
    for normalization in ("sym", "out"):
        operator = propagation(normalization)
        moved = operator.to(device)
        assert moved.device.type == moved.pattern.col.device.type == device.type
        same(moved.to("cpu"), operator)


def test_moving_a_batch_moves_all_its_tensors(device):
    operator = TestBatch().batched(TestBatch().graphs("out"), "out", "cpu").to(device)
    assert operator.batch.device.type == operator.norm.weight.device.type == device.type
    same(operator.to("cpu"), TestBatch().batched(TestBatch().graphs("out"), "out", "cpu"))


class TestDerivatives:
    """Products are twice differentiable in states and edge weights."""

    num_nodes = 5

    def build(self, normalization, weight, edge_index, flow="source_to_target"):
        if normalization == "sym":  # both directions of an edge share a weight
            edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
            weight = torch.cat([weight, weight])
        return Propagation.from_edge_index(
            edge_index, self.num_nodes, weight, normalization, flow=flow
        )

    def inputs(self, device):
        g = generator(4)
        # Directed, a repeated edge, a self-loop, an isolated node.
        edge_index = torch.tensor([[0, 0, 1, 2, 2, 1], [1, 1, 2, 0, 2, 3]])
        weight = 0.5 + torch.rand(6, dtype=torch.float64, generator=g)
        x = torch.randn(self.num_nodes, 2, dtype=torch.float64, generator=g)
        return (
            edge_index.to(device),
            weight.to(device).requires_grad_(),
            x.to(device).requires_grad_(),
        )

    @pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
    @normalizations
    def test_derivatives_match_differences(self, normalization, flow, device):
        edge_index, weight, x = self.inputs(device)

        def product(w, x):
            return self.build(normalization, w, edge_index, flow).apply(x, power=2)

        assert torch.autograd.gradcheck(product, (weight, x), nondet_tol=1e-12)
        assert torch.autograd.gradgradcheck(product, (weight, x), nondet_tol=1e-12)

    @normalizations
    def test_derivatives_of_the_adjoint_match_differences(self, normalization, device):
        edge_index, weight, x = self.inputs(device)

        def product(w, x):
            return self.build(normalization, w, edge_index).adjoint().apply(x)

        assert torch.autograd.gradcheck(product, (weight, x), nondet_tol=1e-12)

    def test_states_alone_may_require_grad(self, device):
        operator = propagation("out").to(device)
        x = torch.randn(12, 2, dtype=torch.float64, device=device, requires_grad=True)
        cotangent = torch.randn(12, 2, dtype=torch.float64, device=device)
        (grad,) = torch.autograd.grad(operator.apply(x, 3), x, cotangent)
        expected = torch.linalg.matrix_power(operator.to_dense().T, 3) @ cotangent
        torch.testing.assert_close(grad, expected)
        assert not operator.values.requires_grad

    def test_no_autograd_graph_is_recorded_without_need(self, device):
        edge_index, weight, x = self.inputs(device)
        operator = self.build("dir", weight, edge_index)
        with torch.no_grad():
            assert not operator.apply(x).requires_grad
        assert not operator.multiply(x.detach()).requires_grad
        assert operator.apply(x.detach()).requires_grad

    def test_float32_weights_have_float32_gradients(self, device):
        edge_index, weight, x = self.inputs(device)
        single = weight.detach().float().requires_grad_()
        operator = self.build("out", single, edge_index)
        assert operator.dtype is torch.float32
        (grad,) = torch.autograd.grad(operator.apply(x.detach().float()).sum(), single)
        exact = self.build("out", weight, edge_index)
        (expected,) = torch.autograd.grad(exact.apply(x.detach()).sum(), weight)
        assert grad.dtype is torch.float32
        torch.testing.assert_close(grad.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_of_summed_weights_does_not_make_a_graph_directed(dtype, device):
    for seed in range(30):
        g = generator(seed)
        edge_index = torch.randint(0, 9, (2, 40), generator=g)
        weight = torch.rand(40, generator=g, dtype=torch.float64).to(dtype)
        both = to_undirected(edge_index, weight, reduce="add")
        operator = Propagation.from_edge_index(both[0].to(device), 9, both[1].to(device))
        assert operator.normalization == "sym"
        torch.testing.assert_close(operator.to_dense(), operator.to_dense().T, rtol=1e-14, atol=0)


def test_weights_that_differ_by_more_than_rounding_stay_as_they_are(device):
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
    weight = torch.tensor([1.0, 1.0 + 1e-5, 2.0, 2.0], device=device)
    operator = Propagation.from_edge_index(edge_index, 3, weight, "none", self_loops=False)
    assert not operator.symmetric
    assert operator.to_dense()[0, 1] == weight[1]


def test_each_direction_of_an_edge_has_its_own_gradient(device):
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    weight = torch.tensor([1.0, 1.0 + 1.2e-7], device=device, requires_grad=True)
    operator = Propagation.from_edge_index(edge_index, 2, weight, "none", self_loops=False)
    assert operator.symmetric
    x = torch.tensor([[3.0], [5.0]], device=device)
    (grad,) = torch.autograd.grad(operator.apply(x)[1].sum(), weight)
    assert grad.tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    ("x", "power", "message"),
    [
        (torch.ones(11, 2, dtype=torch.float64), 1, "'x' must have 12 rows"),
        (torch.ones(12, 2), 1, "'x' must have 12 rows of torch.float64"),
        (torch.ones(12, 2, dtype=torch.float64), -1, "'power' must be an int of at least 0"),
    ],
)
def test_wrong_features_and_powers_are_refused(x, power, message, device):
    with pytest.raises(ArgumentError, match=message):
        propagation("dir").to(device).apply(x.to(device), power)
