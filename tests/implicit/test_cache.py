"""What a layer keeps between passes: reused for the same equations, and for no others."""

import copy
import gc
import pickle
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from mgnni.implicit import cache as module
from mgnni.implicit.cache import Cache
from mgnni.implicit.linear import equilibria
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.solve.equation import Equations
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import dense_solution, generator, propagation, weight

OPTIONS, SCALES, GAMMA = Options(tol=1e-10), (1, 2), 0.9


def weights(device, dtype=torch.float64):
    return torch.stack([weight("random", 4, seed) for seed in (0, 1)]).to(device, dtype)


def normal(*shape, device, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def equations_over(operator):
    return Equations(operator, SCALES, GAMMA, Weights(weights(operator.device)))


def as_in_the_next_pass(equations):
    """The same equations, with a weight that was computed again."""
    return replace(equations, weights=Weights(equations.weights.tensor.clone()))


def kept(cache, equations, bias):
    """Solves as a layer does, and keeps the solution."""
    plan = cache.prepare(equations, OPTIONS)
    solution = plan.solve(bias)
    cache.keep_solution(plan, bias, solution)
    return plan, solution


@pytest.fixture
def case(device):
    operator = propagation("sym").to(device)
    return operator, equations_over(operator), normal(12, 4, device=device).expand(2, -1, -1)


class TestPlan:
    def test_eigenpairs_are_kept_for_equal_weights(self, case):
        _, equations, bias = case
        cache = Cache()
        plan, _ = kept(cache, equations, bias)
        equal = replace(equations, weights=Weights(equations.weights.tensor.clone()))
        again = cache.prepare(equal, OPTIONS)
        assert again.equations.weights is plan.equations.weights
        assert again.equations.weights.eigenpairs is plan.equations.weights.eigenpairs

    def test_weights_changed_in_place_are_noticed(self, case):
        operator, equations, bias = case
        cache = Cache()
        first, _ = kept(cache, equations, bias)
        changed = equations.weights.tensor.clone()
        changed[1, 2, 2] += 1e-15
        plan = cache.prepare(replace(equations, weights=Weights(changed)), OPTIONS)
        assert plan.equations.weights is not first.equations.weights
        found = plan.solve(bias).z[1]
        expected = dense_solution(operator, changed[1], bias[1], 2, GAMMA)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)

    def test_nothing_is_kept_of_inference_tensors(self, case):
        _, equations, bias = case
        cache = Cache()
        with torch.inference_mode():
            inference = replace(equations, weights=Weights(equations.weights.tensor.clone()))
            kept(cache, inference, bias)
        assert cache.previous is None
        bias = bias.clone().requires_grad_()
        z, _ = equilibria(
            equations.operator, equations.weights.tensor, bias[0], SCALES, GAMMA, cache=cache
        )
        (grad,) = torch.autograd.grad(z.sum(), bias)
        assert bool(grad.isfinite().all())

    @pytest.mark.parametrize("kind", ["sym", "dir"])
    def test_the_operator_is_not_kept_alive(self, kind, device):
        operator, cache = propagation(kind).to(device), Cache()
        alive = weakref.ref(operator)
        bias = normal(12, 4, device=device).requires_grad_()
        options = Options(warm_start=True)
        z, _ = equilibria(
            operator, weights(device), bias, SCALES, GAMMA, options=options, cache=cache
        )
        z.sum().backward()
        del operator, z
        gc.collect()
        assert alive() is None


CHANGES = {
    "operator": lambda e: replace(e, operator=propagation("sym").to(e.operator.device)),
    "weights": lambda e: replace(e, weights=Weights(e.weights.tensor * (1 + 1e-15))),
    "scales": lambda e: replace(e, scales=(1, 3)),
    "gamma": lambda e: replace(e, gamma=0.8),
}


class TestSolution:
    def test_the_same_equations_have_the_same_solution(self, case):
        _, equations, bias = case
        cache = Cache()
        _, solution = kept(cache, equations, bias)
        equal = replace(equations, weights=Weights(equations.weights.tensor.clone()))
        again = cache.solution(cache.prepare(equal, OPTIONS), bias[0].clone().expand(2, -1, -1))
        torch.testing.assert_close(again.z, solution.z, rtol=0, atol=0)
        assert again.records is solution.records

    @pytest.mark.parametrize("change", CHANGES)
    def test_other_equations_have_another_solution(self, change, case):
        _, equations, bias = case
        cache = Cache()
        plan, _ = kept(cache, equations, bias)
        assert cache.solution(plan, bias) is not None
        changed = as_in_the_next_pass(CHANGES[change](equations))
        assert cache.solution(cache.prepare(changed, OPTIONS), bias) is None

    def test_another_tolerance_has_another_solution(self, case):
        _, equations, bias = case
        cache = Cache()
        kept(cache, equations, bias)
        plan = cache.prepare(as_in_the_next_pass(equations), Options(tol=1e-11))
        assert cache.solution(plan, bias) is None

    def test_another_bias_has_another_solution(self, case):
        _, equations, bias = case
        cache = Cache()
        plan, _ = kept(cache, equations, bias)
        assert cache.solution(plan, (bias[0] + 1e-15).expand(2, -1, -1)) is None
        assert cache.solution(plan, bias.clone()) is None  # one bias per equation

    def test_a_bias_changed_in_place_is_noticed(self, case):
        _, equations, bias = case
        cache = Cache()
        plan, _ = kept(cache, equations, bias)
        bias[0, 3, 2] += 1e-12
        assert cache.solution(plan, bias) is None

    def test_states_that_callers_change_in_place_stay_as_they_were(self, case):
        _, equations, bias = case
        cache = Cache()
        plan, solution = kept(cache, equations, bias)
        want = solution.z.clone()
        for change in (
            Tensor.zero_,
            lambda z: z.data.mul_(2),
            lambda z: np.asarray(z.cpu()).fill(3),
        ):
            change(solution.z)
            change(cache.solution(plan, bias).z)
            assert torch.equal(cache.solution(plan, bias).z, want)

    def test_the_autograd_graph_of_the_pass_is_not_kept(self, case):
        _, equations, bias = case
        cache = Cache()
        plan, solution = kept(cache, equations, bias)
        solution.z.requires_grad_()  # as autograd does with the output of a function
        assert not cache.solution(plan, bias).z.requires_grad

    def test_large_states_are_not_kept(self, case, monkeypatch):
        _, equations, bias = case
        for limit, expected in ((95, False), (96, True)):
            monkeypatch.setattr(module, "LARGEST", limit)  # the real limit is 128 MB of states
            cache = Cache()
            plan, _ = kept(cache, equations, bias)
            assert (cache.solution(plan, bias) is not None) is expected

    def test_solutions_over_learned_edge_weights_are_not_kept(self, device):
        edge_weight = torch.full((4,), 0.5, dtype=torch.float64, device=device).requires_grad_()
        edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
        operator = module.Propagation.from_edge_index(edge_index, 3, edge_weight, "dir")
        bias = normal(3, 4, device=device).expand(2, -1, -1)
        cache = Cache()
        plan, _ = kept(cache, equations_over(operator), bias)
        assert cache.solution(plan, bias) is None


class TestDerivatives:
    @pytest.mark.parametrize("kind", ["sym", "dir"])
    def test_adjoint_solves_leave_the_kept_solution_alone(self, kind, device):
        """Also solves for second derivatives, which have the cotangent for a bias."""
        operator, cache = propagation(kind).to(device), Cache()
        w, bias = weights(device), normal(12, 4, device=device).requires_grad_()
        z, log = equilibria(operator, w, bias, SCALES, GAMMA, options=OPTIONS, cache=cache)
        (first,) = torch.autograd.grad(z.pow(3).sum(), bias, create_graph=True)
        torch.autograd.grad(first.pow(2).sum(), bias)
        again, other = equilibria(operator, w, bias, SCALES, GAMMA, options=OPTIONS, cache=cache)
        assert other.forward_records[0] is log.forward_records[0]  # not solved again
        assert torch.equal(z, again)

    @pytest.mark.parametrize("warm_start", [False, True])
    @pytest.mark.parametrize("kind", ["sym", "dir"])
    def test_second_derivatives_with_a_cache_are_those_of_the_dense_solution(
        self, kind, warm_start, device
    ):
        operator, cache = propagation(kind).to(device), Cache()
        w = weights(device).requires_grad_()
        options = Options(tol=1e-12, warm_start=warm_start)
        for seed in range(2):
            bias = normal(12, 4, device=device, seed=seed).requires_grad_()
            ours, _ = equilibria(operator, w, bias, SCALES, GAMMA, options=options, cache=cache)
            dense = [
                dense_solution(operator, one, bias, m, GAMMA)
                for one, m in zip(w, SCALES, strict=True)
            ]
            found = []
            for z in (ours, torch.stack(dense)):
                (first,) = torch.autograd.grad(z.pow(3).sum(), bias, create_graph=True)
                found.append(torch.autograd.grad(first[5].pow(2).sum(), [bias, w]))
            for got, want in zip(*found, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-8)
        stack = bias.detach().expand(2, -1, -1)
        for order, over in ((0, operator), (1, operator.adjoint()), (2, operator)):
            start = cache.start((order, True), over, stack)
            assert (start is not None) == (warm_start and order < 2)


class TestStarts:
    def test_starts_are_separate_by_order_and_gradient_mode(self, case):
        operator, _, bias = case
        cache, kinds = Cache(), [(0, True), (0, False), (1, True), (1, False)]
        for number, kind in enumerate(kinds):
            cache.keep_start(kind, operator, torch.full_like(bias, float(number)))
        for number, kind in enumerate(kinds):
            assert bool((cache.start(kind, operator, bias) == number).all())

    def test_starts_belong_to_one_operator_shape_and_dtype(self, case):
        operator, _, bias = case
        cache, kind = Cache(), (0, True)
        assert cache.start(kind, operator, bias) is None
        cache.keep_start(kind, operator, bias.clone())
        assert cache.start(kind, operator, bias) is not None
        assert cache.start(kind, propagation("sym").to(bias.device), bias) is None
        assert cache.start(kind, operator, bias[:1]) is None
        assert cache.start(kind, operator, bias.float()) is None

    def test_starts_are_no_inference_tensors_and_have_no_graph(self, case):
        operator, _, bias = case
        cache, kind = Cache(), (0, True)
        with torch.inference_mode():
            cache.keep_start(kind, operator, bias.clone())
        assert cache.start(kind, operator, bias) is None
        cache.keep_start(kind, operator, bias.clone().requires_grad_())
        assert not cache.start(kind, operator, bias).requires_grad


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_and_pickles_are_empty(copied, case):
    operator, equations, bias = case
    cache = Cache()
    normalized_gram(equations.weights.tensor, cache=cache)
    plan, solution = kept(cache, equations, bias)
    cache.keep_start((0, True), operator, solution.z)
    other = copied(cache)
    assert other.previous is None
    assert other.gram is None
    assert other.solution(plan, bias) is None
    assert other.start((0, True), operator, bias) is None
