"""The fixed-point layer: values, gradients and log."""

import pytest
import torch

from mgnni import ArgumentError, Propagation
from mgnni.layers.steady_state import SteadyState


def cosine(z, a):
    return torch.cos(a * z)


@pytest.fixture
def no_edges(device):
    """Two graphs, of one and of two nodes."""
    return Propagation.from_edge_index(
        torch.empty(2, 0, dtype=torch.long, device=device),
        3,
        batch=torch.tensor([0, 1, 1], device=device),
        dtype=torch.float64,
    )


@pytest.mark.parametrize("solver", ["anderson", "picard"])
def test_the_fixed_point_of_the_cosine_is_found(solver, no_edges, device):
    part = SteadyState(solver, 1e-12, None)
    a = torch.tensor([[0.9], [0.5], [0.0]], dtype=torch.float64, device=device, requires_grad=True)
    z = part(cosine, (a,), torch.zeros_like(a), no_edges, contraction=0.9, norm="max")
    # By bisection of z - cos(a z).
    want = [bisected(value) for value in a.flatten().tolist()]
    torch.testing.assert_close(z.flatten().cpu(), torch.tensor(want, dtype=torch.float64))
    (stats,) = part.log.forward
    assert stats.converged
    assert len(stats.graph_iterations) == 2
    assert part.log.backward == ()

    (got,) = torch.autograd.grad(z.sum(), a)
    sine = -torch.sin(a * z).detach()
    slope = sine * z.detach() / (1 - a.detach() * sine)  # the equation differentiated by hand
    torch.testing.assert_close(got, slope)
    assert part.log.backward[0].converged


def bisected(a):
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        below = middle < torch.cos(torch.tensor(a * middle, dtype=torch.float64)).item()
        low, high = (middle, high) if below else (low, middle)
    return low


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("newton", 1e-6, None), "solver"),
        (("picard", 1.0, None), "tol"),
        (("picard", 1e-6, 0), "max_iter"),
    ],
)
def test_bad_options_are_refused(options, name):
    with pytest.raises(ArgumentError, match=f"'{name}'"):
        SteadyState(*options)
