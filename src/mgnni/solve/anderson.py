"""Anderson mixing for fixed-point maps, with a fallback to Picard steps."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.certify import Graphs, graph_sum, spread

WINDOW = 5  # number of differences that are mixed
PATIENCE = 3  # rejected steps after which a graph takes Picard steps only


class AndersonMixing:
    r"""Anderson mixing with separate weights for each graph.

    Chooses :math:`\theta` to minimise :math:`\|r - \Delta R\,\theta\|` over the differences of
    the last residuals and moves to :math:`T(z) - \Delta T\,\theta`. A mixed step that increases
    the residual is rejected: the graph takes a Picard step from where the mixed step started, and
    its history is cleared. After several rejections a graph takes Picard steps only, so that a
    contraction is followed to its fixed point.

    Args:
        graphs (Graphs): The graph of each node.
        image (Tensor): The map at the first point.
        residual (Tensor): The residual at the first point.
        size (Tensor): The norm of the residual of each graph.

    Shapes:
        - **image, residual:** ``(num_nodes, channels)``
        - **size:** ``(num_graphs,)``, float64
    """

    def __init__(self, graphs: Graphs, image: Tensor, residual: Tensor, size: Tensor) -> None:
        self.graphs = graphs
        self.image, self.residual, self.size = image, residual, size  # at the last accepted point
        self.images = image.new_zeros(WINDOW, *image.shape)  # differences, a ring buffer
        self.residuals = torch.zeros_like(self.images)
        self.gram = size.new_zeros(len(size), WINDOW, WINDOW)  # their inner products
        self.known = torch.zeros_like(self.gram[0], dtype=torch.bool)[:1].repeat(len(size), 1)
        self.mixed = torch.zeros_like(size, dtype=torch.bool)
        self.refused = torch.zeros_like(size)
        self.count = 0

    def step(self, image: Tensor, residual: Tensor, size: Tensor) -> Tensor:
        """Returns the next point."""
        worse = self.mixed & ~(size < self.size)
        self.refused = self.refused + worse
        self._remember(image, residual, ~worse & (self.refused < PATIENCE))
        back = spread(self.graphs, worse)
        self.image = torch.where(back, self.image, image)
        self.residual = torch.where(back, self.residual, residual)
        self.size = torch.where(worse, self.size, size)
        theta = self._weights()
        self.mixed = self.known.any(-1)
        if self.graphs.batch is None:
            mixture: Tensor = torch.tensordot(theta[0], self.images, 1)
        else:
            mixture = (theta[self.graphs.batch].T.unsqueeze(-1) * self.images).sum(0)
        return self.image - mixture

    def _remember(self, image: Tensor, residual: Tensor, keep: Tensor) -> None:
        """Stores a difference in place of the oldest; clears the history of other graphs."""
        place = self.count % WINDOW
        self.count += 1
        torch.sub(image, self.image, out=self.images[place])
        torch.sub(residual, self.residual, out=self.residuals[place])
        products = self._dots(self.residuals[place])
        self.gram[:, place], self.gram[:, :, place] = products, products
        self.known[:, place] = True
        self.known &= keep.unsqueeze(1)

    def _dots(self, x: Tensor) -> Tensor:
        """Inner products with all differences of residuals, shape ``(num_graphs, WINDOW)``."""
        if self.graphs.batch is None:
            return (self.residuals.flatten(1) @ x.flatten()).double().unsqueeze(0)
        return graph_sum(self.graphs, (self.residuals * x).sum(-1).double()).T

    def _weights(self) -> Tensor:
        """Returns the weight of each difference, shape ``(num_graphs, WINDOW)``."""
        known = self.known.double()
        gram = self.gram * known.unsqueeze(1) * known.unsqueeze(2)
        right = self._dots(self.residual) * known
        # Old differences become parallel. The ridge is of the size of the rounding, and positive
        # even without any history.
        ridge = 1e-7 if self.image.dtype is torch.float32 else 1e-14
        trace = gram.diagonal(dim1=1, dim2=2).sum(-1)
        ridge_of = (ridge * trace).clamp(min=torch.finfo(torch.float64).tiny)
        identity = torch.eye(WINDOW, dtype=gram.dtype, device=gram.device)
        theta, _ = torch.linalg.solve_ex(
            gram + ridge_of.view(-1, 1, 1) * identity, right.unsqueeze(-1)
        )
        weights: Tensor = theta.squeeze(-1).to(self.image.dtype)
        return weights
