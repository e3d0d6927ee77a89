"""Dense reference implementations of the explicit models and their numbers of parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.layers.regularization import Dropout
from mgnni.models.appnp import APPNP
from mgnni.models.base import EncoderModel
from mgnni.models.gcn import GCN
from mgnni.models.gcnii import GCNII
from mgnni.models.graphsage import GraphSAGE
from mgnni.models.jknet import JKNet
from mgnni.models.linear import Linear
from mgnni.models.mixhop import MixHop
from mgnni.models.mlp import MLP
from mgnni.models.ngcn import NGCN
from mgnni.models.sgc import SGC
from models.cases import CLASSES as C
from models.cases import FEATURES as F
from models.cases import HIDDEN as H
from models.cases import normal
from problems import dense_propagation

# What is asked for, and the number of parameters with F features, H hidden channels, C classes.
CASES: dict[str, tuple[type[EncoderModel], dict[str, Any], int]] = {
    "gcn": (GCN, {}, F * H + H + H * C + C),
    "gcn, one layer": (GCN, {"num_layers": 1}, F * C + C),
    "gcn, batch norm": (
        GCN,
        {"num_layers": 3, "batch_norm": True},
        F * H + H + H * H + H + H * C + C + 4 * H,
    ),
    "gcn, no self-loops": (GCN, {"self_loops": False}, F * H + H + H * C + C),
    "gcn, against the edges": (GCN, {"flow": "target_to_source"}, F * H + H + H * C + C),
    "sgc": (SGC, {}, F * C + C),
    "sgc, no hop": (SGC, {"K": 0}, F * C + C),
    "sgc, three hops": (SGC, {"K": 3}, F * C + C),
    "appnp": (APPNP, {"K": 3, "alpha": 0.2}, F * H + H + H * C + C),
    "appnp, no step": (APPNP, {"K": 0, "num_layers": 1}, F * C + C),
    "jknet": (
        JKNet,
        {"num_layers": 3},
        F * H + H + 2 * (H * H + H) + 3 * H * C + C,
    ),
    "jknet, max": (
        JKNet,
        {"num_layers": 2, "mode": "max", "batch_norm": True},
        F * H + H + H * H + H + 4 * H + H * C + C,
    ),
    "jknet, lstm": (
        JKNet,
        {"num_layers": 2, "mode": "lstm"},
        # Two directions of four gates, each with two biases, of width H; and the attention.
        F * H + H + H * H + H + 2 * 4 * (H * H + H * H + 2 * H) + 2 * H + 1 + H * C + C,
    ),
    "gcnii": (
        GCNII,
        {"num_layers": 3, "alpha": 0.2, "theta": 1.5},
        F * H + H + 3 * H * H + H * C + C,
    ),
    "gcnii*": (
        GCNII,
        {"num_layers": 2, "shared_weights": False},
        F * H + H + 4 * H * H + H * C + C,
    ),
    "graphsage": (GraphSAGE, {}, 2 * F * H + H + 2 * H * C + C),
    "graphsage, sum": (
        GraphSAGE,
        {"aggr": "sum", "batch_norm": True, "flow": "target_to_source"},
        2 * F * H + H + 2 * H * C + C + 2 * H,
    ),
    "graphsage, max pooling": (
        GraphSAGE,
        {"aggr": "max", "project": True},
        F * F + F + 2 * F * H + H + H * H + H + 2 * H * C + C,
    ),
    "mixhop": (
        MixHop,
        {},
        3 * F * H + 3 * H + 3 * 3 * H * H + 3 * H + 2 * 2 * 3 * H + 3 * H * C + C,
    ),
    "mixhop, far": (
        MixHop,
        {"num_layers": 1, "powers": (4, 1), "batch_norm": False},
        2 * F * H + 2 * H + 2 * H * C + C,
    ),
    "n-gcn": (
        NGCN,
        {"powers": (0, 1, 3), "batch_norm": True},
        3 * (F * H + H + H * C + C + 2 * H) + 3 * C * C + C,
    ),
    "n-gcn, attention": (
        NGCN,
        {"powers": (2, 1), "replicas": 2, "fusion": "attention"},
        4 * (F * H + H + H * C + C) + 4,
    ),
    "mlp": (MLP, {}, F * H + H + H * C + C),
    "mlp, three layers": (MLP, {"num_layers": 3}, F * H + H + H * H + H + H * C + C),
    "linear": (Linear, {}, F * C + C),
}


def make(name: str, device: torch.device, seed: int = 0, **changes: object) -> EncoderModel:
    """A small float64 model in evaluation mode with random parameters and buffers."""
    cls, options, _ = CASES[name]
    model = cls(F, H, C, **{**options, **changes}).to(device, torch.float64).eval()
    model.asked = {**options, **changes}
    with torch.no_grad():
        for place, tensor in enumerate((*model.parameters(), *model.buffers())):
            drawn = normal(*tensor.shape, device=device, seed=100 * seed + place)
            if tensor.dim() == 1 and isinstance(tensor, nn.Parameter):
                drawn += 1  # biases: else a ReLU may let nothing through at the node looked at
            if tensor.is_floating_point():  # variances, which are buffers, must be positive
                tensor.copy_(drawn if isinstance(tensor, nn.Parameter) else 0.5 + drawn.abs())
        for place, part in enumerate(model.modules()):
            if isinstance(part, Dropout):  # masks of its own for every place and seed
                part.keyed = True
                part.key.fill_(1_000_003 * seed + 7_919_003_001 * place)
    return model


def by_hand(
    model: EncoderModel,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor,
    batch: Tensor | None = None,
    normalization: str = "sym",
) -> Tensor:
    """Logits from the parameters alone; dense, and differentiable by autograd."""
    as_they_are = isinstance(model, (GraphSAGE, MLP, Linear))  # edges, with nothing done to them
    p = dense_propagation(
        edge_index,
        len(x),
        edge_weight,
        "none" if as_they_are else normalization,
        False if as_they_are else _asked(model, "self_loops"),
        "source_to_target" if isinstance(model, (MLP, Linear)) else _asked(model, "flow"),
    ).to(x.device)
    rows = _ROWS[type(model)](model, x, p)
    if batch is not None:
        rows = torch.stack([rows[batch == g].sum(0) for g in range(int(batch.max()) + 1)])
    if model.readout is not None:
        hidden = _affine(rows, model.readout.first).clamp(min=0)
        rows = _affine(hidden, model.readout.last)
    return rows


def _asked(model: Any, name: str) -> Any:
    """An option as given, or its default."""
    default = inspect.signature(type(model)).parameters[name].default
    return model.asked.get(name, default)


def _affine(x: Tensor, linear: Any) -> Tensor:
    return x @ linear.weight.T + linear.bias


def _norm(x: Tensor, norm: Any) -> Tensor:
    if isinstance(norm, nn.Identity):
        return x
    scaled = (x - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps)
    return scaled * norm.weight + norm.bias


def _stack(stack: Any, layer: Callable[[Any, Tensor], Tensor], x: Tensor) -> list[Tensor]:
    states = []
    for index, conv in enumerate(stack.convs):
        x = layer(conv, x)
        if index < len(stack.norms):
            x = _norm(x, stack.norms[index]).clamp(min=0)
        states.append(x)
    return states


def _perceptron(mlp: Any, x: Tensor) -> Tensor:
    for index, linear in enumerate(mlp.linear):
        x = _affine(x, linear)
        if mlp.activate_last or index + 1 < len(mlp.linear):
            x = x.clamp(min=0)
    return x


def _gcn_layer(p: Tensor) -> Callable[[Any, Tensor], Tensor]:
    return lambda conv, x: p @ (x @ conv.lin.weight.T) + conv.bias


def _gcn(model: Any, x: Tensor, p: Tensor) -> Tensor:
    return _stack(model.stack, _gcn_layer(p), x)[-1]


def _sgc(model: Any, x: Tensor, p: Tensor) -> Tensor:
    (conv,) = model.stack.convs
    power = torch.linalg.matrix_power(p, _asked(model, "K"))
    return power @ x @ conv.lin.weight.T + conv.bias


def _appnp(model: Any, x: Tensor, p: Tensor) -> Tensor:
    """The closed form of K steps of personalized PageRank."""
    first = _perceptron(model.predict, x)
    steps, alpha = _asked(model, "K"), _asked(model, "alpha")
    power = torch.eye(len(x), dtype=x.dtype, device=x.device)
    total = torch.zeros_like(power)
    for _ in range(steps):
        total, power = total + alpha * power, (1 - alpha) * p @ power
    return (total + power) @ first


def _jknet(model: Any, x: Tensor, p: Tensor) -> Tensor:
    states = _stack(model.stack, _gcn_layer(p), x)
    mode = _asked(model, "mode")
    if mode == "cat":
        jumped = torch.cat(states, 1)
    elif mode == "max":
        jumped = torch.stack(states).amax(0)
    else:
        weight = _lstm_scores(model.jump, states).softmax(1)
        jumped = sum(weight[:, [i]] * state for i, state in enumerate(states))
    return _perceptron(model.last, jumped)


def _lstm_scores(jump: Any, states: list[Tensor]) -> Tensor:
    """A bidirectional LSTM over layers, gate by gate."""

    def run(order: list[int], suffix: str) -> dict[int, Tensor]:
        get = dict(jump.lstm.named_parameters()).__getitem__
        w, u = get(f"weight_ih_l0{suffix}"), get(f"weight_hh_l0{suffix}")
        b = get(f"bias_ih_l0{suffix}") + get(f"bias_hh_l0{suffix}")
        h = c = states[0].new_zeros(len(states[0]), u.size(1))
        out = {}
        for index in order:
            i, f, g, o = (states[index] @ w.T + h @ u.T + b).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            out[index] = h
        return out

    order = list(range(len(states)))
    there, back = run(order, ""), run(order[::-1], "_reverse")
    both = [torch.cat([there[i], back[i]], 1) for i in order]
    return torch.cat([_affine(state, jump.att) for state in both], 1)


def _gcnii(model: Any, x: Tensor, p: Tensor) -> Tensor:
    first = h = _perceptron(model.first, x)
    identity = torch.eye(first.size(1), dtype=x.dtype, device=x.device)
    alpha, theta = _asked(model, "alpha"), _asked(model, "theta")
    for number, conv in enumerate(model.convs, start=1):
        beta = math.log(theta / number + 1)
        second = conv.weight1 if conv.weight2 is None else conv.weight2
        near = [(1 - beta) * identity + beta * weight for weight in (conv.weight1, second)]
        h = (1 - alpha) * (p @ h) @ near[0] + alpha * first @ near[1]
        h = h.clamp(min=0)
    return _perceptron(model.last, h)


def _graphsage(model: Any, x: Tensor, p: Tensor) -> Tensor:
    aggr, project = _asked(model, "aggr"), _asked(model, "project")

    def layer(conv: Any, x: Tensor) -> Tensor:
        source = _affine(x, conv.lin).clamp(min=0) if project else x
        if aggr == "max":
            rows = [
                source[row.nonzero()[:, 0]].amax(0) if row.any() else torch.zeros_like(source[0])
                for row in p
            ]
            said = torch.stack(rows)
        else:
            said = p @ source
        if aggr == "mean":
            total = p.sum(1, keepdim=True)
            said = said / torch.where(total > 0, total, torch.ones_like(total))
        return _affine(said, conv.lin_l) + x @ conv.lin_r.weight.T

    return _stack(model.stack, layer, x)[-1]


def _mixhop(model: Any, x: Tensor, p: Tensor) -> Tensor:
    def layer(conv: Any, x: Tensor) -> Tensor:
        parts = [
            torch.linalg.matrix_power(p, j) @ x @ conv.lins[j].weight.T
            for j in _asked(model, "powers")
        ]
        return torch.cat(parts, 1) + conv.bias

    return _perceptron(model.last, _stack(model.stack, layer, x)[-1])


def _ngcn(model: Any, x: Tensor, p: Tensor) -> Tensor:
    powers = _asked(model, "powers") * _asked(model, "replicas")
    outputs = [
        _stack(tower, _gcn_layer(torch.linalg.matrix_power(p, k)), x)[-1]
        for k, tower in zip(powers, model.towers, strict=True)
    ]
    if model.last is not None:
        return _perceptron(model.last, torch.cat(outputs, 1).clamp(min=0))
    weight = model.attention.exp() / model.attention.exp().sum()
    return sum(w * output for w, output in zip(weight, outputs, strict=True))


_ROWS: dict[type, Callable[[Any, Tensor, Tensor], Tensor]] = {
    GCN: _gcn,
    SGC: _sgc,
    APPNP: _appnp,
    JKNet: _jknet,
    GCNII: _gcnii,
    GraphSAGE: _graphsage,
    MixHop: _mixhop,
    NGCN: _ngcn,
    MLP: lambda model, x, p: _perceptron(model.perceptron, x),
    Linear: lambda model, x, p: _perceptron(model.linear, x),
}
