"""MGNNI on stored terms of a graph: trained by mini-batches of nodes, exactly."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.mlp import MLP
from mgnni.layers.regularization import Dropout
from mgnni.models.mgnni import MGNNI
from mgnni.solve.result import SolveLog
from mgnni.solve.stored_terms import StoredTerms, matrix_coefficients

INPUT_MAPS = ("affine", "identity")


class PrecomputedMGNNI(nn.Module):
    r"""An :class:`~mgnni.MGNNI` that is evaluated from stored terms :math:`T_k(P) X`.

    .. math::
        \mathbf{Z}_m = \sum_k T_k(\mathbf{P}) \mathbf{X}\, \mathbf{V} \mathbf{A}_{km}, \qquad
        (\mathbf{I} - \gamma s^m g(\mathbf{F}_m))^{-1} = \sum_k \mathbf{A}_{km} T_k(s)

    A row of :math:`\mathbf{Z}_m` needs the same row of the terms only, so the model is trained by
    mini-batches of nodes, without the graph and without approximation of neighbourhoods. Everything
    stays trainable: the input map :math:`\mathbf{V}`, the weights :math:`g(\mathbf{F}_m)`, the
    fusion and the head. The price is that the bias must be linear in the features: there is no
    hidden layer in the input map, and no dropout before or in it.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Number of channels of the states.
        out_channels (int): Number of classes.
        terms (StoredTerms): What is known about the stored terms.
        constant (bool, optional): Whether the last column of the terms belongs to a feature of
            ones. (default: :obj:`True`)
        input_map (str, optional): ``"affine"``, :math:`\mathbf{B} = \mathbf{X} \mathbf{V} +
            \mathbf{b}`, which needs ``constant``, or ``"identity"``, :math:`\mathbf{B} =
            \mathbf{X}`. (default: :obj:`"affine"`)
        **options (optional): Further arguments of :class:`~mgnni.MGNNI`, without blocks and other
            directions, and with a linear head or an MLP.

    Attributes:
        model (MGNNI): The same model with the same parameters for whole graphs.

    Shapes:
        - **input:** terms of some nodes ``(rows, terms, columns)``
        - **output:** logits ``(rows, out_channels)``
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        terms: StoredTerms,
        *,
        constant: bool = True,
        input_map: str = "affine",
        **options: Any,
    ) -> None:
        super().__init__()
        self.terms, self.constant = terms, constant
        if input_map not in INPUT_MAPS or (input_map == "affine" and not constant):
            raise ArgumentError(
                "'input_map' must be 'affine' for terms with a constant column, or 'identity' (got "
                f"{input_map!r}{'' if constant else ' without one'}); only a bias that is linear "
                "in the features can be computed from stored terms"
            )
        gamma = options.setdefault("gamma", terms.gamma)
        if tuple(options.setdefault("scales", terms.scales)) != terms.scales or gamma > terms.gamma:
            raise ArgumentError(
                f"'scales' must be {terms.scales} and 'gamma' at most {terms.gamma}, as the terms "
                f"were stored for them (got {options['scales']} and {gamma}); compute others"
            )
        for name, value in {"blocks": 1, "directions": "in", "batch_norm": False}.items():
            if options.get(name, value) != value:
                raise ArgumentError(
                    f"'{name}' must be {value!r} with stored terms (got {options[name]!r}); train "
                    "on the whole graph instead"
                )
        if options.get("head", "linear") not in ("linear", "mlp"):
            raise ArgumentError(
                f"'head' must be 'linear' or 'mlp' with stored terms (got {options['head']!r}); "
                "train on the whole graph instead"
            )
        affine = {"input_map": "mlp", "input_widths": ()}
        options |= affine if input_map == "affine" else {"input_map": "identity"}
        self.model = MGNNI(in_channels, hidden_channels, out_channels, level="node", **options)
        for part in self.model.input_map.modules():
            if isinstance(part, Dropout):  # a mask of features would need other terms
                part.p = 0.0

    @property
    def gamma(self) -> float:
        r"""The factor :math:`\gamma` of the equations."""
        return self._layer.gamma

    def input_matrix(self) -> Tensor:
        r"""Returns :math:`V`, with the constant :math:`b` as its last row.

        Shapes:
            - **output:** ``(columns, channels)``
        """
        inner = self.model.input_map
        if isinstance(inner, MLP):
            (linear,) = inner.linear
            return torch.cat([linear.weight.mT, linear.bias.unsqueeze(0)])  # type: ignore[operator,list-item]
        channels = self.model.in_channels
        return torch.eye(channels + int(self.constant), channels, device=self._device)

    def forward(
        self, rows: Tensor, *, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the logits of some nodes, given their terms.

        Args:
            rows (Tensor): Terms of these nodes.
            return_attention (bool, optional): Whether to return the tuple ``(logits, weights)``
                with the weight of each scale at each node. (default: :obj:`False`)
        """
        bias = rows[:, 0] @ self.input_matrix().to(rows.dtype)  # the first term is X itself
        z = self.model.fused_states(self.states(rows), bias)
        out, weight = self.model.read_out(z, None, None, 0)
        return (out, weight) if return_attention else out

    def states(self, rows: Tensor) -> Tensor:
        """Return the equilibria of all scales at some nodes.

        Args:
            rows (Tensor): Terms of these nodes.

        Shapes:
            - **rows:** ``(rows, terms, columns)``
            - **output:** ``(scales, rows, channels)``
        """
        terms, layer = self.terms, self._layer
        weight = layer.weight(torch.float64, rows.device)
        first = self.input_matrix().double()
        maps = torch.stack(
            [
                first @ matrix_coefficients(one, layer.gamma, m, terms.index, terms.chebyshev)
                for one, m in zip(weight, terms.scales, strict=True)
            ]
        )  # shape: (scales, terms, columns, channels)
        return rows.flatten(1) @ maps.flatten(1, 2).to(rows.dtype)

    @torch.no_grad()
    def certify(self, gram: Tensor) -> SolveLog:
        r"""Returns a bound on the error of all states, which depends on the parameters only.

        Args:
            gram (Tensor): :math:`X^{\top} X` of all nodes, constant column included.

        Shapes:
            - **gram:** ``(columns, columns)``, float64
        """
        first = self.input_matrix().double().cpu()
        bias = float((first * (gram.cpu() @ first)).sum().clamp(min=0).sqrt())
        size = float(torch.linalg.matrix_norm(first, 2)) if first.numel() else 0.0
        unit = torch.finfo(torch.float32).eps / 2
        weight = self._layer.weight(torch.float64, self._device).cpu()
        records = self.terms.certify(weight, size, bias, self._layer.gamma, unit)
        return SolveLog((records,))

    @property
    def _layer(self) -> MultiscaleEquilibrium:
        return cast(MultiscaleEquilibrium, self.model.equilibrium)

    @property
    def _device(self) -> torch.device:
        return next(self.model.head.parameters()).device
