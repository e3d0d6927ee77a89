"""The edge mask that PyG's explainers set on a model."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.explain.algorithm.utils import clear_masks
from torch_geometric.nn import MessagePassing

from mgnni.errors import ArgumentError
from mgnni.graph.masked import masked
from mgnni.graph.propagation import Propagation


class EdgeMask(MessagePassing):  # type: ignore[misc]
    """Holds the edge mask that :class:`torch_geometric.explain.Explainer` sets.

    Explainers set masks on all modules of this type, and only on these. It sends no messages, has
    no parameters, and its owner masks its operator.
    """

    def __init__(self) -> None:
        super().__init__(aggr=None)

    @property
    def value(self) -> Tensor | None:
        """Factor of each edge, shape ``(num_edges,)``; :obj:`None` if nothing is explained."""
        mask: Tensor | None = self._edge_mask if self.explain else None
        return mask.sigmoid() if mask is not None and self._apply_sigmoid else mask

    def mask(
        self,
        propagation: Propagation,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        self_loops: bool,
        flow: str,
    ) -> Propagation:
        """Return the masked operator, or the operator itself if nothing is explained.

        Args:
            propagation (Propagation): The operator, built from the other arguments.
            edge_index (Tensor): Source and target of each edge.
            edge_weight (Tensor, optional): Edge weights.
            self_loops (bool): Whether self-loops were added.
            flow (str): The flow of messages.
        """
        mask = self.value
        if mask is None:
            return propagation
        return masked(propagation, edge_index, edge_weight, mask, self_loops=self_loops, flow=flow)

    def check(self, propagation: Propagation) -> None:
        """Raise an error if edges are masked, but not those of this operator.

        Args:
            propagation (Propagation): An operator that was built outside of the module.
        """
        if self.value is not None and propagation.unmasked is None:
            raise ArgumentError(
                "'edge_index' must be a tensor while an explainer masks edges (got a Propagation, "
                "whose entries are not those of the mask); pass the edge_index that is explained "
                "to the layer or model, or set edge_mask_type=None"
            )

    def refuse(self, owner: nn.Module) -> None:
        """Raise an error, and remove all masks, if edges are masked.

        Args:
            owner (torch.nn.Module): The module that does not support it.
        """
        if self.value is None:
            return
        clear_masks(owner)  # explainers leave them on a model that fails
        raise ArgumentError(
            f"'edge_mask_type' must be None for this {type(owner).__name__} (got an edge mask of "
            "an explainer), whose messages are not entries of the operator times states; explain "
            "node features only, or another model"
        )
