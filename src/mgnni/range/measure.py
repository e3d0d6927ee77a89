"""The range of any model: Jacobians and perturbations of its outputs, node by node."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.steady_state import SteadyState
from mgnni.range.hops import check_nodes

NORMS = ("frobenius", "l1")
OUTPUTS = ("all", "random")
AT_ONCE = 2**26  # numbers in the gradients of one batch of cotangents


class States(nn.Module):
    """The states of the first equilibrium layer of a model, instead of its logits.

    Args:
        model (torch.nn.Module): A model with a :class:`~mgnni.MultiscaleEquilibrium`, such as
            :class:`~mgnni.MGNNI` or :class:`~mgnni.EIGNN`.

    Shapes:
        - **input:** those of the model
        - **output:** ``(num_nodes, scales * channels)``
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        find_equilibrium(model)

    def forward(self, x: Tensor, *graph: Tensor | Propagation | None) -> Tensor:
        """Return the states of all scales, side by side.

        Args:
            x (Tensor): Node features, shape ``(num_nodes, in_channels)``.
            *graph (Tensor or Propagation): The other inputs of the model.
        """
        found: list[Tensor] = []
        layer = find_equilibrium(self.model)
        handle = layer.register_forward_hook(lambda _, __, z: found.append(z))
        try:
            self.model(x, *graph)
        finally:
            handle.remove()
        return found[0].permute(1, 0, 2).flatten(1)


def find_equilibrium(model: nn.Module) -> MultiscaleEquilibrium:
    """Return the first equilibrium layer of a model, or raise if there is none."""
    for module in model.modules():
        if isinstance(module, MultiscaleEquilibrium):
            return module
    raise ArgumentError(
        f"'model' must have a MultiscaleEquilibrium (got {type(model).__name__}); MGNNI and EIGNN "
        "have one, all others can be measured by their logits"
    )


def jacobian_influence(
    model: nn.Module,
    x: Tensor,
    edge_index: Tensor | Propagation,
    nodes: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *,
    norm: str = "frobenius",
    outputs: str = "all",
    tol: float = 1e-12,
    seed: int = 0,
) -> Tensor:
    r"""Returns the size of :math:`\partial y_q / \partial x_p` for nodes :math:`q` of any model.

    The model is copied, in float64 and evaluation mode, and the equations of implicit layers are
    solved to ``tol`` in both passes, so the gradients are those of the equilibrium. Cotangents
    are batched where the model allows it.

    Args:
        model (torch.nn.Module): Any module that maps ``(x, edge_index)``, or ``(x, edge_index,
            edge_weight)`` if there are weights, to one row per node.
        x (Tensor): Node features.
        edge_index (Tensor or Propagation): The graph, as the model takes it.
        nodes (Tensor, optional): The influenced nodes :math:`q`; all nodes if :obj:`None`.
            (default: :obj:`None`)
        edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
        norm (str, optional): ``"frobenius"``, or ``"l1"``, the sum of absolute values, as in
            PyG's ``total_influence``. (default: ``"frobenius"``)
        outputs (str, optional): ``"all"`` takes one cotangent per output of a node. ``"random"``
            takes a single one with random signs: its squared norm is that of the Jacobian in
            expectation. Only for ``norm="frobenius"``. (default: ``"all"``)
        tol (float, optional): Tolerance of implicit layers. (default: :obj:`1e-12`)
        seed (int, optional): Seed of the random signs. (default: :obj:`0`)

    Shapes:
        - **x:** ``(num_nodes, in_channels)``
        - **nodes:** ``(count,)``
        - **output:** ``(count, num_nodes)``, float64; row :math:`q`, column :math:`p`
    """
    check_choice("norm", norm, NORMS)
    if check_choice("outputs", outputs, OUTPUTS) == "random" and norm != "frobenius":
        raise ArgumentError(f"'norm' must be 'frobenius' with outputs='random' (got {norm!r})")
    nodes = torch.arange(x.size(0)) if nodes is None else nodes
    nodes = check_nodes(nodes, x.size(0))
    exact = accurate(model, tol).requires_grad_(False)
    features = x.detach().to_dense().double().requires_grad_()
    y = _outputs(exact, features, edge_index, edge_weight)
    if not y.requires_grad:
        raise ArgumentError(
            f"'model' must be differentiable in x (got {type(model).__name__}, which is not); use "
            "mgnni.range.perturbation_response"
        )
    channels = y.size(1)
    each = channels if outputs == "all" else 1
    size = max(AT_ONCE // max(features.numel() * each, 1), 1)
    generator = torch.Generator().manual_seed(seed)
    found = [torch.empty(0, x.size(0), dtype=torch.float64)]
    for some in torch.split(nodes, size):
        rows = y[some.to(y.device)]
        count = len(some)
        if outputs == "all":
            cotangents = torch.eye(count * channels, dtype=y.dtype, device=y.device)
            cotangents = cotangents.view(-1, count, channels)
        else:
            signs = torch.randint(0, 2, (count, channels), generator=generator).to(y) * 2 - 1
            cotangents = torch.diag_embed(signs.mT).permute(1, 2, 0)
        grads = _pulled_back(rows, features, cotangents).view(count, each, *features.shape)
        size_of = grads.abs().sum((1, 3)) if norm == "l1" else grads.square().sum((1, 3)).sqrt()
        found.append(size_of.cpu())
    return torch.cat(found)


def perturbation_response(
    model: nn.Module,
    x: Tensor,
    edge_index: Tensor | Propagation,
    nodes: Tensor,
    edge_weight: Tensor | None = None,
    *,
    change: Tensor | None = None,
    tol: float | None = 1e-12,
) -> Tensor:
    r"""Returns :math:`\|\Delta y_q\|` when the features of a node :math:`p` are changed.

    Args:
        model (torch.nn.Module): As in :func:`jacobian_influence`. It is evaluated once per node.
        x (Tensor): Node features.
        edge_index (Tensor or Propagation): The graph, as the model takes it.
        nodes (Tensor): The nodes :math:`p`, which are changed one at a time.
        edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
        change (Tensor, optional): What is added to the features of :math:`p`. If :obj:`None`, they
            are masked: set to zero. (default: :obj:`None`)
        tol (float, optional): Tolerance of implicit layers, in float64. :obj:`None` leaves the
            model as it is, with its own precision and tolerance. (default: :obj:`1e-12`)

    Shapes:
        - **x:** ``(num_nodes, in_channels)``
        - **nodes:** ``(count,)``
        - **change:** ``(in_channels,)``, or ``(count, in_channels)``
        - **output:** ``(count, num_nodes)``; row :math:`p`, column :math:`q`
    """
    nodes = check_nodes(nodes, x.size(0))
    exact = model if tol is None else accurate(model, tol)
    features = x.detach().to_dense()
    features = features if tol is None else features.double()
    if change is not None:
        change = change.to(features).expand(len(nodes), x.size(1))
    rows = []
    with torch.no_grad(), _evaluating(exact):
        before = _outputs(exact, features, edge_index, edge_weight)
        for place, node in enumerate(nodes.tolist()):
            moved = features.clone()
            moved[node] = 0.0 if change is None else moved[node] + change[place]
            after = _outputs(exact, moved, edge_index, edge_weight)
            rows.append(torch.linalg.vector_norm((after - before).double(), dim=1).cpu())
    return torch.stack(rows) if rows else torch.empty(0, x.size(0), dtype=torch.float64)


def accurate(model: nn.Module, tol: float) -> nn.Module:
    """Return a copy in float64 and evaluation mode whose implicit layers are solved to ``tol``.

    Args:
        model (torch.nn.Module): The model.
        tol (float): The tolerance.
    """
    exact = copy.deepcopy(model).double().eval()
    for module in exact.modules():
        if isinstance(module, MultiscaleEquilibrium):
            module.options = dataclasses.replace(module.options, tol=tol, max_iter=None)
        elif isinstance(module, SteadyState):
            module.tol, module.max_iter = tol, None
    return exact


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def _outputs(
    model: nn.Module, x: Tensor, edge_index: Tensor | Propagation, edge_weight: Tensor | None
) -> Tensor:
    if isinstance(edge_index, Propagation):
        edge_index = edge_index.double() if x.dtype is torch.float64 else edge_index
    graph = (edge_index,) if edge_weight is None else (edge_index, edge_weight.to(x.dtype))
    y = model(x, *graph)
    if not isinstance(y, Tensor) or y.dim() != 2 or y.size(0) != x.size(0):
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ArgumentError(
            f"'model' must return one row for each of the {x.size(0)} nodes (got {shape}); wrap "
            "it in a module that does"
        )
    return y


def _pulled_back(y: Tensor, x: Tensor, cotangents: Tensor) -> Tensor:
    """Gradients for a batch of cotangents; one at a time if an operation cannot be batched."""
    try:
        (grads,) = torch.autograd.grad(y, x, cotangents, retain_graph=True, is_grads_batched=True)
    except RuntimeError:
        grads = torch.stack(
            [torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in cotangents]
        )
    return grads
