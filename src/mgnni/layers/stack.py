"""Convolutions one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from mgnni.graph.propagation import Propagation
from mgnni.layers.dropout import Dropout
from mgnni.layers.norm import BatchNorm


class Stack(nn.Module):
    """Layers of ``dropout, convolution[, batch norm], ReLU``, the last one maybe without the end.

    Args:
        conv: makes a convolution of an input and an output width.
        widths: channels from input to output, one more than layers.
        dropout: probability, before every convolution.
        batch_norm: normalise what goes into a ReLU.
        activate_last: whether the last layer ends as the others do.
    """

    def __init__(
        self,
        conv: Callable[[int, int], nn.Module],
        widths: Sequence[int],
        dropout: float,
        batch_norm: bool,
        activate_last: bool,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList([conv(a, b) for a, b in pairwise(widths)])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in self.convs])
        activated = widths[1:] if activate_last else widths[1:-1]
        norms = [BatchNorm(width) if batch_norm else nn.Identity() for width in activated]
        self.norms = nn.ModuleList(norms)

    def forward(self, x: Tensor, propagation: Propagation) -> list[Tensor]:
        """Return what each layer makes, the last one last."""
        states = []
        for index, (dropout, conv) in enumerate(zip(self.dropout, self.convs, strict=True)):
            x = conv(dropout(x), propagation)
            if index < len(self.norms):
                x = self.norms[index](x).relu()
            states.append(x)
        return states
