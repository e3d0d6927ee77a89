"""A dense reference implementation of CGS."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mgnni.layers.attention import AttentionGN
from mgnni.models.cgs import CGS

SHAPES = {
    "elu": nn.functional.elu,
    "leaky_relu": nn.functional.leaky_relu,
    "relu": torch.relu,
    "silu": lambda x: x * torch.sigmoid(x),
    "tanh": torch.tanh,
}


def layer_by_hand(
    layer: AttentionGN, activation: str, x: Tensor, edge: Tensor, pairs: list[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """One layer as loops over nodes and edges, differentiable by autograd."""
    act = SHAPES[activation]

    def perceptron(row: Tensor, parameters: list[Tensor]) -> Tensor:
        first, first_bias, last, last_bias = parameters
        return act(last @ act(first @ row + first_bias) + last_bias)

    parts = (layer.edge, layer.attention, layer.node)
    of_edge, of_attention, of_node = (list(part.parameters()) for part in parts)
    edge_out, node_out = len(of_edge[-1]), len(of_node[-1])
    ends = [torch.cat([edge[i], x[u], x[v]]) for i, (u, v) in enumerate(pairs)]
    new = [perceptron(row, of_edge) for row in ends]
    score = [perceptron(row, of_attention).exp() for row in ends]
    nodes = []
    for v in range(len(x)):
        into = [i for i, pair in enumerate(pairs) if pair[1] == v]
        total = sum(score[i] for i in into)
        gathered = sum((score[i] / total * new[i] for i in into), x.new_zeros(edge_out))
        if layer.aggregation == "mean":
            gathered = gathered / max(len(into), 1)
        nodes.append(perceptron(torch.cat([gathered, x[v]]), of_node))
    return stacked(nodes, x, node_out), stacked(new, x, edge_out)


def stacked(rows: list[Tensor], like: Tensor, width: int) -> Tensor:
    """Stack rows of this width, possibly none."""
    return torch.stack(rows) if rows else like.new_zeros(0, width)


def matrices_by_hand(
    model: CGS, activation: str, x: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The dense matrix of every head, ``(heads, n, n)``, and the bias, ``(n, heads)``.

    ``weight[u, v]`` is that of the edge from ``u`` to ``v``.
    """
    pairs = [(u, v) for u, v in (weight != 0).nonzero().tolist()]
    edge, h = stacked([weight[pair].view(1) - 1 for pair in pairs], x, 1), x
    for layer in model.encoder:
        h, edge = layer_by_hand(layer, activation, h, edge, pairs)
    a = x.new_zeros(h.size(1), len(x), len(x))
    for i, (u, v) in enumerate(pairs):
        row, column = (u, v) if model.gather == "targets" else (v, u)
        of_row = [pair[0] if model.gather == "targets" else pair[1] for pair in pairs]
        entry = torch.zeros_like(a)
        entry[:, row, column] = 1
        a = a + entry * (edge[i].clamp(0, 1) / of_row.count(row)).view(-1, 1, 1)
    return a, h


def cgs_by_hand(
    model: CGS, activation: str, x: Tensor, weight: Tensor, batch: Tensor | None = None
) -> Tensor:
    """Logits from the parameters alone."""
    a, b = matrices_by_hand(model, activation, x, weight)
    if model.nonlinearity == "identity":
        system = torch.eye(len(x), dtype=x.dtype, device=x.device) - model.gamma * a
        z = torch.linalg.solve(system, b.T.unsqueeze(2)).squeeze(2).T
    else:  # unrolled for longer than it takes
        z = torch.zeros_like(b)
        for _ in range(80):
            gathered = torch.einsum("kuv,vk->uk", a, z)
            z = SHAPES[model.nonlinearity](model.gamma * gathered + b)
    if batch is not None:
        z = torch.stack([z[batch == g].sum(0) for g in range(int(batch.max()) + 1)])
    return decoded_by_hand(model.readout[1], z, SHAPES[activation])


def decoded_by_hand(decoder: nn.Module, z: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
    """The decoder, from its parameters."""
    parameters = list(decoder.parameters())
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        z = act(z @ weight.T + bias)
    return z @ parameters[-2].T + parameters[-1]


def dense_weights(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
    """``weight[u, v]``, the sum of the weights of all edges from ``u`` to ``v``."""
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=torch.float64, device=edge_index.device)
    dense = edge_weight.new_zeros(num_nodes, num_nodes)
    return dense.index_put((edge_index[0], edge_index[1]), edge_weight, accumulate=True)
