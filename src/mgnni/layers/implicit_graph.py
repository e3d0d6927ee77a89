"""The implicit layer of IGNN, and the projection that keeps it well-posed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.graph.bounds import perron_bound
from mgnni.graph.product import multiplied
from mgnni.graph.propagation import Propagation
from mgnni.layers.steady_state import SteadyState

ROUNDING = 1e-6  # relative rounding error of a weight in float32


class ImplicitGraph(nn.Module):
    r"""The implicit layer of IGNN.

    From the `"Implicit Graph Neural Networks" <https://arxiv.org/abs/2009.06211>`_ paper.

    .. math::
        \mathbf{Z} = \mathrm{ReLU}(\mathbf{P} \mathbf{Z} \mathbf{W}^{\top} + \mathbf{P} \mathbf{X}
        \mathbf{\Omega}^{\top}), \qquad \|\mathbf{W}\|_\infty \le \kappa / \lambda,

    where :math:`\lambda` is a proven bound on the norm of :math:`\mathbf{P}`. The map contracts by
    :math:`\kappa` in the maximum over channels of the norm of :math:`\mathbf{P}`.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample.
        kappa (float): Contraction constant :math:`\kappa \in [0, 1)`.
        solver (str): :obj:`"anderson"` or :obj:`"picard"`.
        tol (float): Relative residual to reach in every graph, forward and backward.
        max_iter (int or None): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the operator
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kappa: float,
        solver: str,
        tol: float,
        max_iter: int | None,
    ) -> None:
        super().__init__()
        self.kappa = kappa
        self.steady_state = SteadyState(solver, tol, max_iter)
        self.weight = nn.Parameter(torch.empty(out_channels, out_channels))
        self.omega = nn.Parameter(torch.empty(out_channels, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        bound = self.weight.size(0) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.omega, -bound, bound)

    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the solution of the equation.

        Args:
            x (Tensor): Node features.
            propagation (Propagation): The operator of the graph.
        """
        bound = perron_bound(propagation)
        radius = self.kappa / bound.value / (1 + ROUNDING) if bound.value else torch.inf

        def step(z: Tensor, weight: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            hop = multiplied(values, z, propagation)
            return torch.addmm(bias, hop, weight.T).relu()

        with torch.autocast(x.device.type, enabled=False):
            dtype = propagation.dtype
            bias = propagation.apply(nn.functional.linear(x.to(dtype), self.omega.to(dtype)))
            weight = self.projected(radius).to(dtype)
            z: Tensor = self.steady_state(
                step,
                (weight, bias, propagation.values),
                torch.zeros_like(bias),
                propagation,
                contraction=self.kappa,
                norm=bound.norm,
            )
            return z

    def projected(self, radius: float) -> Tensor:
        r"""Return the projected weight, with the gradient of the weight itself.

        In training mode the weight is replaced by its projection, as in projected gradient
        descent. In evaluation mode no parameter is changed.

        Args:
            radius (float): Bound on :math:`\|\mathbf{W}\|_\infty`.

        Shapes:
            - **output:** :math:`(F_{out}, F_{out})`
        """
        with torch.no_grad():
            inside = project_l1_ball_rows(self.weight, radius)
            if self.training:
                self.weight.copy_(inside)
        return inside + (self.weight - self.weight.detach())

    def extra_repr(self) -> str:
        """Return the sizes and the contraction constant."""
        out_channels, in_channels = self.omega.shape
        return f"{in_channels}, {out_channels}, kappa={self.kappa}"


def project_l1_ball_rows(weight: Tensor, radius: float) -> Tensor:
    r"""Project each row onto the :math:`\ell_1` ball :math:`\sum_j |w_j| \le r`.

    Since :math:`\|\mathbf{W}\|_\infty` is the largest sum of absolute values of a row, the result
    is the nearest matrix with :math:`\|\mathbf{W}\|_\infty \le r`. Rows inside of the ball do not
    change. The entries of other rows are soft-thresholded by :math:`\alpha`, which is the largest
    :math:`(\sum_{j \le k} a_j - r) / k` for the sorted absolute values :math:`a_1 \ge a_2 \ge
    \dots`.

    Args:
        weight (Tensor): The matrix, or a stack of matrices.
        radius (float): Radius :math:`r \ge 0`, possibly infinite.

    Shapes:
        - **input:** :math:`(*, F)`
        - **output:** :math:`(*, F)`
    """
    size = weight.abs().double()  # the sums may be much larger than the radius
    largest_first = size.sort(dim=-1, descending=True).values
    count = torch.arange(1, weight.size(-1) + 1, dtype=size.dtype, device=weight.device)
    alpha = (largest_first.cumsum(-1) - radius) / count
    if weight.size(-1):
        alpha = alpha.amax(-1, keepdim=True)
    projected = weight.sign() * (size - alpha).clamp(min=0).to(weight.dtype)
    return torch.where(size.sum(-1, keepdim=True) > radius, projected, weight)
