"""Both directions of the edges, residual blocks, and the input map that reads the graph."""

import pytest
import torch

from mgnni import MGNNI, ArgumentError, MultiscaleEquilibrium
from mgnni.layers.blocks import DirectedEquilibrium, ResidualBlock
from mgnni.layers.fusion import ScaleConcat, ScaleMean
from mgnni.layers.input_map import GraphInput
from problems import dense_solution, generator, lopsided_edges, propagation

GAMMA = 0.9


def make():
    return MultiscaleEquilibrium(4, (1, 2), GAMMA, tol=1e-12).double()


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=generator(3))


@pytest.mark.parametrize("directions", ["in", "out", "both"])
def test_states_are_those_along_and_against_the_edges(directions):
    torch.manual_seed(0)
    layer, operator, bias = DirectedEquilibrium(make, directions), propagation("dir"), normal(12, 4)
    z = layer(bias, operator)
    parts = [(layer.along, operator), (layer.against, operator.adjoint())]
    want = [
        dense_solution(graph, part.weight(torch.float64, bias.device)[i].detach(), bias, m, GAMMA)
        for part, graph in parts
        if part is not None
        for i, m in enumerate((1, 2))
    ]
    torch.testing.assert_close(z.detach(), torch.stack(want), rtol=1e-9, atol=1e-9)
    z.sum().backward()
    assert len(layer.log.forward) == len(layer.log.backward) == len(want)


def test_a_residual_block_adds_to_its_input():
    torch.manual_seed(0)
    block = ResidualBlock(4, make(), ScaleMean(), 2, dropout=0.5).double().eval()
    h, operator = normal(12, 4), propagation("dir")
    normed = torch.nn.functional.layer_norm(h, (4,))
    fused = block.equilibrium(normed, operator).mean(0)
    want = h + (fused @ block.linear.weight.T + block.linear.bias).clamp(min=0)
    torch.testing.assert_close(block(h, operator), want)


def test_concatenated_states_keep_the_order_of_scales():
    z = normal(3, 5, 2)
    fused, weight = ScaleConcat()(z)
    torch.testing.assert_close(fused, torch.cat([*z], 1))
    torch.testing.assert_close(weight, torch.full((5, 3), 1 / 3, dtype=torch.float64))


def test_the_graph_input_embeds_rows_and_columns_of_the_adjacency_matrix():
    torch.manual_seed(0)
    operator = propagation("dir")
    layer, x = GraphInput(3, 4, 12, dropout=0.5).double().eval(), normal(12, 3)
    dense = (operator.matrix.to_dense() != 0).double()
    inner = layer.features.linear[0](x) + dense @ layer.embedding[0] + dense.T @ layer.embedding[1]
    torch.testing.assert_close(layer(x, operator), layer.linear(inner.clamp(min=0)))
    layer(x, operator).sum().backward()
    assert layer.embedding.grad is not None
    with pytest.raises(ArgumentError, match="12 nodes"):
        layer(normal(5, 3), propagation("dir", 5))


GENERAL = {
    "contraction": "spectral",
    "learn_gamma": True,
    "directions": "both",
    "skip": True,
    "blocks": 2,
    "input_map": "graph",
    "fusion": "concat",
    "num_nodes": 12,
}


def test_the_generalised_model_has_gradients_in_all_parameters():
    torch.manual_seed(0)
    edges, _ = lopsided_edges()
    model = MGNNI(3, 4, 2, **GENERAL).double()
    logits = model(normal(12, 3), edges)
    assert logits.shape == (12, 2)
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
    assert len(model.solve_log.forward) == len(model.solve_log.backward) == 8


def test_without_its_own_bias_a_state_is_what_was_propagated():
    edges, _ = lopsided_edges()
    options = {"scales": (1, 3), "input_map": "identity", "fusion": "concat", "own_bias": False}
    model = MGNNI(4, 4, 2, tol=1e-12, **options).double().eval()
    x, operator = normal(12, 4), model.propagation(normal(12, 4), edges)
    weight = model.equilibrium.weight(torch.float64, x.device)
    states = [
        dense_solution(operator, weight[place], x, scale, 0.8) - x
        for place, scale in enumerate((1, 3))
    ]
    torch.testing.assert_close(model(x, edges), model.head.linear(torch.cat(states, 1)))


def test_an_isolated_node_without_its_own_bias_has_no_logits():
    edges = torch.tensor([[0, 1], [1, 2]])
    model = MGNNI(4, 4, 2, own_bias=False, self_loops=False, fusion="mean").double().eval()
    logits = model(normal(4, 4), edges)
    for node in (0, 3):  # no edge leads to them
        torch.testing.assert_close(logits[node], torch.zeros_like(logits[node]))
    assert bool((logits[1:3].abs() > 1e-3).all())


def test_vmapped_runs_of_the_generalised_model_are_those_of_single_models():
    x, operator = normal(12, 3), propagation("dir")
    models = [MGNNI(3, 4, 2, **GENERAL).double().eval() for _ in range(2)]
    parameters, buffers = torch.func.stack_module_state(models)

    def run(parameters, buffers):
        return torch.func.functional_call(models[0], (parameters, buffers), (x, operator))

    together = torch.func.vmap(run)(parameters, buffers)
    for got, model in zip(together, models, strict=True):
        torch.testing.assert_close(got, model(x, operator), rtol=1e-5, atol=1e-6)


def test_the_graph_input_needs_the_number_of_nodes():
    with pytest.raises(ArgumentError, match="num_nodes"):
        MGNNI(3, 4, 2, input_map="graph")
