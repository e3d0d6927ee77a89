"""First derivatives: implicit, unrolled and dense agree, for every solver and every input."""

import pytest
import torch

from implicit.cases import (
    ADMITTED,
    GAMMA,
    NORMALIZATIONS,
    SCALES,
    TIGHT,
    assert_all_close,
    dense,
    edges,
    implicit,
    normal,
    operator,
    unrolled,
    weights,
)
from mgnni import Propagation
from mgnni.implicit.linear import equilibria
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.solve.result import Options, SolveLog
from problems import chain, lopsided_edges


def one_node(device):
    """A cotangent that is zero except at node 3, where it differs by scale."""
    cotangent = torch.zeros(len(SCALES), 8, 3, dtype=torch.float64, device=device)
    cotangent[:, 3] = normal(len(SCALES), 3, device=device, seed=7)
    return cotangent


def gradients(solve, normalization, device, kind, cotangent):
    """Gradients of bias, weight and edge weight through the states that ``solve`` returns."""
    edge_index, edge_weight = edges(normalization, device)
    w, bias = weights(kind, device), normal(8, 3, device=device)
    leaves = [bias, w, edge_weight]
    for leaf in leaves:
        leaf.requires_grad_()
    z = solve(operator(normalization, edge_index, edge_weight), w, bias)
    return torch.autograd.grad((z * cotangent).sum(), leaves)


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize(("normalization", "kind", "solver"), ADMITTED)
def test_gradients_of_a_loss_on_one_node_match_the_dense_solution(
    normalization, kind, solver, memory, device
):
    cotangent = one_node(device)
    ours = gradients(
        lambda *args: implicit(*args, solver, memory), normalization, device, kind, cotangent
    )
    want = gradients(dense, normalization, device, kind, cotangent)
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize(
    ("normalization", "kind"),
    [*((normalization, "general") for normalization in NORMALIZATIONS), ("sym", "psd")],
)
def test_gradients_match_those_through_two_thousand_steps(normalization, kind, device):
    cotangent = normal(len(SCALES), 8, 3, device=device, seed=7)
    ours = gradients(implicit, normalization, device, kind, cotangent)
    want = gradients(unrolled, normalization, device, kind, cotangent)
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("kind", ["indefinite", "identity", "rank-one"])
@pytest.mark.parametrize("normalization", ["sym", "dir"])
def test_gradients_match_for_weights_of_other_spectra(normalization, kind, device):
    cotangent = one_node(device)
    ours = gradients(implicit, normalization, device, kind, cotangent)
    want = gradients(dense, normalization, device, kind, cotangent)
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_gradients_reach_the_factor_of_the_contraction(normalization, device):
    propagation = operator(normalization, *edges(normalization, device))
    factor = normal(len(SCALES), 3, 3, device=device, seed=2).requires_grad_()
    bias = normal(8, 3, device=device)
    cotangent = one_node(device)
    states = [solve(propagation, normalized_gram(factor), bias) for solve in (implicit, dense)]
    ours, want = (torch.autograd.grad((z * cotangent).sum(), factor) for z in states)
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("solver", ["auto", "cg", "chebyshev", "spectral", "picard", "gmres"])
def test_edges_of_a_symmetric_operator_have_gradients_of_their_own(solver, device):
    # P equals its transpose in numbers, but the derivatives by P_ij and by P_ji differ.
    forth = torch.stack([torch.arange(7), torch.arange(1, 8)]).to(device)
    edge_index = torch.cat([forth, forth.flip(0)], dim=1)
    edge_weight = torch.ones(14, dtype=torch.float64, device=device, requires_grad=True)
    propagation = Propagation.from_edge_index(edge_index, 8, edge_weight)
    assert propagation.symmetric
    w, bias, cotangent = weights("psd", device), normal(8, 3, device=device), one_node(device)
    states = [implicit(propagation, w, bias, solver), dense(propagation, w, bias)]
    ours, want = (
        torch.autograd.grad((z * cotangent).sum(), edge_weight, retain_graph=True) for z in states
    )
    assert (want[0][:7] - want[0][7:]).abs().max() > 0.01
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_any_choice_of_inputs_may_require_gradients(wanted, device):
    edge_index, edge_weight = edges("dir", device)
    inputs = [normal(8, 3, device=device), weights("general", device), edge_weight]
    cotangent = one_node(device)
    for index in wanted:
        inputs[index].requires_grad_()
    leaves = [inputs[index] for index in wanted]
    propagation = operator("dir", edge_index, edge_weight)
    z = implicit(propagation, inputs[1], inputs[0])
    ours = torch.autograd.grad((z * cotangent).sum(), leaves, retain_graph=True)
    z = dense(propagation, inputs[1], inputs[0])
    assert_all_close(ours, torch.autograd.grad((z * cotangent).sum(), leaves), rtol=1e-8)


def test_a_loss_on_one_scale_has_no_gradient_for_the_others(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = weights("general", device).requires_grad_(), normal(8, 3, device=device)
    states = [implicit(propagation, w, bias)[1], dense(propagation, w, bias)[1]]
    (ours,), (want,) = (torch.autograd.grad(z.square().sum(), w) for z in states)
    assert ours[0].abs().max() == ours[2].abs().max() == 0
    assert_all_close((ours[1],), (want[1],), rtol=1e-8)


def test_fast_and_low_memory_agree_to_rounding(device):
    cotangent = normal(len(SCALES), 8, 3, device=device, seed=7)
    fast = gradients(implicit, "dir", device, "psd", cotangent)
    low = gradients(lambda *a: implicit(*a, memory="low"), "dir", device, "psd", cotangent)
    assert_all_close(low, fast, rtol=1e-14)


def test_gradients_in_float32_are_those_of_float64(device):
    cotangent = normal(len(SCALES), 8, 3, device=device, seed=7)
    want = gradients(dense, "dir", device, "psd", cotangent)
    edge_index, edge_weight = edges("dir", device)
    leaves = [normal(8, 3, device=device), weights("psd", device), edge_weight]
    bias, w, edge_weight = (leaf.float().requires_grad_() for leaf in leaves)
    propagation = Propagation.from_edge_index(edge_index, 8, edge_weight, "dir")
    z, log = equilibria(propagation, w, bias, SCALES, GAMMA)  # with the default tolerance
    assert z.dtype is torch.float32
    got = torch.autograd.grad((z * cotangent.float()).sum(), [bias, w, edge_weight])
    assert {g.dtype for g in got} == {torch.float32}
    assert all(stats.converged for stats in (*log.forward, *log.backward))
    assert_all_close(got, want, rtol=1e-5)


@pytest.mark.parametrize("solver", ["auto", "picard", "anderson", "gmres", "cg", "spectral"])
@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_gradients_are_linear_in_the_cotangent_however_large(size, solver, device):
    # A model that fits its data makes every cotangent tiny: softmax gives 1e-20 and less.
    propagation = operator("sym", *edges("sym", device)).to(torch.float32)
    w = weights("psd", device).float().requires_grad_()
    bias = normal(8, 3, device=device).float().requires_grad_()
    z, _ = equilibria(propagation, w, bias, SCALES, GAMMA, options=Options(solver))
    cotangent = one_node(device).float()
    want = torch.autograd.grad(z, [bias, w], cotangent, retain_graph=True)
    got = torch.autograd.grad(z, [bias, w], size * cotangent)
    assert_all_close(tuple(g.double() / size for g in got), want, rtol=1e-5)


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_gradients_without_edges_are_those_of_the_closed_form(num_nodes, self_loops, device):
    # With P = I the equation is Z = gamma Z W + B, without self-loops it is Z = B.
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    propagation = Propagation.from_edge_index(
        none, num_nodes, self_loops=self_loops, dtype=torch.float64
    )
    w = weights("general", device).requires_grad_()
    bias = normal(num_nodes, 3, device=device).requires_grad_()
    cotangent = normal(len(SCALES), num_nodes, 3, device=device, seed=7)
    z, log = equilibria(propagation, w, bias, SCALES, GAMMA, options=TIGHT)
    resolvent = torch.linalg.inv(torch.eye(3, device=device) - GAMMA * self_loops * w)
    want = bias @ resolvent
    torch.testing.assert_close(z, want, rtol=1e-11, atol=0)
    ours = torch.autograd.grad((z * cotangent).sum(), [bias, w])
    for got, known in zip(
        ours, torch.autograd.grad((want * cotangent).sum(), [bias, w]), strict=True
    ):
        torch.testing.assert_close(got, known, rtol=1e-10, atol=1e-15)
    assert all(stats.converged for stats in (*log.forward, *log.backward))


def test_a_loss_on_an_isolated_node_stays_there(device):
    edge_index, edge_weight = (t.to(device) for t in lopsided_edges(8))
    assert 7 not in edge_index  # with its self-loop, P acts on it as the identity
    propagation = Propagation.from_edge_index(edge_index, 8, edge_weight, "dir")
    w = weights("general", device).requires_grad_()
    bias = normal(8, 3, device=device).requires_grad_()
    z = implicit(propagation, w, bias)
    ours = torch.autograd.grad(z[:, 7].sum(), [bias, w])
    assert ours[0][:7].abs().max() == 0
    alone = bias[7] @ torch.linalg.inv(torch.eye(3, device=device) - GAMMA * w)
    want = torch.autograd.grad(alone.sum(), [bias, w])
    assert_all_close(ours, want, rtol=1e-10)


@pytest.mark.parametrize("solver", ["auto", "picard", "anderson", "gmres", "cg", "spectral"])
def test_gradients_of_a_graph_do_not_depend_on_its_batch(solver, device):
    # One graph is huge and one has no loss; neither may loosen the tolerance of the others.
    sizes, sizes_of_bias = (8, 5, 6), (1.0, 1e9, 1e-9)
    parts, batch, start = [], [], 0
    for index, size in enumerate(sizes):
        parts.append(chain(size) + start)
        batch += [index] * size
        start += size
    edge_index, batch = torch.cat(parts, 1).to(device), torch.tensor(batch, device=device)
    together = Propagation.from_edge_index(edge_index, start, batch=batch, dtype=torch.float64)
    w = weights("psd", device)
    bias = normal(start, 3, device=device) * torch.tensor(sizes_of_bias, device=device)[batch, None]
    cotangent = normal(len(SCALES), start, 3, device=device, seed=7)
    cotangent *= torch.tensor([1.0, 0.0, 1e-9], device=device)[batch, None]
    bias.requires_grad_()
    options = Options(solver, 1e-10)
    z, log = equilibria(together, w, bias, SCALES, GAMMA, options=options)
    (ours,) = torch.autograd.grad((z * cotangent).sum(), bias)
    for index, size in enumerate(sizes):
        nodes = batch == index
        alone = Propagation.from_edge_index(chain(size).to(device), size, dtype=torch.float64)
        own = bias[nodes].detach().requires_grad_()
        (want,) = torch.autograd.grad((dense(alone, w, own) * cotangent[:, nodes]).sum(), own)
        if index == 1:
            assert ours[nodes].abs().max() == 0
        else:
            assert_all_close((ours[nodes],), (want,), rtol=1e-9)
    assert all(len(stats.graph_iterations) == 3 for stats in log.backward)


def test_the_worst_error_bound_is_taken_over_both_passes(device):
    propagation = operator("dir", *edges("dir", device))
    bias = normal(8, 3, device=device).requires_grad_()
    z, log = equilibria(propagation, weights("psd", device), bias, SCALES, GAMMA)
    before = log.worst_error_bound
    assert before == max(stats.error_bound for stats in log.forward) > 0
    (1e6 * z).sum().backward()
    assert log.worst_error_bound == max(stats.error_bound for stats in log.backward) > before
    assert SolveLog().worst_error_bound == 0
