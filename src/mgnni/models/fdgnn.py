"""FDGNN: untrained recursive layers, and a readout that is all that learns."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mgnni.graph.memo import Memo
from mgnni.graph.propagation import Propagation
from mgnni.layers.random_readout import RandomReadout
from mgnni.layers.reservoir import Reservoir
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width
from mgnni.solve.result import Records, SolveLog

_states: Memo[tuple[Tensor, SolveLog]] = Memo()


class FDGNN(GraphModel):
    r"""FDGNN of `Gallicchio and Micheli, AAAI 2020`.

    .. math::  z^{(i)}_v = \tanh\Big(W^{(i)}_{in} z^{(i-1)}_v
               + \frac{1}{k} \sum_{u \to v} W^{(i)} z^{(i)}_u\Big), \qquad z^{(0)} = x, \qquad
               \text{logits} = V \tanh\Big(\Phi \sum_v z^{(L)}_v\Big) + b.

    All but :math:`V` and :math:`b` are drawn once, at construction, and part of ``state_dict``
    without being parameters: no gradient reaches features or edge weights. States are solved for
    to a certified error, once for the same operator and features, and kept while these live. For
    nodes, the sum over them is left out.

    Args:
        in_channels: features of a node.
        hidden_channels: neurons of a layer.
        out_channels: classes, or labels.
        num_layers: recursive layers, each fed by the states of the one before.
        rho: contraction factor of every layer, at least 0 and below 1.
        omega: scale of the input of every layer.
        connections: weights that a neuron has from others, of its layer or of the one before;
            none: from all.
        max_degree: largest degree of all graphs there will be; none: that of each graph by itself.
        readout_channels: random features of the summed states; none: the sum itself.
        dropout: probability, of the random features.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        solver: ``"anderson"``, or ``"picard"`` as the authors.
        tol: relative residual to be reached in every graph.
        max_iter: most steps of a solve; none: as many as are proven to be enough.
    """

    own_readout = True
    shares_graph = False  # runs have reservoirs of their own, whose solves stop at other times

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 3,
        rho: float = 0.9,
        omega: float = 1.0,
        connections: int | None = 1,
        max_degree: int | None = None,
        readout_channels: int | None = 500,
        dropout: float = 0.0,
        level: str = "auto",
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",
            self_loops=False,
        )
        check_width("num_layers", num_layers)
        for name, number in (
            ("connections", connections),
            ("max_degree", max_degree),
            ("readout_channels", readout_channels),
        ):
            if number is not None:
                check_width(name, number)
        options: dict[str, Any] = {
            "rho": rho,
            "omega": omega,
            "connections": connections,
            "max_degree": max_degree,
            "solver": solver,
            "tol": tol,
            "max_iter": max_iter,
        }
        h = hidden_channels
        first = Reservoir(in_channels, h, input_connections=None, **options)
        later = [
            Reservoir(h, h, input_connections=connections, **options) for _ in range(num_layers - 1)
        ]
        self.layers = nn.ModuleList([first, *later])
        self.row_channels = hidden_channels
        self.readout = RandomReadout(hidden_channels, readout_channels, out_channels, dropout)
        self._options = tuple(options.values())
        self._log = SolveLog()

    @property
    def solve_log(self) -> SolveLog:
        """How the states in use were solved for, one record a layer, be it in an earlier pass."""
        return self._log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states of the last layer, solved for at the first call."""
        states, self._log = _states.get(
            propagation,
            lambda: self._solved(x, propagation),
            tensors=(x, *self.layers.buffers()),
            options=self._options,
        )
        return states.to(x.dtype)

    def _solved(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, SolveLog]:
        records: tuple[Records, ...] = ()
        for layer in self.layers:
            x = layer(x, propagation)
            records += layer.solve.log.forward_records  # type: ignore[union-attr, operator]
        return x, SolveLog(records)
