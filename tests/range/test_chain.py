"""Closed forms on chains against dense inverses."""

from __future__ import annotations

import math

import pytest
import torch

from mgnni.errors import ArgumentError
from mgnni.range.chain import chain_influence, decay_rate, line_influence
from range.graphs import chain, dense_resolvent

KINDS = [(True, "dir"), (True, "out"), (False, "auto")]


@pytest.mark.parametrize(("directed", "normalization"), KINDS)
@pytest.mark.parametrize("loop", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("scale", [1, 2, 3, 8])
def test_the_closed_form_of_a_chain_is_its_inverse(
    directed: bool, normalization: str, loop: float, scale: int
) -> None:
    for length in (2, 3, 25):
        propagation = chain(length, directed, loop, normalization)
        for rate in (0.0, 0.3, 0.8, 0.99):
            exact = dense_resolvent(propagation, rate, scale)
            for node in {0, length // 2, length - 1}:
                found = chain_influence(
                    *(rate, length, node, scale),
                    directed=directed,
                    loop=loop,
                    normalization="out" if normalization == "out" else "dir",
                )
                torch.testing.assert_close(found, exact[:, node], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("loop", [0.0, 1.0])
def test_a_long_chain_looks_infinite_from_its_middle(directed: bool, loop: float) -> None:
    place = torch.arange(401) - 200
    for scale in (1, 4):
        ends = chain_influence(0.8, 401, 200, scale, directed=directed, loop=loop)
        line = line_influence(0.8, place, scale, directed=directed, loop=loop)
        torch.testing.assert_close(ends[60:340], line[60:340], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("directed", "rates"),
    [(True, (0.667, 0.809, 0.897, 0.946)), (False, (0.431, 0.556, 0.662, 0.748))],
)
def test_rates_for_the_gamma_of_the_paper(directed: bool, rates: tuple[float, ...]) -> None:
    for scale, rate in zip((1, 2, 4, 8), rates, strict=True):
        assert decay_rate(0.8, scale, directed=directed) == pytest.approx(rate, abs=5e-4)
        entries = chain_influence(0.8, 500, 0, scale, directed=directed)
        assert float(entries[240] / entries[232]) ** (1 / 8) == pytest.approx(
            decay_rate(0.8, scale, directed=directed), abs=1e-6
        )


def test_double_loops_of_colour_counting() -> None:
    assert math.cosh(-math.log(decay_rate(0.8, loop=2.0))) == pytest.approx(2 / 0.8 - 1)


def test_hops_grow_with_the_scale_if_directed_and_with_its_root_if_not() -> None:
    def hops(scale: int, directed: bool) -> float:
        return -1 / math.log(decay_rate(0.8, scale, directed=directed))

    for scale in (64, 256):
        assert hops(4 * scale, True) / hops(scale, True) == pytest.approx(4, rel=0.01)
        assert hops(4 * scale, False) / hops(scale, False) == pytest.approx(2, rel=0.01)


def test_without_self_loops_a_scale_reaches_only_its_multiples() -> None:
    found = chain_influence(0.8, 9, 0, 4, directed=True, loop=0.0)
    expected = torch.tensor([1, 0, 0, 0, 0.8, 0, 0, 0, 0.64], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"length": 1}, "'length' must be an int of at least 2"),
        ({"node": 5}, "'node' must lie between 0 and 4"),
        ({"contraction": 1.0}, "'contraction' must lie in"),
        ({"loop": -1.0}, "'loop' must lie in"),
        ({"normalization": "sym"}, "'normalization' must be one of"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        chain_influence(**{"contraction": 0.5, "length": 5, **arguments})  # type: ignore[arg-type]
