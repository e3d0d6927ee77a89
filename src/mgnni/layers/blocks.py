"""Equilibria in both directions of the edges, and residual blocks around them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mgnni.graph.propagation import Propagation
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.fusion import Fusion
from mgnni.layers.regularization import Dropout
from mgnni.solve.result import SolveLog

DIRECTIONS = ("in", "out", "both")


class DirectedEquilibrium(nn.Module):
    r"""Equilibria of a graph along its edges, against them, or both.

    .. math::
        \mathbf{Z}_m = \gamma\, \mathbf{P}^m \mathbf{Z}_m\, g(\mathbf{F}_m) + \mathbf{B}, \qquad
        \mathbf{Z}'_m = \gamma\, (\mathbf{P}^{\top})^m \mathbf{Z}'_m\, g(\mathbf{F}'_m) + \mathbf{B}

    Both equations contract with the same constant, because a matrix and its transpose have the
    same norm. On an undirected graph with symmetric normalization they coincide.

    Args:
        make (Callable[[], MultiscaleEquilibrium]): Builds the layer of one direction.
        directions (str, optional): :obj:`"in"` aggregates along the message passing of the
            operator, :obj:`"out"` against it. :obj:`"both"` has parameters for each.
            (default: :obj:`"both"`)

    Shapes:
        - **input:** bias :math:`(|\mathcal{V}|, F)` and the operator
        - **output:** :math:`(M, |\mathcal{V}|, F)`, or :math:`(2 M, |\mathcal{V}|, F)` with
          ``directions="both"``
    """

    def __init__(self, make: Callable[[], MultiscaleEquilibrium], directions: str = "both") -> None:
        super().__init__()
        self.along = make() if directions != "out" else None
        self.against = make() if directions != "in" else None

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for part in (self.along, self.against):
            if part is not None:
                part.reset_parameters()

    def forward(self, bias: Tensor, propagation: Propagation) -> Tensor:
        """Returns the states of all scales, first along and then against the edges."""
        states = []
        if self.along is not None:
            states.append(self.along(bias, propagation))
        if self.against is not None:
            states.append(self.against(bias, propagation, adjoint=True))
        return torch.cat(states)

    @property
    def log(self) -> SolveLog:
        """How the last pass was solved."""
        return SolveLog.merged(part.log for part in (self.along, self.against) if part is not None)


class ResidualBlock(nn.Module):
    r"""An equilibrium with layer normalization, a linear map and a residual connection.

    .. math::
        \mathbf{H}' = \mathbf{H} + \mathrm{dropout}(\mathrm{ReLU}(
        \mathrm{fusion}(\mathrm{equilibrium}(\mathrm{LayerNorm}(\mathbf{H}))) \mathbf{W} + b))

    Args:
        channels (int): Number of channels of the states.
        equilibrium (torch.nn.Module): The equilibria at all scales.
        fusion (Fusion): Combines them.
        members (int): Number of states per node that are combined.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** states :math:`(|\mathcal{V}|, F)` and the operator
        - **output:** states :math:`(|\mathcal{V}|, F)`
    """

    def __init__(
        self,
        channels: int,
        equilibrium: MultiscaleEquilibrium | DirectedEquilibrium,
        fusion: Fusion,
        members: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.equilibrium = equilibrium
        self.fusion = fusion
        self.linear = nn.Linear(fusion.width(channels, members), channels)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for part in (self.norm, self.equilibrium, self.fusion, self.linear):
            part.reset_parameters()

    def forward(self, h: Tensor, propagation: Propagation) -> Tensor:
        """Returns the next states."""
        z = self.equilibrium(self.norm(h), propagation).to(h.dtype)
        update: Tensor = self.dropout(self.linear(self.fusion(z)[0]).relu())
        return h + update


def state_names(options: object) -> tuple[int | str, ...]:
    """Returns a name for each state that :class:`~mgnni.MGNNI` combines, in their order.

    A state along the message passing is named by its scale, one against it ``"1-out"``, and the
    bias ``"bias"``.

    Args:
        options (object): The model, or its arguments as attributes; without ``scales`` there are
            no names.
    """
    scales: tuple[int, ...] = tuple(getattr(options, "scales", ()))
    directions = getattr(options, "directions", "in")
    along = scales if directions != "out" else ()
    against = [f"{scale}-out" for scale in scales] if directions != "in" else []
    return (*along, *against, *(["bias"] if getattr(options, "skip", False) else []))
