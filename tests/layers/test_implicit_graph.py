"""The projection onto the l1 ball against an exhaustive search over supports."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mgnni.layers.implicit_graph import project_l1_ball_rows


def by_search(row, radius):
    """The nearest point of the ball by an exhaustive search over supports."""
    if row.abs().sum() <= radius:
        return row
    best = torch.zeros_like(row)
    for support in product([False, True], repeat=len(row)):
        kept = torch.tensor(support)
        if not kept.any():
            continue
        shift = (row[kept].abs().sum() - radius) / kept.sum()
        point = torch.where(kept, row.sign() * (row.abs() - shift), 0.0)
        inside = point.abs().sum() <= radius + 1e-9 and (point * row >= 0).all()
        if inside and (point - row).norm() < (best - row).norm():
            best = point
    return best


numbers = st.floats(-4, 4).map(lambda x: round(x, 2))  # ties and zeros are common


@given(
    st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.3, 1.0, 5.0]),
)
def test_rows_are_projected_to_the_nearest_point(rows, radius):
    weight = torch.tensor(rows, dtype=torch.float64)
    want = torch.stack([by_search(row, radius) for row in weight])
    torch.testing.assert_close(project_l1_ball_rows(weight, radius), want, rtol=0, atol=1e-12)


def test_rows_inside_of_the_ball_do_not_change(device):
    weight = torch.tensor([[0.25, -0.75], [0.0, 0.0], [3.0, 1.0]], device=device)
    projected = project_l1_ball_rows(weight, 1.0)
    assert torch.equal(projected[:2], weight[:2])
    assert projected[2].tolist() == [1.0, 0.0]
    assert torch.equal(project_l1_ball_rows(weight, math.inf), weight)
    assert torch.equal(project_l1_ball_rows(projected, 1.0), projected)


def test_equal_entries_stay_equal(device):
    weight = torch.tensor([[2.0, -2.0, 2.0, 0.5]], device=device)
    projected = project_l1_ball_rows(weight, 1.5)
    assert projected.tolist() == [[0.5, -0.5, 0.5, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("radius", [1e-4, 0.9])
def test_projections_of_wide_rows_lie_inside_of_the_ball(radius, dtype, device):
    weight = 10 * torch.randn(5, 1024, dtype=dtype, device=device)
    projected = project_l1_ball_rows(weight, radius)
    assert projected.dtype is dtype
    sums = projected.double().abs().sum(-1)
    torch.testing.assert_close(sums, torch.full_like(sums, radius), rtol=1e-7, atol=0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 4, 3)])
def test_projection_accepts_any_number_of_rows(shape, device):
    weight = torch.randn(shape, device=device)
    projected = project_l1_ball_rows(weight, 0.5)
    assert projected.shape == weight.shape
    assert (projected.abs().sum(-1) <= 0.5 + 1e-6).all()


def test_projection_accepts_stacks_of_matrices(device):
    weight = torch.randn(3, 4, 4, device=device)
    mapped = torch.func.vmap(lambda w: project_l1_ball_rows(w, 0.5))(weight)
    assert torch.equal(mapped, torch.stack([project_l1_ball_rows(w, 0.5) for w in weight]))
