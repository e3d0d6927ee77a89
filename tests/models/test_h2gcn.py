"""Sizes and arguments of H2GCN; its equation is in test_weightless_models."""

import pytest

from mgnni import ArgumentError
from mgnni.models.h2gcn import H2GCN
from models.cases import CLASSES, FEATURES, HIDDEN


@pytest.mark.parametrize(("num_layers", "parts"), [(1, 3), (2, 7)])
def test_the_numbers_of_parameters_of_h2gcn_1_and_h2gcn_2_are_as_expected(num_layers, parts):
    model = H2GCN(1703, 64, 5, num_layers=num_layers)
    assert sum(p.numel() for p in model.parameters()) == 1703 * 64 + parts * 64 * 5


def test_a_negative_number_of_rounds_is_refused():
    with pytest.raises(ArgumentError, match=r"'num_layers' must be an int of at least 0 \(got -1"):
        H2GCN(FEATURES, HIDDEN, CLASSES, num_layers=-1)
