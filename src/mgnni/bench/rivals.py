"""Methods to compare with: TorchDEQ, explicit networks, and layers with other solvers."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GCNConv
from torch_geometric.nn.models import GIN
from torch_geometric.utils import to_torch_csr_tensor

from mgnni.errors import ArgumentError, MgnniError
from mgnni.graph.propagation import Propagation
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.models.mgnni import MGNNI
from mgnni.solve.result import SolveLog

# Solvers of TorchDEQ and their maximum number of iterations. Broyden's method allocates two
# tensors of the size of the states per iteration in advance.
DEQ_SOLVERS = {"fixed_point_iter": 5000, "anderson": 300, "broyden": 60}


class Solve(Protocol):
    """Differentiable solver of the equations of all scales."""

    def __call__(
        self,
        propagation: Propagation,
        weight: Tensor,
        bias: Tensor,
        scales: tuple[int, ...],
        gamma: float,
    ) -> Tensor:
        """Return the states, shape ``(scales, num_nodes, channels)``."""


class EquilibriumBy(nn.Module):
    r"""As :class:`~mgnni.layers.equilibrium.MultiscaleEquilibrium`, with another solver.

    Args:
        factor (Tensor): The parameters :math:`F_m`.
        scales (tuple[int, ...]): The powers :math:`m`.
        gamma (float): The factor :math:`\gamma`.
        solve (Solve): The solver.

    Shapes:
        - **factor:** ``(scales, channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``(scales, num_nodes, channels)``
    """

    def __init__(self, factor: Tensor, scales: tuple[int, ...], gamma: float, solve: Solve) -> None:
        super().__init__()
        self.factor = nn.Parameter(factor.detach().clone())
        self.scales, self.gamma, self.solve = scales, gamma, solve
        self.log = SolveLog()  # stays empty: such solvers certify nothing

    def forward(self, bias: Tensor, propagation: Propagation) -> Tensor:
        """Return the states of every scale."""
        return self.solve(propagation, normalized_gram(self.factor), bias, self.scales, self.gamma)


def _layer(model: MGNNI) -> MultiscaleEquilibrium:
    """Return the layer of a model with one equilibrium per scale, as published."""
    if not isinstance(model.equilibrium, MultiscaleEquilibrium):
        raise ArgumentError(
            "'model' must have directions='in' to be compared with other solvers (got both or "
            "'out'); build it with the defaults"
        )
    return model.equilibrium


def solved_by(model: MGNNI, solve: Solve) -> MGNNI:
    """Replace the solver of a model in place, and return the model."""
    old = _layer(model)
    model.add_module("equilibrium", EquilibriumBy(old.factor, old.scales, old.gamma, solve))
    return model


def deq_installed() -> bool:
    """Return whether TorchDEQ can be imported."""
    spec = importlib.util.find_spec("torchdeq")
    return spec is not None and spec.origin is not None  # a folder of this name has no origin


@cache
def _deq(solver: str, tol: float, max_iter: int) -> Callable[..., Any]:
    if not deq_installed():
        raise MgnniError("comparing with TorchDEQ needs torchdeq; run: pip install 'mgnni[bench]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its docstrings cause warnings in newer Pythons
        library = importlib.import_module("torchdeq")
    made: Callable[..., Any] = library.get_deq(
        f_solver=solver,
        b_solver=solver,
        f_max_iter=max_iter,
        b_max_iter=max_iter,
        f_tol=tol,
        b_tol=tol,
        f_stop_mode="rel",
        b_stop_mode="rel",
        ift=True,
    )
    return made


def deq_equilibria(
    propagation: Propagation,
    weight: Tensor,
    bias: Tensor,
    scales: tuple[int, ...],
    gamma: float,
    solver: str,
    tol: float,
) -> Tensor:
    """Solve the equations of all scales with TorchDEQ.

    The first dimension of a state is the batch dimension of TorchDEQ. The nodes of a graph depend
    on one another, so a graph is a batch of size one.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor): The weights.
        bias (Tensor): The bias.
        scales (tuple[int, ...]): The powers of the operator.
        gamma (float): The contraction factor.
        solver (str): Name of a solver of TorchDEQ, one of ``DEQ_SOLVERS``.
        tol (float): Relative tolerance of that solver.

    Shapes:
        - **weight:** ``(scales, channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``(scales, num_nodes, channels)``
    """
    enough = math.ceil(math.log(1e-9) / math.log(max(gamma, 0.5)))
    deq = _deq(solver, tol, min(DEQ_SOLVERS[solver], enough))
    deq.train(torch.is_grad_enabled())  # type: ignore[attr-defined] # else without gradients
    found = []
    for i, scale in enumerate(scales):

        def step(z: Tensor, w: Tensor = weight[i], scale: int = scale) -> Tensor:
            return torch.addmm(bias, propagation.apply(z[0], scale), w, alpha=gamma).unsqueeze(0)

        states, _ = deq(step, torch.zeros_like(bias).unsqueeze(0))
        found.append(states[-1][0])
    return torch.stack(found)


class Explicit(nn.Module):
    """A model whose equilibria and attention are replaced by an explicit network.

    Args:
        model (MGNNI): The model whose input map and head are copied.
        middle (nn.Module): The network; called with node features and the graph.
        fixed (bool): Whether the graph is always the same, so that its matrix is cached.

    Shapes:
        - **input:** node features ``(num_nodes, in_channels)``, edge indices ``(2, num_edges)``,
          graph of each node ``(num_nodes,)`` *(optional)*
        - **output:** ``(num_nodes, out_channels)``, or ``(num_graphs, out_channels)`` for graphs
    """

    def __init__(self, model: MGNNI, middle: nn.Module, fixed: bool) -> None:
        super().__init__()
        self.input_map, self.head = copy.deepcopy(model.input_map), copy.deepcopy(model.head)
        self.middle, self.fixed = middle, fixed
        self.by_graph = model.level == "graph"
        self._matrix: Tensor | None = None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the logits."""
        on_cpu = edge_index.device.type == "cpu"
        graph = self._csr(x.size(0), edge_index) if self.fixed and on_cpu else edge_index
        z = self.middle(self.input_map(x), graph)
        pooled = batch if self.by_graph else None
        graphs = 1 if pooled is None else int(pooled[-1]) + 1
        logits: Tensor = self.head(z, x, pooled, graphs)
        return logits

    def _csr(self, num_nodes: int, edge_index: Tensor) -> Tensor:
        """Return the transposed adjacency in CSR, much faster than an edge list on a CPU."""
        if self._matrix is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse ")  # in beta state, and unchecked
                size = (num_nodes, num_nodes)
                self._matrix = to_torch_csr_tensor(edge_index.flip(0), size=size)
        return self._matrix


class _GCN(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(channels, channels, cached=True) for _ in range(2)])

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        for conv in self.convs:
            x = torch.relu(conv(x, graph))
        return x


def gcn(model: MGNNI) -> Explicit:
    """Return a network of two graph convolutions, as wide as the equilibria."""
    return Explicit(model, _GCN(_layer(model).channels), fixed=True)


def appnp(model: MGNNI) -> Explicit:
    """Return a network of ten steps of personalised PageRank."""
    return Explicit(model, APPNP(K=10, alpha=0.1, cached=True), fixed=True)


def gin(model: MGNNI) -> Explicit:
    """Return a network of five graph isomorphism layers, as wide as the equilibria."""
    width = _layer(model).channels
    return Explicit(model, GIN(width, width, num_layers=5), fixed=False)
