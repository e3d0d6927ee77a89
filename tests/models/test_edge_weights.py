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


@pytest.mark.parametrize("name", ["mgnni", "eignn", "ignn", "sse", "mignn", "gind", "cgs"])
def test_second_derivatives_with_respect_to_edge_weights(name: str) -> None:
    g = generator(3)
    torch.manual_seed(0)
    model = make_model(name, 3, 3, 2, level="node", tol=1e-13).double().eval()
    x = torch.randn(5, 3, generator=g, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 2, 3, 0, 4], [1, 2, 3, 0, 2, 4]])  # directed, with a loop
    weight = 0.5 + torch.rand(6, generator=g, dtype=torch.float64)
    direction = torch.randn(6, generator=g, dtype=torch.float64)

    def gradient(weight: torch.Tensor) -> torch.Tensor:
        weight = weight.clone().requires_grad_()
        loss = model(x, edges, weight)[1].square().sum()
        return torch.autograd.grad(loss, weight, create_graph=True)[0]

    leaf = weight.clone().requires_grad_()
    first = torch.autograd.grad(model(x, edges, leaf)[1].square().sum(), leaf, create_graph=True)[0]
    (second,) = torch.autograd.grad(first @ direction, leaf)
    step = 1e-5 * direction
    want = (gradient(weight + step) - gradient(weight - step)).detach() / 2e-5
    torch.testing.assert_close(second, want, rtol=1e-4, atol=1e-7)
    assert bool(want.abs().max() > 1e-6)
