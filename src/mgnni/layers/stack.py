"""A stack of convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from mgnni.graph.propagation import Propagation
from mgnni.layers.regularization import BatchNorm, Dropout
from mgnni.layers.sparse_features import SparseProduct


class Stack(nn.Module):
    r"""A stack of ``dropout, convolution[, batch norm], ReLU`` layers.

    Args:
        conv (Callable[[int, int], torch.nn.Module]): Builds a convolution from the sizes of its
            input and output samples.
        widths (Sequence[int]): Sizes of the input, of all hidden layers and of the output.
        dropout (float): Dropout probability before every convolution.
        batch_norm (bool): Whether to apply batch normalization before every ReLU.
        activate_last (bool): Whether the last layer has batch normalization and a ReLU, too.
        input_dropout (bool, optional): Whether dropout acts on the input, too.
            (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, dense, or sparse CSR if the
          first convolution has an ``input_weight``, and the operator
        - **output:** node features :math:`(|\mathcal{V}|, F_l)` of each layer :math:`l`
    """

    def __init__(
        self,
        conv: Callable[[int, int], nn.Module],
        widths: Sequence[int],
        dropout: float,
        batch_norm: bool,
        activate_last: bool,
        input_dropout: bool = True,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList([conv(a, b) for a, b in pairwise(widths)])
        rates = [dropout if input_dropout else 0.0, *[dropout] * (len(widths) - 2)]
        self.dropout = nn.ModuleList([Dropout(rate) for rate in rates])
        activated = widths[1:] if activate_last else widths[1:-1]
        norms = [BatchNorm(width) if batch_norm else nn.Identity() for width in activated]
        self.norms = nn.ModuleList(norms)
        self.product = SparseProduct()

    def forward(self, x: Tensor, propagation: Propagation) -> list[Tensor]:
        """Return the outputs of all layers."""
        outputs = []
        for index, (dropout, conv) in enumerate(zip(self.dropout, self.convs, strict=True)):
            x = self.product.convolve(x, dropout, conv, propagation)
            if index < len(self.norms):
                x = self.norms[index](x).relu()
            outputs.append(x)
        return outputs
