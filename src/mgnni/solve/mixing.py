"""Anderson mixing for maps of which nothing is known, with a way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.solve.certify import graph_sum, spread

WINDOW = 5  # differences that are mixed
PATIENCE = 3  # mixed steps that may go wrong before a graph is left to Picard's


class Mixing:
    r"""Anderson mixing, each graph with weights of its own.

    Chooses :math:`\theta` to minimise :math:`\|r - \Delta R\,\theta\|` over the differences of
    the last residuals and goes to :math:`T(z) - \Delta T\,\theta`. A mixed step after which the
    residual is larger is taken back: Picard's step is taken from where it started, and its graph
    begins anew. Where that happens again and again, Picard's steps are all that is taken, so that
    a contraction is followed to its fixed point.

    Args:
        graphs: with the ``batch`` and ``num_graphs`` of the states.
    """

    def __init__(self, graphs: Any) -> None:
        self.graphs = graphs
        self.image: Tensor | None = None  # of the last point that was not taken back
        self.residual = self.size = self.mixed = self.refused = torch.empty(0)
        self.images = self.residuals = torch.empty(0)  # shape: (num_nodes, differences, channels)

    def step(self, image: Tensor, residual: Tensor, size: Tensor, running: Tensor) -> Tensor:
        """Return the next point.

        Args:
            image: what the map makes of the present point.
            residual: by how much that differs from the point.
            size: its norm, one a graph.
            running: graphs that are still to be moved.
        """
        if self.image is None:
            self.image, self.residual, self.size = image, residual, size
            self.mixed, self.refused = torch.zeros_like(running), torch.zeros_like(size)
            self.images = self.residuals = image.unsqueeze(1)[:, :0]
            return image
        worse = self.mixed & ~(size < self.size)
        self.refused = self.refused + worse
        back = spread(self.graphs, worse)
        # Rows that may mix; others forget, and without differences nothing is mixed.
        keep = spread(self.graphs, running & ~worse & (self.refused < PATIENCE)).unsqueeze(1)
        self.images = self._kept(self.images, image - self.image, keep)
        self.residuals = self._kept(self.residuals, residual - self.residual, keep)
        self.image = torch.where(back, self.image, image)
        self.residual = torch.where(back, self.residual, residual)
        self.size = torch.where(worse, self.size, size)
        theta = self._weights()
        self.mixed = (theta != 0).any(-1)
        if self.graphs.batch is None:
            return self.image - torch.einsum("nkc,k->nc", self.images, theta[0])
        return self.image - torch.einsum("nkc,nk->nc", self.images, theta[self.graphs.batch])

    @staticmethod
    def _kept(history: Tensor, difference: Tensor, keep: Tensor) -> Tensor:
        history = torch.cat([history[:, -WINDOW + 1 :], difference.unsqueeze(1)], dim=1)
        return torch.where(keep, history, 0.0)

    def _weights(self) -> Tensor:
        """Return the weight of each difference, shape ``(num_graphs, differences)``."""
        history = self.residuals
        rows = torch.einsum("nkc,nlc->kln", history, history).double()
        gram = graph_sum(self.graphs, rows).permute(2, 0, 1)
        right = graph_sum(self.graphs, torch.einsum("nkc,nc->kn", history, self.residual).double())
        # Old differences grow parallel. What is added is what rounding left uncertain; it is
        # more than nothing also where there is no difference yet.
        ridge = 1e-7 if history.dtype is torch.float32 else 1e-14
        trace = gram.diagonal(dim1=1, dim2=2).sum(-1)
        ridge_of = (ridge * trace).clamp(min=torch.finfo(torch.float64).tiny)
        identity = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)
        system = gram + ridge_of.view(-1, 1, 1) * identity
        theta, _ = torch.linalg.solve_ex(system, right.T.unsqueeze(-1))
        weights: Tensor = theta.squeeze(-1).to(history.dtype)
        return weights
