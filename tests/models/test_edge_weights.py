"""Which models read the weights of edges, as they say."""

from __future__ import annotations

import pytest
import torch

from mgnni.models.catalog import MODELS, make_model
from problems import generator

WITHOUT_EDGES = [name for name, one in MODELS.items() if one.kind == "baseline"]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_EDGES])
def test_weights_change_the_output_of_models_that_use_them(name: str) -> None:
    g = generator(2)
    torch.manual_seed(0)
    level = "graph" if name == "dgcnn" else "node"
    model = make_model(name, 4, 4, 3, level=level).eval()
    x, edges = torch.randn(12, 4, generator=g), torch.randint(0, 12, (2, 40), generator=g)
    edges = torch.cat([edges, edges.flip(0)], 1)  # undirected, as some models need
    first, second = 0.1 + torch.rand(2, 40, generator=g)
    with torch.no_grad():
        one, other = (model(x, edges, w.repeat(2)) for w in (first, second))
    assert bool((one - other).abs().max() > 1e-6) == model.uses_edge_weight
