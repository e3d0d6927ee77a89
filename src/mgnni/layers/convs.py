"""PyG's convolutions on a :class:`~mgnni.Propagation`.

Parameters and arithmetic are PyG's. The sparse product is that of the operator, which is normalised
once per graph, has its transpose at hand for gradients, and supports ``vmap``. The layers do not
normalise: they aggregate with the entries of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from mgnni.errors import ArgumentError, check_choice, check_int, check_ints, check_number
from mgnni.graph.bounds import row_sums
from mgnni.graph.geometry import RELATIONS
from mgnni.graph.masked import without_mask
from mgnni.graph.propagation import Propagation

AGGREGATIONS = ("mean", "sum", "max")


def propagate(propagation: Propagation, x: Tensor, power: int = 1) -> Tensor:
    r"""Return :math:`\mathbf{P}^k \mathbf{X}`, computed in the dtype of the operator.

    Args:
        propagation (Propagation): The operator :math:`\mathbf{P}`.
        x (Tensor): Node features.
        power (int, optional): The power :math:`k`. (default: :obj:`1`)

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`
        - **output:** node features :math:`(|\mathcal{V}|, F)` in the dtype of ``x``
    """
    with torch.autocast(x.device.type, enabled=False):
        return propagation.apply(x.to(propagation.dtype), power).to(x.dtype)


def _propagate(self: Any, edge_index: Propagation, size: Any = None, **inputs: Any) -> Tensor:
    """Replace :meth:`torch_geometric.nn.MessagePassing.propagate`."""
    x = inputs["x"]
    return propagate(edge_index, x if isinstance(x, Tensor) else x[0])


# PyG generates `propagate` for every class that does not define it in its own body, so each class
# below assigns it.


class GCNConv(pyg.GCNConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.GCNConv` with a power of the operator.

    .. math::
        \mathbf{X}^{\prime} = \mathbf{P}^k \mathbf{X} \mathbf{\Theta} + \mathbf{b}

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample.
        power (int, optional): The power :math:`k`. (default: :obj:`1`)
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.GCNConv`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, power: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(in_channels, out_channels, **kwargs, normalize=False)
        self.power = check_int("power", power, least=0)

    def propagate(self, edge_index: Propagation, x: Tensor, **_: Any) -> Tensor:
        """Apply the power of the operator."""
        return propagate(edge_index, x, self.power)

    @property
    def input_weight(self) -> Tensor:
        """The weight that features are multiplied with first."""
        weight: Tensor = self.lin.weight
        return weight

    def after_product(self, product: Tensor, propagation: Propagation) -> Tensor:
        """Return the output from the product of the features with :attr:`input_weight`."""
        out = self.propagate(propagation, product)
        return out if self.bias is None else out + self.bias


class APPNPConv(pyg.APPNP):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.APPNP` without dropout of edges.

    .. math::
        \mathbf{X}^{(k)} = (1 - \alpha)\, \mathbf{P} \mathbf{X}^{(k-1)} + \alpha \mathbf{X}^{(0)}

    Args:
        K (int): Number of iterations.
        alpha (float): Teleport probability :math:`\alpha \in [0, 1]`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F)`
    """

    propagate = _propagate

    def __init__(self, K: int, alpha: float) -> None:
        super().__init__(
            check_int("K", K, least=0),
            check_number("alpha", alpha, "[0, 1]", "0.1 is usual"),
            normalize=False,
        )


class GCN2Conv(pyg.GCN2Conv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.GCN2Conv`.

    Args:
        channels (int): Size of each input and output sample.
        alpha (float): Strength of the initial residual connection, in :math:`[0, 1]`.
        theta (float): Hyperparameter :math:`\theta` of the strength of the identity mapping.
        layer (int): Index of the layer, starting from 1.
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.GCN2Conv`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`, initial node features
          :math:`(|\mathcal{V}|, F)`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F)`
    """

    propagate = _propagate

    def __init__(
        self, channels: int, alpha: float, theta: float, layer: int, **kwargs: Any
    ) -> None:
        check_number("theta", theta, "[0, inf)", "0.5 is usual")
        check_number("alpha", alpha, "[0, 1]", "0.1 is usual")
        super().__init__(channels, alpha, theta, layer, **kwargs, normalize=False)


class GINConv(pyg.GINConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.GINConv`.

    The operator should be built with ``normalization="none"`` and ``self_loops=False``.

    Args:
        nn (torch.nn.Module): A network that maps node features from :math:`F_{in}` to
            :math:`F_{out}` channels.
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.GINConv`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`
    """

    propagate = _propagate


class MixHopConv(pyg.MixHopConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.MixHopConv`.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample per power.
        powers (Sequence[int]): Distinct powers of the operator.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, |\text{powers}| \cdot F_{out})`
    """

    propagate = _propagate

    def __init__(self, in_channels: int, out_channels: int, powers: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels, list(check_powers(powers)))


class SAGEConv(pyg.SAGEConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.SAGEConv`, for an operator of unnormalised edge weights.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample.
        aggr (str, optional): Aggregation of the in-neighbours: :obj:`"mean"` or :obj:`"sum"`,
            weighted by the edge weights, or :obj:`"max"`. A node without in-neighbours receives
            zeros. (default: :obj:`"mean"`)
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.SAGEConv`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(
        self, in_channels: int, out_channels: int, aggr: str = "mean", **kwargs: Any
    ) -> None:
        aggr = check_choice("aggr", aggr, AGGREGATIONS)
        super().__init__(in_channels, out_channels, aggr, **kwargs)

    def propagate(self, edge_index: Propagation, x: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        """Aggregate the features of the in-neighbours."""
        if self.aggr == "max":
            return _max_over_neighbors(edge_index, x[0])
        out = propagate(edge_index, x[0])
        if self.aggr == "sum":
            return out
        with torch.autocast(out.device.type, enabled=False):  # sparse products need full precision
            total = row_sums(without_mask(edge_index))
        return out / torch.where(total == 0, 1.0, total).to(out.dtype)

    @property
    def input_weight(self) -> Tensor:
        """The weights of neighbours and of the node itself; a sum or mean commutes with them."""
        return torch.cat([self.lin_l.weight, self.lin_r.weight])

    def after_product(self, product: Tensor, propagation: Propagation) -> Tensor:
        """Return the output from the product of the features with :attr:`input_weight`."""
        neighbors, own = product.chunk(2, dim=1)
        out: Tensor = self.propagate(propagation, (neighbors, neighbors)) + self.lin_l.bias + own
        return out


class GeometricConv(nn.Module):
    r"""The bi-level aggregation of Geom-GCN: one linear map per relation.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample, a multiple of the number of relations.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator of
          :func:`mgnni.graph.geometry.structural`
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`, concatenated over relations
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module, one relation at a time."""
        for weight in self.linear.weight.chunk(RELATIONS):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the aggregated features of all relations."""
        h = self.linear(x)
        virtual = h.reshape(-1, h.size(1) // RELATIONS)
        return propagate(propagation, virtual).reshape(h.shape)


def check_powers(powers: Sequence[int]) -> tuple[int, ...]:
    """Return powers of an operator as a tuple if they are distinct; else raise.

    Args:
        powers (Sequence[int]): At least one non-negative integer.
    """
    checked = check_ints("powers", powers, least=0)
    if not checked or len(set(checked)) < len(checked):
        raise ArgumentError(
            f"'powers' must be at least one, and distinct (got {checked}); write for example (0, 1)"
        )
    return checked


def _max_over_neighbors(propagation: Propagation, x: Tensor) -> Tensor:
    source = x[propagation.pattern.col.long()]
    target = propagation.pattern.row.unsqueeze(1).expand(-1, x.size(1))
    return torch.zeros_like(x).scatter_reduce(0, target, source, "amax", include_self=False)
