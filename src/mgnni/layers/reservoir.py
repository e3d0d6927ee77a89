"""Untrained implicit layers: the fixed point of a random contraction."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import NotContractiveError, check_number
from mgnni.graph.bounds import largest_degrees
from mgnni.graph.propagation import Propagation
from mgnni.layers.steady_state import SteadyState


def random_weight(rows: int, columns: int, norm: float, connections: int | None = None) -> Tensor:
    r"""Return a random matrix with uniform entries and the given spectral norm.

    Args:
        rows (int): Number of rows.
        columns (int): Number of columns.
        norm (float): Spectral norm of the matrix.
        connections (int, optional): Number of non-zero entries per row. :obj:`None` is all of
            them. (default: :obj:`None`)

    Shapes:
        - **output:** :math:`(\text{rows}, \text{columns})`
    """
    weight = torch.empty(rows, columns).uniform_(-1, 1)
    if connections is not None and connections < columns:
        places = torch.rand(rows, columns).topk(connections, dim=1).indices
        weight = torch.zeros_like(weight).scatter(1, places, weight.gather(1, places))
    wide = weight.double()
    size: Tensor = torch.linalg.matrix_norm(wide, 2)
    return (wide * (norm / size)).to(weight.dtype)


class Reservoir(nn.Module):
    r"""An untrained layer, through which no gradients flow.

    From the `"Fast and Deep Graph Neural Networks" <https://arxiv.org/abs/1911.08941>`_ paper.

    .. math::
        \mathbf{z}_v = \tanh\Big(\mathbf{W}_{in}\, \mathbf{x}_v + \frac{1}{k} \sum_{u \to v}
        \mathbf{W} \mathbf{z}_u\Big), \qquad
        \|\mathbf{W}\|_2 = \rho < 1, \qquad \|\mathbf{W}_{in}\|_2 = \omega,

    where :math:`k` is the largest degree, which bounds the norm of the adjacency matrix. The map
    contracts by :math:`\rho`, so that the states are unique (graph embedding stability).

    Args:
        in_channels (int): Size of each input sample.
        channels (int): Size of each state.
        rho (float): Contraction constant :math:`\rho \in [0, 1)`.
        omega (float): Scaling :math:`\omega` of the input.
        connections (int or None): Number of non-zero entries per row of :math:`\mathbf{W}`.
            :obj:`None` is all of them.
        input_connections (int or None): Number of non-zero entries per row of
            :math:`\mathbf{W}_{in}`. :obj:`None` is all of them.
        max_degree (int or None): The degree :math:`k`. :obj:`None` uses the largest degree of each
            graph.
        solver (str): :obj:`"anderson"` or :obj:`"picard"`.
        tol (float): Relative residual to reach in every graph.
        max_iter (int or None): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice.

    Attributes:
        input_weight, weight (Tensor): Buffers that are part of ``state_dict``.
        contraction (Tensor): A bound on the norm of ``weight``.
        solve (SteadyState): The solver, whose ``log`` has the statistics of the last solve.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** states :math:`(|\mathcal{V}|, F_{out})` in the dtype of the operator
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
        check_number("rho", rho, "[0, 0.9999]", "the states are then unique; try 0.9")
        check_number("omega", omega, "(0, inf)", "try 1.0")
        self.rho, self.omega, self.max_degree = rho, omega, max_degree
        self.connections, self.input_connections = connections, input_connections
        self.register_buffer("input_weight", torch.empty(channels, in_channels))
        self.register_buffer("weight", torch.empty(channels, channels))
        self.register_buffer("contraction", torch.empty(()))
        self.solve = SteadyState(solver, tol, max_iter)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Resets all weights, from torch's generator of the CPU on any device."""
        channels, in_channels = self.input_weight.shape
        drawn = random_weight(channels, in_channels, self.omega, self.input_connections)
        self.input_weight.copy_(drawn)
        self.weight.copy_(random_weight(channels, channels, self.rho, self.connections))
        # The margin covers rounding errors of the norm and of the degrees.
        self.contraction.copy_((1 + 1e-5) * torch.linalg.matrix_norm(self.weight.double(), 2))

    def degree(self, propagation: Propagation) -> Tensor:
        r"""Return the degree :math:`k` of the graph of each node.

        Args:
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **output:** :math:`(|\mathcal{V}|, 1)`
        """
        degrees = largest_degrees(propagation)
        if self.max_degree is not None:
            found = float(degrees.max()) if degrees.numel() else 0.0
            if found > self.max_degree * (1 + 1e-9):
                raise NotContractiveError(
                    f"'max_degree' must not be below the largest degree, {found:g} (got "
                    f"{self.max_degree}); raise it, or leave it out to use that of each graph"
                )
            degrees = torch.full_like(degrees, self.max_degree)
        return degrees[propagation.graph_of_node()].unsqueeze(1)

    @torch.no_grad()
    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states."""
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
        """Return the sizes and the norms of the weights."""
        channels, in_channels = self.input_weight.shape
        return f"{in_channels}, {channels}, rho={self.rho}, omega={self.omega}"
