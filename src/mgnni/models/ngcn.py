"""N-GCN: a network of GCNs on different powers of the operator."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice, check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv, check_powers
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel

FUSIONS = ("cat", "attention")


class NGCN(EncoderModel):
    r"""N-GCN: a network of GCNs.

    From the `"N-GCN: Multi-scale Graph Convolution for Semi-supervised Node Classification"
    <https://arxiv.org/abs/1802.08888>`_ paper.

    .. math::
        \mathbf{G}_k = \mathbf{P}^k\, \mathrm{ReLU}(\mathbf{P}^k \mathbf{X} \mathbf{W}_k +
        \mathbf{b}_k)\, \mathbf{V}_k + \mathbf{c}_k, \qquad
        \mathbf{H} = \mathrm{ReLU}(\Vert_k \mathbf{G}_k)\, \mathbf{U} + \mathbf{d}
        \quad\text{or}\quad \mathbf{H} = \sum_k \operatorname{softmax}(\mathbf{m})_k\,
        \mathbf{G}_k

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample per GCN.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions per GCN. (default: :obj:`2`)
        powers (tuple[int, ...], optional): Distinct powers of the operator, one GCN each.
            (default: :obj:`(0, 1, 2, 3)`)
        replicas (int, optional): Number of GCNs per power. (default: :obj:`1`)
        fusion (str, optional): How the GCNs are combined: :obj:`"cat"` is a linear map of the
            concatenated outputs, :obj:`"attention"` a mean with learnable weights that are the
            same for all nodes. (default: :obj:`"cat"`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`False`)
        dropout (float, optional): Dropout probability before every layer. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        powers: tuple[int, ...] = (0, 1, 2, 3),
        replicas: int = 1,
        fusion: str = "cat",
        batch_norm: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        widths = self.layer_widths(num_layers)
        towers = check_powers(powers) * check_int("replicas", replicas)
        self.towers = nn.ModuleList(
            Stack(partial(GCNConv, power=k), widths, dropout, batch_norm, activate_last=False)
            for k in towers
        )
        self.last: MLP | None = None
        if check_choice("fusion", fusion, FUSIONS) == "cat":
            width = len(towers) * self.node_channels
            self.last = MLP((width, self.node_channels), dropout, activate_last=False)
        else:
            self.attention = nn.Parameter(torch.zeros(len(towers)))

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        super().reset_parameters()
        if self.last is None:
            nn.init.zeros_(self.attention)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the combined outputs of all GCNs."""
        outputs = [tower(x, propagation)[-1] for tower in self.towers]
        if self.last is not None:
            out: Tensor = self.last(torch.cat(outputs, dim=-1).relu())
            return out
        return torch.stack(outputs, dim=-1) @ self.attention.softmax(0)
