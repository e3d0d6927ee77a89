"""The closed form from the eigenpairs of the operator and of the weights."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.scratch import scratch


def spectral(equations: Equations) -> Tensor:
    r"""Return :math:`Z = V\,[(V^{\top} B Q)_{ij} / (1 - \gamma s_i^m \lambda_j)]\,Q^{\top}`.

    :math:`P = V \operatorname{diag}(s) V^{\top}` is decomposed once per operator, graph by graph;
    :math:`W = Q \Lambda Q^{\top}` once per weight. All equations stand side by side.
    """
    count, (nodes, channels) = len(equations), equations.bias.shape[1:]
    width = count * channels
    vectors = equations.weights.decoupling.eigenvectors
    spectrum = equations.operator.spectrum
    sizes = [block.nodes.numel() for block in spectrum.blocks]
    with scratch(vectors) as take:
        columns, padded = take(nodes, width), take(sum(sizes), width)
        spare = take(max(sizes), width)
        if equations.shared_bias:
            basis = vectors.permute(1, 0, 2).reshape(channels, width)
            torch.mm(equations.bias[0], basis, out=columns)
        else:
            side_by_side = columns.view(nodes, count, channels).permute(1, 0, 2)
            side_by_side.copy_(torch.bmm(equations.bias, vectors, out=take(count, nodes, channels)))
        parts = zip(spectrum.blocks, torch.split(padded, sizes), _factors(equations), strict=True)
        for block, out, factor in parts:
            v = block.eigenvectors
            torch.index_select(columns, 0, block.nodes.flatten(), out=out)
            turned = spare[: out.size(0)].view(*block.nodes.shape, width)
            torch.bmm(v.mT, out.view_as(turned), out=turned).mul_(factor)
            torch.bmm(v, turned, out=out.view_as(turned))
        torch.index_select(padded, 0, spectrum.place, out=columns)
        return torch.bmm(columns.view(nodes, count, channels).permute(1, 0, 2), vectors.mT)


def _factors(equations: Equations) -> list[Tensor]:
    r"""The divisors :math:`1 / (1 - \gamma s_i^m \lambda_j)`, block by block.

    Those of the last operator are kept with the weights: the adjoint equations have the same.
    """
    known = equations.weights.polynomials
    spectrum = equations.operator.spectrum
    key = (spectrum, equations.scales, equations.gamma)
    last, factors = known.get("closed form", (None, []))
    if last == key:
        return list(factors)
    like = equations.weights.decoupling.eigenvectors
    values = (equations.gamma * equations.weights.decoupling.eigenvalues).to(like)
    factors = []
    for block in spectrum.blocks:
        s = block.eigenvalues.to(like.dtype).unsqueeze(-1)
        products = [s**m * mu for m, mu in zip(equations.scales, values, strict=True)]
        factors.append(torch.cat(products, -1).neg_().add_(1).reciprocal_())
    known["closed form"] = (key, factors)
    return factors
