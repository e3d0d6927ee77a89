"""Each normalisation against its formula, and each proven bound against the norm itself."""

import pytest
import torch
from torch import Tensor

from mgnni import ArgumentError, Propagation
from mgnni.graph.normalize import NORMALIZATIONS, NodeNorm
from problems import dense_propagation, generator, lopsided_edges, state_norm

FLOWS = ["source_to_target", "target_to_source"]
UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}

normalizations = pytest.mark.parametrize("normalization", NORMALIZATIONS)
flows = pytest.mark.parametrize("flow", FLOWS)
loops = pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])


def edges(normalization: str, num_nodes: int = 11, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A weighted graph with a self-loop, repeated edges and isolated nodes; undirected for sym."""
    edge_index, weight = lopsided_edges(num_nodes, seed)
    if normalization == "sym":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        weight = torch.cat([weight, weight])
    return edge_index, weight


def operator_norm(dense: Tensor, norm: NodeNorm) -> float:
    r"""The exact norm of a matrix on vector-valued node states.

    ``max``: :math:`\max_i \sum_j |P_{ij}| w_j / w_i`; ``sum``: that of the transpose.
    """
    if norm.kind == "frobenius":
        return torch.linalg.svdvals(dense)[0].item()
    w = norm.weight.cpu()
    if norm.kind == "max":
        return (dense.abs() @ w / w).max().item()
    return (dense.T.abs() @ w / w).max().item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@loops
@flows
@normalizations
def test_entries_follow_the_formula(normalization, flow, self_loops, dtype, device):
    edge_index, weight = edges(normalization)
    operator = Propagation.from_edge_index(
        edge_index.to(device),
        11,
        weight.to(device),
        normalization,
        self_loops,
        flow=flow,
        dtype=dtype,
    )
    expected = dense_propagation(edge_index, 11, weight, normalization, self_loops, flow)
    assert operator.dtype is dtype
    assert operator.normalization == normalization
    # A handful of operations in float64 each, then one rounding to the type of the operator.
    slack = 16 * UNIT[torch.float64] + (0 if dtype is torch.float64 else UNIT[dtype])
    torch.testing.assert_close(
        operator.to_dense().double().cpu(), expected, rtol=slack, atol=0, check_device=False
    )
    x = torch.randn(11, 3, dtype=dtype, device=device)
    product = expected @ x.double().cpu()
    size = expected.abs() @ x.double().cpu().abs()
    error = (operator.multiply(x).double().cpu() - product).abs()
    assert bool((error <= 14 * UNIT[dtype] * size).all())


@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_weights_are_ones_by_default(self_loops, device):
    edge_index, _ = edges("dir")
    ones = torch.ones(edge_index.size(1), dtype=torch.float64)
    operator = Propagation.from_edge_index(
        edge_index.to(device), 11, None, "dir", self_loops, dtype=torch.float64
    )
    expected = dense_propagation(edge_index, 11, ones, "dir", self_loops)
    torch.testing.assert_close(operator.to_dense().cpu(), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("seed", range(5))
@loops
@flows
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_the_proven_bound_is_the_norm_itself(normalization, flow, self_loops, seed, device):
    """The bound is tight: these four have norm one exactly."""
    edge_index, weight = edges(normalization, seed=seed)
    operator = Propagation.from_edge_index(
        edge_index.to(device),
        11,
        weight.to(device),
        normalization,
        self_loops,
        flow=flow,
        dtype=torch.float64,
    )
    dense = dense_propagation(edge_index, 11, weight, normalization, self_loops, flow)
    assert operator.norm_bound == 1.0
    assert operator_norm(dense, operator.norm) == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
@loops
@flows
def test_the_bound_of_given_weights_holds_with_signs(flow, self_loops, seed, device):
    edge_index, weight = edges("none", seed=seed)
    weight = weight * torch.randn(weight.numel(), dtype=torch.float64, generator=generator(seed))
    operator = Propagation.from_edge_index(
        edge_index.to(device),
        11,
        weight.to(device),
        "none",
        self_loops,
        flow=flow,
        dtype=torch.float64,
    )
    dense = dense_propagation(edge_index, 11, weight, "none", self_loops, flow)
    rows, columns = dense.abs().sum(1).max().item(), dense.abs().sum(0).max().item()
    assert operator_norm(dense, operator.norm) <= operator.norm_bound * (1 + 1e-14)
    assert operator.norm_bound == pytest.approx(min(rows, columns), rel=1e-14)


def test_the_bound_of_given_weights_is_that_of_both_flows(device):
    """One heavy row and light columns: the smaller bound is chosen, which depends on the flow."""
    edge_index = torch.tensor([[0, 0, 0], [1, 2, 3]], device=device)
    there, back = (
        Propagation.from_edge_index(edge_index, 4, normalization="none", self_loops=False, flow=f)
        for f in FLOWS
    )
    # S has the row (0, 1, 1, 1): row sum 3, column sums 1, so ||S||_2 = sqrt(3) > 1.
    assert (there.norm_bound, back.norm_bound) == (1.0, 1.0)
    assert (there.norm.kind, back.norm.kind) == ("max", "sum")


@flows
@normalizations
def test_no_state_grows_by_more_than_the_bound(normalization, flow, device):
    for seed in range(20):
        edge_index, weight = edges(normalization, seed=seed)
        operator = Propagation.from_edge_index(
            edge_index.to(device),
            11,
            weight.to(device),
            normalization,
            seed % 2 == 0,
            flow=flow,
            dtype=torch.float64,
        )
        states = [torch.randn(11, 3, dtype=torch.float64) for _ in range(5)]
        states += [
            torch.ones(11, 1, dtype=torch.float64),
            torch.eye(11, dtype=torch.float64)[:, :1],
        ]
        if operator.norm.weight is not None:
            states.append(operator.norm.weight.cpu().unsqueeze(1))
            states.append(1 / operator.norm.weight.cpu().unsqueeze(1))
        for state in states:
            x = state.to(device)
            limit = operator.norm_bound * state_norm(operator, x)
            assert state_norm(operator, operator.multiply(x)) <= limit * (1 + 1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_rounded_entries_exceed_the_bound_by_their_unit_at_most(normalization, dtype, device):
    """Thirds in float32 sum to more than one: the bound is that of the exact entries."""
    largest = 0.0
    for size in range(2, 9):
        nodes = torch.arange(size)
        edge_index = torch.cartesian_prod(nodes, nodes).T
        edge_index = edge_index[:, edge_index[0] != edge_index[1]].to(device)
        operator = Propagation.from_edge_index(
            edge_index, size, normalization=normalization, dtype=dtype
        )
        norm = operator_norm(operator.to_dense().double().cpu(), operator.norm)
        assert norm <= operator.norm_bound * (1 + operator.unit)
        wide = operator.double()  # the same entries, which were rounded before
        assert norm <= wide.norm_bound * (1 + wide.unit)
        largest = max(largest, norm)
    assert dtype is torch.float64 or largest > 1 + 1e-9, "no case with a norm above one"


@flows
def test_a_directed_star_expands_but_contracts_in_its_own_norm(flow, device):
    """Fifty leaves that point at a hub: out-degree normalisation does not bound ||S||_2 by one."""
    leaves = torch.arange(1, 51)
    edge_index = torch.stack([leaves, torch.zeros_like(leaves)])
    operator = Propagation.from_edge_index(
        edge_index.to(device), 51, normalization="out", flow=flow, dtype=torch.float64
    )
    dense = operator.to_dense().cpu()
    # Leaves have out-degree 2 with their loop, the hub 1: S[leaf, hub] = 2^{-1/2}, fifty times.
    assert torch.linalg.matrix_norm(dense, 2).item() > 5
    assert operator.norm_bound == 1.0
    assert operator.norm.kind == ("sum" if flow == "source_to_target" else "max")
    assert operator_norm(dense, operator.norm) == pytest.approx(1.0, abs=1e-14)
    expected = torch.tensor([1.0] + [2.0**0.5] * 50, dtype=torch.float64)
    torch.testing.assert_close(operator.norm.weight.cpu(), expected)


@pytest.mark.parametrize(
    ("normalization", "kind", "reason"),
    [
        ("sym", "frobenius", "symmetric"),
        ("dir", "frobenius", "Schur"),
        ("out", "sum", "row-stochastic"),
        ("row", "sum", "rows of S sum to at most one"),
        ("none", "max|sum|frobenius", "sum|norm"),
    ],
)
def test_the_reason_names_the_argument_of_the_proof(normalization, kind, reason, device):
    edge_index, weight = edges(normalization)
    operator = Propagation.from_edge_index(
        edge_index.to(device), 11, weight.to(device), normalization, dtype=torch.float64
    )
    assert operator.norm.kind in kind.split("|")
    assert any(word in operator.reason for word in reason.split("|"))


def test_a_bound_given_by_the_user_replaces_the_proof(device):
    edge_index, weight = edges("none")
    operator = Propagation.from_edge_index(
        edge_index.to(device), 11, weight.to(device), "none", norm_bound=7.5
    )
    assert (operator.norm_bound, operator.norm.kind) == (7.5, "frobenius")
    assert "caller" in operator.reason


def test_zero_degrees_give_zero_entries(device):
    """A node whose weights are all zero has degree zero; its row and column are zero, not nan."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64, device=device)
    for normalization in ("sym", "dir", "out", "row"):
        operator = Propagation.from_edge_index(edge_index, 3, weight, normalization, False)
        expected = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float64)
        torch.testing.assert_close(operator.to_dense().cpu(), expected)
        assert operator_norm(expected, operator.norm) <= operator.norm_bound


def test_the_dual_of_the_dual_is_the_norm():
    w = torch.tensor([1.0, 2.0])
    for kind, dual in (("frobenius", "frobenius"), ("max", "sum"), ("sum", "max")):
        norm = NodeNorm(kind, w)
        assert norm.dual().kind == dual
        assert norm.dual().weight is w
        assert norm.dual().dual().kind == kind


@pytest.mark.parametrize("size", [1e308, 1e-310])
@pytest.mark.parametrize("normalization", ["dir", "out", "row"])
def test_extreme_degrees_are_handled_or_refused(normalization, size, device):
    """Overflow in a sum or an inverse must not give entries of 0 or inf."""
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]], device=device)
    weight = torch.full((4,), size, dtype=torch.float64, device=device)
    ones = torch.ones(4, dtype=torch.float64)
    try:
        operator = Propagation.from_edge_index(edge_index, 3, weight, normalization, False)
    except ArgumentError:
        return
    expected = dense_propagation(edge_index.cpu(), 3, ones, normalization, False)
    torch.testing.assert_close(operator.to_dense().cpu(), expected, rtol=1e-12, atol=0)
