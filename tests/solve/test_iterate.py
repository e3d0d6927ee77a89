"""The one loop: what is frozen stays, what is dropped comes back, division by nothing is none."""

import pytest
import torch

from mgnni import Propagation
from mgnni.solve.equation import Equations
from mgnni.solve.iterate import Method, State, System, divide, iterate
from mgnni.solve.prepare import METHODS
from mgnni.solve.weights import Weights
from problems import chain, generator, propagation, weight


class Halve(Method):
    """Takes the residual down by half a step, whatever the equation: the loop sees only that."""

    def step(self, system, state):
        state.z = state.z + state.r / 2
        state.r = state.r / 2


def one_equation(operator: Propagation, bias: torch.Tensor) -> Equations:
    w = weight("general", bias.size(1)).unsqueeze(0).to(bias.device)
    return Equations(operator, (1,), 0.9, Weights(w), bias.unsqueeze(0))


def test_each_graph_stops_when_its_own_residual_is_small_enough(device):
    """Residuals are 2^-k b against max(b, z = (1 - 2^-k) b): the step is known."""
    batch = torch.tensor([0, 0, 1, 1, 1, 2], device=device)
    operator = Propagation.from_edge_index(
        torch.zeros(2, 0, dtype=torch.long, device=device), 6, batch=batch, dtype=torch.float64
    )
    bias = torch.randn(6, 2, dtype=torch.float64, generator=generator(0)).to(device)
    bias[2:5] = 0
    z, steps, exhausted = iterate(one_equation(operator, bias), Halve(), 2.0**-10, 50)
    assert steps.tolist() == [10, 0, 10]
    assert not exhausted
    torch.testing.assert_close(z, bias * (1 - 2.0**-10), rtol=1e-15, atol=0)


def test_the_budget_is_the_number_of_steps(device):
    operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
    bias = torch.ones(4, 1, dtype=torch.float64, device=device)
    z, steps, exhausted = iterate(one_equation(operator, bias), Halve(), 1e-9, 7)
    assert (steps.tolist(), exhausted) == ([7], True)
    torch.testing.assert_close(z, bias * (1 - 2.0**-7), rtol=1e-15, atol=0)


def test_the_bias_is_left_alone(device):
    operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
    bias = torch.ones(4, 1, dtype=torch.float64, device=device)
    iterate(one_equation(operator, bias), Halve(), 1e-9, 5)
    assert bool((bias == 1).all())


@pytest.mark.parametrize("name", ["picard", "anderson", "cg", "gmres"])
def test_the_residual_of_the_whole_graph_decides(name, device):
    """A bias on one node: rows that have not moved yet are not done, nor are those that have."""
    operator = Propagation.from_edge_index(chain(20).to(device), 20, dtype=torch.float64)
    w = weight("random", 2).to(device)
    dense = operator.to_dense()
    for node in (0, 7, 19):
        bias = torch.zeros(20, 2, dtype=torch.float64, device=device)
        bias[node] = 1.0
        equation = Equations(operator, (1,), 0.99, Weights(w.unsqueeze(0)), bias.unsqueeze(0))
        for tol in (1e-2, 1e-6, 1e-10):
            z, _, exhausted = iterate(equation, METHODS[name].method, tol, 5000)
            residual = 0.99 * dense @ z @ w + bias - z
            assert not exhausted
            assert residual.norm() <= tol * max(bias.norm(), z.norm()) * (1 + 1e-3)


def test_the_linear_part_is_that_of_the_equation(device):
    operator = propagation("out").to(device)
    w = weight("general", 3).to(device)
    x = torch.randn(12, 3, dtype=torch.float64, device=device)
    equation = Equations(operator, (3,), 0.7, Weights(w.unsqueeze(0)), x.unsqueeze(0))
    expected = 0.7 * torch.linalg.matrix_power(operator.to_dense(), 3) @ x @ w
    torch.testing.assert_close(System(equation, operator).linear(x), expected)


def test_inner_products_are_taken_graph_by_graph(device):
    batch = torch.tensor([0, 0, 1, 2], device=device)
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(empty, 4, batch=batch, dtype=torch.float64)
    x, y = torch.randn(2, 4, 3, dtype=torch.float64, device=device)
    system = System(one_equation(operator, x), operator)
    expected = torch.stack([(x[:2] * y[:2]).sum(), (x[2] * y[2]).sum(), (x[3] * y[3]).sum()])
    torch.testing.assert_close(system.dot(x, y), expected)
    history = torch.stack([x, y], dim=1)
    torch.testing.assert_close(system.dots(history, y)[:, 0], expected)
    torch.testing.assert_close(system.spread(expected, x), expected[batch])


def test_freezing_stops_nodes_and_selecting_drops_them(device):
    z, r, p = torch.randn(3, 4, 2, dtype=torch.float64, device=device)
    history = torch.randn(4, 5, 2, dtype=torch.float64, device=device)
    keep = torch.tensor([True, False, True, False], device=device)
    state = State(z, r, {"p": p, "h": history}, {"rr": torch.arange(2, device=device)})
    state.freeze(keep)
    for tensor in (state.r, state.memory["p"], state.memory["h"]):
        assert bool((tensor[~keep] == 0).all())
        assert bool((tensor[keep] != 0).all())
    torch.testing.assert_close(state.z, z)
    nodes = keep.nonzero().squeeze(1)
    state.select(nodes, torch.tensor([False, True], device=device))
    torch.testing.assert_close(state.z, z[nodes])
    torch.testing.assert_close(state.memory["h"], history[nodes])
    assert state.graphs["rr"].tolist() == [1]


def test_division_by_nothing_is_no_step():
    a = torch.tensor([1.0, 2.0, 0.0])
    b = torch.tensor([0.0, 4.0, 0.0])
    assert divide(a, b).tolist() == [0.0, 0.5, 0.0]
