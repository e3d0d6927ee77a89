"""Initialisation, sizes and arguments of Geom-GCN; its equation is in test_weightless_models."""

import pytest
import torch

from mgnni import ArgumentError
from mgnni.graph.geometry import RELATIONS
from mgnni.models.geom_gcn import GeometricConv, GeomGCN
from models.cases import CLASSES, FEATURES, HIDDEN


def test_relations_are_initialised_independently():
    # Glorot's bound is that of a map from 7 to 3 channels, not to all 27.
    torch.manual_seed(0)
    weight = GeometricConv(7, RELATIONS * 3).linear.weight
    assert 0.95 * (6 / 10) ** 0.5 < weight.abs().max() <= (6 / 10) ** 0.5


def test_the_number_of_parameters_for_chameleon_is_as_expected():
    model = GeomGCN(2325, 48, 5)
    assert sum(p.numel() for p in model.parameters()) == 9 * 2325 * 48 + 9 * (9 * 48) * 5


def test_a_model_without_layers_is_refused():
    with pytest.raises(ArgumentError, match=r"'num_layers' must be a positive int \(got 0\)"):
        GeomGCN(FEATURES, HIDDEN, CLASSES, num_layers=0)
