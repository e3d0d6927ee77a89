"""What a layer keeps between passes is used for the same equations, and for no others."""

import pytest
import torch

from mgnni.implicit.cache import Cache
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options
from problems import dense_solution, generator, propagation, weight

SCALES, GAMMA, CHANNELS = (1, 3), 0.9, 4


def weights(kind, device, seed=0):
    ws = [weight(kind, CHANNELS, seed + i) for i in range(len(SCALES))]
    return torch.stack(ws).to(device)


def normal(device, seed=0):
    shape = 12, CHANNELS
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def solved(cache, operator, w, bias, scales=SCALES, gamma=GAMMA, **options):
    """Solves with the cache, and compares the states with dense algebra."""
    options = Options(**{"tol": 1e-12, **options})
    z, log = equilibria(operator, w, bias, scales, gamma, options=options, cache=cache)
    dense = [
        dense_solution(operator, one, bias, m, gamma) for one, m in zip(w, scales, strict=True)
    ]
    error = (z - torch.stack(dense)).flatten(1).norm(dim=1)
    for stats, one in zip(log.forward, error.tolist(), strict=True):
        assert stats.tol == options.tol
        assert stats.relative_residual <= options.tol
        assert one <= stats.error_bound
    return z, log


@pytest.fixture(params=["sym", "dir"])
def operator(request, device):
    return propagation(request.param).to(device)


@pytest.fixture(params=["random", "general"])
def form(request):
    """Symmetric weights have eigenpairs and expansions to reuse; others have not."""
    return request.param


def test_another_bias_has_another_solution(operator, form, device):
    cache, w = Cache(), weights(form, device)
    for seed in range(3):
        solved(cache, operator, w, normal(device, seed))


def test_other_weights_have_another_solution(operator, form, device):
    cache, bias = Cache(), normal(device)
    for seed in range(3):
        solved(cache, operator, weights(form, device, seed), bias)


def test_weights_changed_in_place_have_another_solution(operator, form, device):
    cache, w, bias = Cache(), weights(form, device), normal(device)
    solved(cache, operator, w, bias)
    w.mul_(0.5)
    solved(cache, operator, w, bias)


def test_another_gamma_has_another_solution(operator, form, device):
    cache, w, bias = Cache(), weights(form, device), normal(device)
    for gamma in (0.3, 0.95, 0.0):
        solved(cache, operator, w, bias, gamma=gamma)


def test_other_scales_have_another_solution(operator, form, device):
    cache, w, bias = Cache(), weights(form, device), normal(device)
    for scales in ((1, 3), (3, 1), (2, 5)):
        solved(cache, operator, w, bias, scales=scales)


@pytest.mark.parametrize("solver", ["auto", "series"])
def test_another_graph_has_another_solution(solver, form, device):
    """Directed or not, and of other norms, which expansions depend on."""
    if solver == "series" and form == "general":
        pytest.skip("the series needs symmetric weights")
    cache, w, bias = Cache(), weights(form, device), normal(device)
    for kind in ("none", "sym", "dir", "row", "none", "sym"):
        operator = propagation(kind, self_loops=kind != "none").to(device)
        solved(cache, operator, w, bias, solver=solver)


def test_a_stricter_tolerance_is_met_after_a_loose_one(operator, form, device):
    cache, w, bias = Cache(), weights(form, device), normal(device)
    for tol in (1e-2, 1e-12, 1e-4):
        solved(cache, operator, w, bias, tol=tol)


def test_a_backward_pass_leaves_no_solution_for_the_forward_pass(operator, form, device):
    """The bias of the second pass is the cotangent of the first, whose adjoint is solved."""
    cache, w = Cache(), weights(form, device)[:1]
    bias, cotangent = normal(device).requires_grad_(), normal(device, 1)
    z, _ = solved(cache, operator, w, bias, scales=(1,))
    z[0].backward(cotangent)
    solved(cache, operator, w, cotangent, scales=(1,))


def test_a_validation_pass_after_the_backward_pass_solves_nothing(operator, form, device):
    cache, w, bias = Cache(), weights(form, device), normal(device)
    z, log = solved(cache, operator, w, bias.clone().requires_grad_())
    z.sum().backward()
    _, same = solved(cache, operator, w, bias)
    assert same.forward_records == log.forward_records  # the same objects
