"""H2GCN: separate embeddings of a node and of its one-hop and two-hop neighbours."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from mgnni.errors import check_int
from mgnni.graph.neighborhoods import strict_hops
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import propagate
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.sparse_features import SparseProduct
from mgnni.models.base import EncoderModel


class H2GCN(EncoderModel):
    r"""H2GCN: heterophily graph convolutional network.

    From the `"Beyond Homophily in Graph Neural Networks: Current Limitations and Effective
    Designs" <https://arxiv.org/abs/2006.11468>`_ paper.

    .. math::
        \mathbf{H}_0 = \mathrm{ReLU}(\mathbf{X} \mathbf{W}_e), \qquad
        \mathbf{H}_k = [\mathbf{P}_1 \mathbf{H}_{k-1}, \; \mathbf{P}_2 \mathbf{H}_{k-1}], \qquad
        \mathbf{H} = [\mathbf{H}_0, \mathbf{H}_1, \dots, \mathbf{H}_K] \, \mathbf{W}_c

    :math:`\mathbf{P}_1` aggregates the nodes at distance one, :math:`\mathbf{P}_2` those at
    distance two, both without self-loops and normalised symmetrically. On directed graphs
    distances follow the edges, and out- and in-degrees are used; the authors make every graph
    undirected first. Edge weights are ignored.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the embedding, which doubles in every round.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of rounds of aggregation, 1 for H2GCN-1 and 2 for
            H2GCN-2. (default: :obj:`2`)
        relu (bool, optional): Whether to apply a ReLU to the embedding. (default: :obj:`True`)
        dropout (float, optional): Dropout probability before the classifier.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
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

    takes_sparse_features = True
    uses_edge_weight = False
    supports_edge_mask = False  # its neighbourhoods are not edges

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        relu: bool = True,
        dropout: float = 0.5,
        level: str = "auto",
        flow: str = "source_to_target",
    ) -> None:
        # Edge weights are not used, so any weights are valid.
        graph = GraphOptions("none", self_loops=False, flow=flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.num_layers, self.relu = check_int("num_layers", num_layers, least=0), relu
        wide = hidden_channels * (2 ** (num_layers + 1) - 1)
        self.embed = Linear(in_channels, hidden_channels, bias=False, weight_initializer="glorot")
        self.product = SparseProduct()
        self.dropout = Dropout(dropout)
        self.last = Linear(wide, self.node_channels, bias=False, weight_initializer="glorot")

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the embeddings of all rounds."""
        hops = strict_hops(propagation)
        sparse = x.layout is torch.sparse_csr
        h = self.product(x, None, self.embed.weight) if sparse else self.embed(x)
        rounds = [h.relu() if self.relu else h]
        for _ in range(self.num_layers):
            rounds.append(torch.cat([propagate(hop, rounds[-1]) for hop in hops], dim=1))
        out: Tensor = self.last(self.dropout(torch.cat(rounds, dim=1)))
        return out
