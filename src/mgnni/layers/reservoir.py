"""Untrained recursive layers: the states of nodes as the fixed point of a random contraction."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, NotContractiveError
from mgnni.graph.bounds import largest_degrees
from mgnni.graph.propagation import Propagation
from mgnni.layers.steady_state import SteadyState


def random_weight(rows: int, columns: int, norm: float, connections: int | None = None) -> Tensor:
    """Draw a matrix, uniformly, and scale it to a spectral norm.

    Args:
        rows: of the matrix.
        columns: of the matrix.
        norm: its largest singular value.
        connections: entries of a row that are not zero; none: all.
    """
    weight = torch.empty(rows, columns).uniform_(-1, 1)
    if connections is not None and connections < columns:
        places = torch.rand(rows, columns).topk(connections, dim=1).indices
        weight = torch.zeros_like(weight).scatter(1, places, weight.gather(1, places))
    wide = weight.double()
    size: Tensor = torch.linalg.matrix_norm(wide, 2)
    return (wide * (norm / size)).to(weight.dtype)


class Reservoir(nn.Module):
    r"""One untrained layer; gradients do not pass through it.

    .. math::  z_v = \tanh\Big(W_{in}\, x_v + \frac{1}{k} \sum_{u \to v} W z_u\Big), \qquad
               \|W\|_2 = \rho < 1, \qquad \|W_{in}\|_2 = \omega,

    with :math:`k` the largest degree, which bounds the norm of the graph, so that the map
    contracts by :math:`\rho` and the states are unique: graph embedding stability.

    Args:
        in_channels: width of the input.
        channels: width of the states.
        rho: contraction factor, at least 0 and below 1.
        omega: scale of the input.
        connections: weights that a neuron has from other neurons of its layer; none: from all.
        input_connections: weights that a neuron has from the input; none: from all of it.
        max_degree: :math:`k`; none: that of each graph.
        solver, tol, max_iter: see :func:`~mgnni.implicit.nonlinear.implicit_fixed_point`.

    Attributes:
        input_weight, weight: buffers, drawn once; part of ``state_dict``.
        contraction: a bound on the norm of ``weight``, measured when it was drawn.
        solve: knows how the last equation was solved.
    """

    input_weight: Tensor
    weight: Tensor
    contraction: Tensor

    def __init__(
        self,
        in_channels: int,
        channels: int,
        *,
        rho: float,
        omega: float,
        connections: int | None,
        input_connections: int | None,
        max_degree: int | None,
        solver: str,
        tol: float,
        max_iter: int | None,
    ) -> None:
        super().__init__()
        if not isinstance(rho, (int, float)) or not 0 <= rho <= 0.9999:
            raise ArgumentError(
                f"'rho' must lie in [0, 0.9999], so that the states are unique (got {rho!r}); try "
                "0.9"
            )
        if not isinstance(omega, (int, float)) or not 0 < omega < float("inf"):
            raise ArgumentError(f"'omega' must be positive and finite (got {omega!r}); try 1.0")
        self.rho, self.omega, self.max_degree = rho, omega, max_degree
        self.connections, self.input_connections = connections, input_connections
        self.register_buffer("input_weight", torch.empty(channels, in_channels))
        self.register_buffer("weight", torch.empty(channels, channels))
        self.register_buffer("contraction", torch.empty(()))
        self.solve = SteadyState(solver, tol, max_iter)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights anew, from torch's generator on the CPU wherever they are."""
        channels, in_channels = self.input_weight.shape
        drawn = random_weight(channels, in_channels, self.omega, self.input_connections)
        self.input_weight.copy_(drawn)
        self.weight.copy_(random_weight(channels, channels, self.rho, self.connections))
        # With room for rounding, of the norm itself and of the degrees.
        self.contraction.copy_((1 + 1e-5) * torch.linalg.matrix_norm(self.weight.double(), 2))

    def degree(self, propagation: Propagation) -> Tensor:
        """Return :math:`k`, for each node that of its graph, shape ``(num_nodes, 1)``."""
        degrees = largest_degrees(propagation)
        if self.max_degree is not None:
            found = float(degrees.max()) if degrees.numel() else 0.0
            if found > self.max_degree * (1 + 1e-9):
                raise NotContractiveError(
                    f"'max_degree' must not be below the largest degree, {found:g} (got "
                    f"{self.max_degree}); raise it, or leave it out to take that of each graph"
                )
            degrees = torch.full_like(degrees, self.max_degree)
        return degrees[propagation.graph_of_node()].unsqueeze(1)

    @torch.no_grad()
    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states, shape ``(num_nodes, channels)``, in the type of the operator."""
        dtype = propagation.dtype
        with torch.autocast(x.device.type, enabled=False):
            drive = x.to(dtype) @ self.input_weight.to(dtype).T
            share = (1 / self.degree(propagation)).to(dtype)
            weight = self.weight.to(dtype).T

            def step(z: Tensor) -> Tensor:
                return torch.tanh(drive + (share * propagation.multiply(z)) @ weight)

            return self.solve(  # type: ignore[no-any-return]
                step, (), drive.tanh(), propagation, contraction=float(self.contraction)
            )

    def extra_repr(self) -> str:
        """Widths, and what the weights are scaled to."""
        channels, in_channels = self.input_weight.shape
        return f"{in_channels}, {channels}, rho={self.rho}, omega={self.omega}"
