"""The implicit layer: the dense solution of every scale, and the log of its solves."""

import copy
import pickle

import pytest
import torch

from mgnni import ArgumentError, MultiscaleEquilibrium, Propagation, SolveLog, Status
from mgnni.implicit.normalized_gram import normalized_gram
from problems import dense_solution, generator, propagation

CHANNELS, SCALES, GAMMA = 4, (1, 2, 3), 0.9


def make_layer(device, **options):
    options = {"tol": 1e-12, **options}
    layer = MultiscaleEquilibrium(CHANNELS, SCALES, GAMMA, **options)
    return layer.to(device, torch.float64)


def normal(*shape, device, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def dense_states(layer, bias, operator):
    """One dense solve per scale, with g(F) from its formula."""
    states = []
    for factor, scale in zip(layer.factor, SCALES, strict=True):
        gram = factor.T @ factor
        weight = gram / (gram.square().sum().sqrt() + 1e-12)
        states.append(dense_solution(operator, weight, bias, scale, GAMMA))
    return torch.stack(states)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "row"])
def test_states_and_gradients_are_those_of_the_dense_solution(kind, training, device):
    # Evaluation mode does not disable gradients.
    layer = make_layer(device).train(training)
    operator = propagation(kind).to(device)
    bias = normal(12, CHANNELS, device=device).requires_grad_()
    states = [layer(bias, operator), dense_states(layer, bias, operator)]
    torch.testing.assert_close(states[0], states[1], rtol=1e-9, atol=1e-11)
    assert states[0].shape == (3, 12, CHANNELS)
    inputs = [bias, layer.factor]
    ours, want = (torch.autograd.grad(z[:, 5].pow(3).sum(), inputs) for z in states)
    for got, known in zip(ours, want, strict=True):
        torch.testing.assert_close(got, known, rtol=1e-8, atol=1e-10)


def test_the_log_has_records_of_both_passes(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    assert layer.log == SolveLog()
    bias = normal(12, CHANNELS, device=device).requires_grad_()
    z = layer(bias, operator)
    assert [stats.scale for stats in layer.log.forward] == list(SCALES)
    assert layer.log.backward == ()
    z.sum().backward()
    norms = [torch.linalg.matrix_norm(w, 2).item() for w in normalized_gram(layer.factor)]
    for stats, other, norm in zip(layer.log.forward, layer.log.backward, norms, strict=True):
        assert stats.status is other.status is Status.CONVERGED
        assert stats.contraction == pytest.approx(GAMMA * norm, rel=1e-12)
        assert other.contraction == pytest.approx(GAMMA * norm, rel=1e-12)
        assert stats.solver == other.solver == "series"


def test_every_pass_has_its_own_log(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    first = layer(normal(12, CHANNELS, device=device).requires_grad_(), operator)
    first_log = layer.log
    layer(normal(12, CHANNELS, device=device, seed=2), operator)
    assert layer.log is not first_log
    first.sum().backward()
    assert len(first_log.backward) == 3
    assert layer.log.backward == ()


def test_a_backward_hook_sees_the_gradients_of_output_and_input(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    bias = normal(12, CHANNELS, device=device).requires_grad_()
    (want,) = torch.autograd.grad(dense_states(layer, bias, operator).pow(2).sum(), bias)
    seen = []
    layer.register_full_backward_hook(lambda module, inner, outer: seen.append((inner, outer)))
    z = layer(bias, operator)
    z.pow(2).sum().backward()
    ((inner, outer),) = seen
    torch.testing.assert_close(outer[0], 2 * z.detach())
    torch.testing.assert_close(inner[0], want, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(bias.grad, want, rtol=1e-8, atol=1e-10)


def test_a_forward_hook_may_replace_the_states(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    bias = normal(12, CHANNELS, device=device)
    want = 2 * layer(bias, operator)
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)
    torch.testing.assert_close(layer(bias, operator), want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_is_converted_to_that_of_the_operator(dtype, device):
    layer = make_layer(device, tol=1e-6).to(dtype)
    operator = propagation("sym").to(device).to(torch.float32)
    bias = normal(12, CHANNELS, device=device).to(dtype).requires_grad_()
    z = layer(bias, operator)
    assert z.dtype is torch.float32
    exact = make_layer(device)
    exact.load_state_dict(layer.state_dict())
    want = dense_states(exact, bias.double(), operator)
    torch.testing.assert_close(z.double(), want, rtol=1e-5, atol=1e-5)
    z.sum().backward()
    assert bias.grad.dtype is layer.factor.grad.dtype is dtype
    assert all(stats.converged for stats in (*layer.log.forward, *layer.log.backward))


@pytest.mark.parametrize("contraction", ["frobenius", "identity"])  # identity: no parameters
def test_a_float64_layer_refuses_a_float32_operator(contraction, device):
    layer = make_layer(device, contraction=contraction)
    operator = propagation("sym").to(device).to(torch.float32)
    with pytest.raises(ArgumentError, match=r"'propagation' .*float64.*got torch\.float32"):
        layer(normal(12, CHANNELS, device=device), operator)


def test_autocast_does_not_lower_the_precision_of_the_states(device):
    layer = make_layer(device, tol=1e-6).float()
    operator = propagation("sym").to(device).to(torch.float32)
    bias = normal(12, CHANNELS, device=device).float()
    want = layer(bias, operator)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        z = layer(bias, operator)
    assert z.dtype is torch.float32
    torch.testing.assert_close(z, want, rtol=0, atol=0)


def test_every_factor_has_xavier_initialisation(device):
    layer = MultiscaleEquilibrium(200, (1, 2, 3)).to(device)
    limit = (6 / 400) ** 0.5
    for factor in layer.factor.detach():
        assert factor.abs().max() <= limit
        assert factor.std().item() == pytest.approx(limit / 3**0.5, rel=0.02)
    assert (layer.factor[0] != layer.factor[1]).any()


def test_reset_parameters_draws_new_factors_from_the_seed(device):
    layer = make_layer(device)
    before = layer.factor.detach().clone()
    torch.manual_seed(5)
    layer.reset_parameters()
    once = layer.factor.detach().clone()
    torch.manual_seed(5)
    layer.reset_parameters()
    assert (before != once).any(dim=-1).all()
    torch.testing.assert_close(layer.factor.detach(), once, rtol=0, atol=0)
    assert layer.factor.requires_grad
    assert layer.factor.is_leaf


def test_copies_and_pickles_give_the_same_states_and_share_nothing(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    bias = normal(12, CHANNELS, device=device).requires_grad_()
    want = layer(bias, operator)
    want.sum().backward()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(other(bias, operator), want, rtol=0, atol=0)
        with torch.no_grad():
            other.factor.add_(1.0)
        assert (other.factor != layer.factor).all()


def test_the_repr_names_the_options():
    layer = MultiscaleEquilibrium(5, [1, 3], 0.7, solver="picard", tol=1e-4)
    assert repr(layer) == (
        "MultiscaleEquilibrium(5, scales=(1, 3), gamma=0.7, solver='picard', tol=0.0001)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scales": ()}, r"'scales' .*got \(\).*\(1, 2\)"),
        ({"scales": (1, 1)}, r"'scales' .*not repeat.*\(1, 1\)"),
        ({"scales": (0,)}, r"'scales' .*at least 1.*got 0"),
        ({"gamma": 1.0}, r"'gamma' .*got 1\.0"),
        ({"tol": 2.0}, r"'tol' .*got 2\.0"),
        ({"max_iter": -1}, r"'max_iter' .*got -1"),
        ({"solver": "gremes"}, r"'solver' .*got 'gremes'.*did you mean 'gmres'"),
        ({"memory": "slow"}, r"'memory' .*got 'slow'.*did you mean 'low'"),
        ({"on_failure": "warm"}, r"'on_failure' .*got 'warm'.*did you mean 'warn'"),
    ],
)
def test_bad_options_are_refused_when_the_layer_is_made(options, message):
    with pytest.raises(ArgumentError, match=message):
        MultiscaleEquilibrium(4, **options)


def test_a_bias_that_does_not_fit_the_graph_is_refused(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    with pytest.raises(ArgumentError, match=r"'bias' .*\(12, channels\).*got \(11, 4\)"):
        layer(normal(11, CHANNELS, device=device), operator)
    with pytest.raises(ArgumentError, match=r"'weight' .*\(5, 5\).*as bias has 5 channels"):
        layer(normal(12, 5, device=device), operator)
    with pytest.raises(ArgumentError, match=r"'propagation' .*Propagation\.from_edge_index"):
        layer(normal(12, CHANNELS, device=device), torch.zeros(2, 0, dtype=torch.long))


def test_graphs_without_nodes_and_with_one_node_are_solved(device):
    layer = make_layer(device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    empty = Propagation.from_edge_index(none, 0, dtype=torch.float64)
    assert layer(normal(0, CHANNELS, device=device), empty).shape == (3, 0, CHANNELS)
    single = Propagation.from_edge_index(none, 1, dtype=torch.float64)  # P = [[1]]
    bias = normal(1, CHANNELS, device=device)
    eye = torch.eye(CHANNELS, dtype=torch.float64, device=device)
    want = bias @ torch.linalg.inv(eye - GAMMA * normalized_gram(layer.factor))
    torch.testing.assert_close(layer(bias, single), want, rtol=1e-10, atol=1e-12)


def reused(layer, log):
    """Whether the last pass reused the solution of an earlier one."""
    assert layer.log is not log
    return layer.log.forward_records[0] is log.forward_records[0]


@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_a_training_pass_reuses_the_solution_of_the_validation_pass(kind, device):
    layer = make_layer(device)
    operator = propagation(kind).to(device)
    bias = normal(12, CHANNELS, device=device)
    with torch.no_grad():
        evaluated = layer.eval()(bias, operator)
    log = layer.log
    z = layer.train()(bias, operator)
    assert reused(layer, log)
    assert layer.log.forward == log.forward
    torch.testing.assert_close(z, evaluated, rtol=0, atol=0)
    ours, want = (
        torch.autograd.grad(states[:, 5].pow(3).sum(), layer.factor)[0]
        for states in (z, dense_states(layer, bias, operator))
    )
    torch.testing.assert_close(ours, want, rtol=1e-8, atol=1e-10)
    with torch.no_grad():
        layer.factor.add_(0.1)
    changed = layer(bias, operator)
    assert not reused(layer, log)
    torch.testing.assert_close(changed, dense_states(layer, bias, operator), rtol=1e-9, atol=1e-11)


def test_states_changed_in_place_do_not_change_those_of_the_next_pass(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    bias = normal(12, CHANNELS, device=device)
    with torch.no_grad():
        states, log = layer(bias, operator), layer.log
        want = states.clone()
        states.relu_()
        torch.testing.assert_close(layer(bias, operator), want, rtol=0, atol=0)
        states.data.zero_()  # which no version counter notices
        torch.testing.assert_close(layer(bias, operator), want, rtol=0, atol=0)
    assert reused(layer, log)


def test_runs_under_vmap_reuse_their_solution_together(device):
    layer = make_layer(device)
    operator = propagation("sym").to(device)
    bias = normal(12, CHANNELS, device=device)
    factors = normal(2, 3, CHANNELS, CHANNELS, device=device, seed=3).requires_grad_()

    def run(factor):
        return torch.func.functional_call(layer, {"factor": factor}, (bias, operator))

    with torch.no_grad():
        torch.func.vmap(run)(factors)
    log = layer.log
    z = torch.func.vmap(run)(factors)
    assert reused(layer, log)
    (grad,) = torch.autograd.grad(z[:, :, 5].pow(3).sum(), factors)
    for got, factor in zip(grad, factors.detach(), strict=True):
        alone = make_layer(device)
        alone.load_state_dict({"factor": factor})
        dense = dense_states(alone, bias, operator)
        (want,) = torch.autograd.grad(dense[:, 5].pow(3).sum(), alone.factor)
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_second_derivatives_of_reused_states_are_those_of_the_dense_solution(device):
    layer = make_layer(device)
    operator = propagation("dir").to(device)
    bias = normal(12, CHANNELS, device=device).requires_grad_()
    with torch.no_grad():
        layer(bias, operator)
    found = []
    for states in (layer(bias, operator), dense_states(layer, bias, operator)):
        (grad,) = torch.autograd.grad(states.pow(3).sum(), bias, create_graph=True)
        found.append(torch.autograd.grad(grad[5].pow(2).sum(), layer.factor)[0])
    torch.testing.assert_close(*found, rtol=1e-7, atol=1e-8)


def test_low_memory_keeps_no_states_and_no_wide_weights(device):
    layer = MultiscaleEquilibrium(513, (1,), memory="low").to(device)
    operator = propagation("sym").to(device).to(torch.float32)
    bias = normal(12, 513, device=device).float()
    with torch.no_grad():
        layer(bias, operator)
        log = layer.log
        layer(bias, operator)
    assert not reused(layer, log)
    assert layer._cache.previous is None
    assert layer._cache.gram is None


def test_states_and_gradients_of_a_wide_layer_are_exact(device):
    layer = MultiscaleEquilibrium(530, (1, 2), GAMMA).to(device)
    operator = propagation("sym").to(device)
    bias = normal(12, 530, device=device)
    z = layer(bias.float(), operator.to(torch.float32))
    assert {stats.solver for stats in layer.log.forward} == {"wide"}
    (grad,) = torch.autograd.grad(z[:, 5].pow(3).sum(), layer.factor)
    exact = layer.factor.detach().double().requires_grad_()
    s, v = torch.linalg.eigh(operator.to_dense())
    states = []
    for factor, scale in zip(exact, (1, 2), strict=True):
        gram = factor.T @ factor
        w = GAMMA * gram / gram.square().sum().sqrt()
        eye = torch.eye(530, dtype=torch.float64, device=device)
        rows = [
            torch.linalg.solve(eye - one * w, row)
            for one, row in zip(s**scale, v.T @ bias, strict=True)
        ]
        states.append(v @ torch.stack(rows))
    want = torch.stack(states)
    torch.testing.assert_close(z.double(), want, rtol=1e-5, atol=1e-5)
    (want_grad,) = torch.autograd.grad(want[:, 5].pow(3).sum(), exact)
    assert (grad.double() - want_grad).norm() <= 1e-4 * want_grad.norm()
