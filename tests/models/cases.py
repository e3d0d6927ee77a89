"""Graphs, and a dense reference implementation of MGNNI, for the tests of models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch_geometric.utils import to_undirected

from mgnni import MGNNI
from problems import dense_propagation, generator, lopsided_edges

NODES, FEATURES, HIDDEN, CLASSES = 9, 5, 4, 3
LISTENER = 3  # a node that gathers from others in the directed graph too, as not every node does
PARTS = (4, 1, 3, 2)  # graphs of a batch: one has a single node


def normal(*shape: int, device: torch.device, seed: int = 1) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def graph(directed: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Edges and weights with a self-loop, a repeated edge and two isolated nodes."""
    edge_index, edge_weight = lopsided_edges(NODES)
    if not directed:
        edge_index, edge_weight = to_undirected(edge_index, edge_weight, num_nodes=NODES)
    return edge_index.to(device), edge_weight.to(device)


def batch_of_graphs(device: torch.device) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Features, edges and graph of each node, and the edges of each graph alone."""
    alone = [complete_minus_one(size).to(device) for size in PARTS]
    start = [sum(PARTS[:index]) for index in range(len(PARTS))]
    edge_index = torch.cat([e + first for e, first in zip(alone, start, strict=True)], dim=1)
    batch = torch.repeat_interleave(torch.arange(len(PARTS)), torch.tensor(PARTS)).to(device)
    return normal(sum(PARTS), FEATURES, device=device), edge_index, batch, alone


def complete_minus_one(size: int) -> Tensor:
    """All edges between distinct nodes except for the one from the first to the last."""
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j and (i, j) != (0, size - 1)]
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T


def dense_operator(directed: bool, device: torch.device) -> Tensor:
    """The operator of :func:`graph` with ``normalization="auto"``."""
    kind = "dir" if directed else "sym"
    edge_index, edge_weight = graph(directed, device)
    return dense_propagation(edge_index, NODES, edge_weight, kind).to(device)


def assert_same_at_one_node(
    ours: Tensor, known: Tensor, inputs: list[Tensor], **tolerance: float
) -> None:
    """Compare all rows, and gradients of a loss on one row, which reveal a missing transpose."""
    torch.testing.assert_close(ours, known.to(ours.device), **tolerance)
    got, want = (torch.autograd.grad(y[LISTENER].square().sum(), inputs) for y in (ours, known))
    for one, other in zip(got, want, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other, **tolerance)


def drawn(make: Callable[[], nn.Module], count: int = 3) -> list[nn.Module]:
    """Models that differ in the seed only."""
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        models.append(make())
    return models


def assert_runs_are_each_alone(
    models: list[nn.Module], *inputs: Tensor, inside: bool = False, **tolerance: float
) -> None:
    """Vmapped models have the logits and gradients of the single models.

    The loss is on one node. Gradients are taken of all runs at once, as in training; with
    ``inside`` those of torch.func within the map are compared as well.
    """
    assert models[0].supports_vmap
    parameters, buffers = stack_module_state(models)

    def loss(logits: Tensor) -> Tensor:
        return logits[..., LISTENER, :].square().sum()

    def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        return functional_call(models[0], (parameters, buffers), inputs)

    def copies() -> dict[str, Tensor]:  # training changes running statistics
        return {name: buffer.clone() for name, buffer in buffers.items()}

    found = []
    if inside:  # first, so that what is derived of a graph is derived under both transforms
        found.append(vmap(grad(lambda p, b: loss(run(p, b))))(parameters, copies()))
    together = vmap(run)(parameters, copies())
    grads = torch.autograd.grad(loss(together), list(parameters.values()))
    found.append(dict(zip(parameters, grads, strict=True)))
    for index, model in enumerate(models):
        alone = model(*inputs)
        torch.testing.assert_close(together[index], alone, **tolerance)
        named = dict(model.named_parameters())
        known = torch.autograd.grad(loss(alone), list(named.values()))
        assert model.training or all(bool(one.any()) for one in known)  # dropout may cut all
        for stacks in found:
            for name, expected in zip(named, known, strict=True):
                torch.testing.assert_close(stacks[name][index], expected, **tolerance)


def make_model(device: torch.device, **options: object) -> MGNNI:
    """A small model in float64 whose solves are exact to rounding, in evaluation mode."""
    options = {"scales": (1, 2, 3), "tol": 1e-12, **options}
    hidden = FEATURES if options.get("input_map") == "identity" else HIDDEN
    model = MGNNI(FEATURES, hidden, CLASSES, **options)
    model = model.to(device, torch.float64).eval()
    with torch.no_grad():  # running statistics as after some training
        for name, tensor in model.state_dict().items():
            if name.endswith("running_mean"):
                tensor.copy_(0.3 * normal(*tensor.shape, device=device, seed=5))
            if name.endswith("running_var"):
                tensor.copy_(0.5 + normal(*tensor.shape, device=device, seed=6).abs())
    return model


def by_hand(
    model: MGNNI,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    normalization: str = "sym",
) -> tuple[Tensor, Tensor]:
    """Logits and attention from the parameters alone; dense, and differentiable by autograd."""
    get = dict(model.named_parameters()).__getitem__
    has = {name.split(".")[1] for name, _ in model.named_modules() if name.count(".") == 1}
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1))
    options = model.graph_options
    p = dense_propagation(
        edge_index, len(x), edge_weight, normalization, options["self_loops"], options["flow"]
    ).to(x.device)

    bias = x
    layers = sum(name.startswith("input_map.linear") for name, _ in model.named_parameters()) // 2
    for index in range(layers):
        name = f"input_map.linear.{index}"
        bias = bias @ get(f"{name}.weight").T + get(f"{name}.bias")
        if index + 1 < layers or model.input_map.activate_last:
            bias = torch.where(bias > 0, bias, torch.zeros_like(bias))

    n, h = bias.shape
    states = []
    for scale, factor in zip(model.equilibrium.scales, get("equilibrium.factor"), strict=True):
        power = torch.linalg.matrix_power(p, scale)
        gram = factor.T @ factor
        w = gram / (gram.square().sum().sqrt() + 1e-12)
        system = torch.eye(n * h, dtype=torch.float64, device=x.device)
        system = system - model.equilibrium.gamma * torch.kron(power, w.T.contiguous())
        states.append(torch.linalg.solve(system, bias.flatten()).view(n, h))
    z = torch.stack(states, dim=1)  # shape: (num_nodes, scales, channels)

    if "query" in has:
        inner = torch.tanh(z @ get("fusion.project.weight").T + get("fusion.project.bias"))
        score = torch.exp(inner @ get("fusion.query.weight")[0])
        attention = score / score.sum(dim=1, keepdim=True)
    else:
        attention = torch.full((n, len(states)), 1 / len(states), dtype=z.dtype, device=z.device)
    fused = (attention.unsqueeze(-1) * z).sum(dim=1)
    return _head_by_hand(model, fused, x, batch), attention


def _batch_norm(x: Tensor, norm: torch.nn.BatchNorm1d) -> Tensor:
    scaled = (x - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps)
    return scaled * norm.weight + norm.bias


def _head_by_hand(model: MGNNI, fused: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
    head, h = model.head, fused
    kind = type(head).__name__

    def pool(rows: Tensor) -> Tensor:
        if batch is None:
            return rows
        return torch.stack([rows[batch == g].sum(0) for g in range(int(batch.max()) + 1)])

    if kind == "LinearHead":
        if head.norm is not None:
            h = _batch_norm(h, head.norm)
        return pool(h) @ head.linear.weight.T
    if kind == "MLPHead":
        for linear in head.hidden.linear:
            h = (h @ linear.weight.T + linear.bias).clamp(min=0)
        return pool(h) @ head.last.weight.T + head.last.bias
    if kind == "ResidualHead":
        h = h @ head.first.weight.T + head.first.bias
        h = h + x @ head.residual.weight.T + head.residual.bias
        h = torch.nn.functional.elu(_batch_norm(h, head.norms[0]))
        for linear, norm in zip(head.hidden, head.norms[1:], strict=True):
            h = torch.nn.functional.elu(_batch_norm(h @ linear.weight.T + linear.bias + h, norm))
        return pool(h) @ head.last.weight.T + head.last.bias
    for linear in head.node:
        h = (h @ linear.weight.T + linear.bias).clamp(min=0)
    h = pool(h)
    for linear in head.graph:
        h = (h @ linear.weight.T + linear.bias).clamp(min=0)
    return h @ head.last.weight.T + head.last.bias
