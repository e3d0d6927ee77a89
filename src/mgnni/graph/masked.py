r"""Operators whose edges are masked, as PyG's explainers mask messages.

An explainer multiplies the message of every edge :math:`e` by :math:`m_e`, after normalisation. For
an operator :math:`P` this multiplies its entries: :math:`P_{vu}` becomes
:math:`P_{vu} \sum_e m_e w_e / \sum_e w_e`, where the sums run over the edges from :math:`u` to
:math:`v`. Self-loops that were added to the graph have :math:`m = 1`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.normalize import Bound, prove
from mgnni.graph.propagation import Propagation


def masked(
    propagation: Propagation,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    mask: Tensor,
    *,
    self_loops: bool = True,
    flow: str = "source_to_target",
) -> Propagation:
    """Return an operator with the entry of every edge multiplied by a mask.

    It is differentiable in the mask. Its bound is that of the operator, times the largest factor.

    Args:
        propagation (Propagation): The operator, built from the following arguments.
        edge_index (Tensor): Source and target of each edge.
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.
        mask (Tensor): Factor of each edge.
        self_loops (bool, optional): Whether self-loops were added. (default: :obj:`True`)
        flow (str, optional): The flow of messages. (default: ``"source_to_target"``)

    Shapes:
        - **edge_index:** ``(2, num_edges)``
        - **edge_weight, mask:** ``(num_edges,)``
    """
    shape = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
    dense = isinstance(edge_index, Tensor) and edge_index.layout is torch.strided
    if not dense or shape != (2, mask.numel()):
        raise ArgumentError(
            f"'edge_index' must have shape (2, {mask.numel()}), one column for each entry of the "
            f"edge mask of an explainer (got {shape}); pass the model the edge_index that is "
            "explained, unchanged, or set edge_mask_type=None"
        )
    size, pattern = max(propagation.num_nodes, 1), propagation.pattern
    source, target = edge_index if flow == "source_to_target" else edge_index.flip(0)
    row, col = pattern.row, pattern.col.long()
    place = torch.searchsorted(row * size + col, target * size + source)
    weight = torch.ones_like(mask) if edge_weight is None else edge_weight.view(-1)
    weight, mask = weight.double(), mask.double()
    loops = (row == col).double() if self_loops else torch.zeros(len(row)).to(weight)
    total = loops.index_add(0, place, weight)
    factor = loops.index_add(0, place, weight * mask) / torch.where(total == 0, 1.0, total)
    values = propagation.values * factor.to(propagation.dtype)
    if bool((propagation.values < 0).any()):  # a bound may rest on terms that cancel
        ends = (row, col)
        bound = prove("none", False, *ends, values.detach().double(), propagation.num_nodes, None)
    else:
        largest = float(factor.detach().abs().max()) if len(row) else 1.0
        bound = propagation.bound
        bound = Bound(largest * bound.value, bound.norm, f"{bound.reason}, times the edge mask")
    operator = Propagation(
        pattern,
        values,
        symmetric=False,
        bound=bound,
        normalization=propagation.normalization,
        batch=propagation.batch,
        num_graphs=propagation.num_graphs,
        unit=propagation.unit,
    )
    operator.unmasked = propagation
    return operator


def without_mask(propagation: Propagation) -> Propagation:
    """Return the operator before it was masked, for degrees that a mask does not change.

    Args:
        propagation (Propagation): The operator, which may be masked.
    """
    return propagation if propagation.unmasked is None else propagation.unmasked
