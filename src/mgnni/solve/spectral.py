"""The closed form from the eigenpairs of the operator and of the weights."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.equation import Equations


def spectral(equations: Equations) -> Tensor:
    r"""Return :math:`Z = V\,[(V^{\top} B Q)_{ij} / (1 - \gamma s_i^m \lambda_j)]\,Q^{\top}`.

    :math:`P = V \operatorname{diag}(s) V^{\top}` is decomposed once per operator, graph by graph;
    :math:`W = Q \Lambda Q^{\top}` once per weight.
    """
    vectors = equations.weights.decoupling.eigenvectors
    values = equations.weights.decoupling.eigenvalues.to(vectors.device)
    spectrum = equations.operator.spectrum
    bias = torch.nn.functional.pad(equations.bias, (0, 0, 0, 1))  # padding rows read this zero
    z = torch.zeros_like(bias)
    for block in spectrum.blocks:
        basis = block.eigenvectors.to(bias.dtype)
        for index, scale in enumerate(equations.scales):
            rows = bias[index][block.nodes] @ vectors[index]  # shape: (graphs, size, channels)
            power = block.eigenvalues.pow(scale).unsqueeze(-1)
            factor = 1 / (1 - equations.gamma * power * values[index])
            rows = basis @ ((basis.mT @ rows) * factor.to(bias.dtype))
            z[index][block.nodes] = rows @ vectors[index].mT
    return z[:, :-1]
