"""Closed forms: from the eigenpairs of operator and weights, and by dense factorisation."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.solve.equation import Equations, one_if_shared
from mgnni.solve.plan import Expansions, Method, Proposal
from mgnni.solve.scratch import scratch

LARGEST = 2**26  # numbers in the dense systems of one equation


class Spectral(Method):
    r"""The closed form from the eigenpairs of the operator and of the weights.

    .. math::  Z = V\,[(V^{\top} B Q)_{ij} / (1 - \gamma s_i^m \lambda_j)]\,Q^{\top}

    :math:`P = V \operatorname{diag}(s) V^{\top}` is decomposed once per operator, graph by graph,
    and :math:`W = Q \Lambda Q^{\top}` once per weight. All equations are solved side by side.
    """

    name = "spectral"
    needs_symmetric_operator = needs_symmetric_weight = True

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Evaluates the closed form; there are no iterations."""
        equations = self.equations
        count, nodes, channels = bias.shape
        width = count * channels
        vectors = equations.weights.eigenpairs.vectors
        spectrum = equations.operator.spectrum
        sizes = [block.nodes.numel() for block in spectrum.blocks]
        shared = one_if_shared(bias)
        with scratch(vectors) as take:
            columns, padded = take(nodes, width), take(sum(sizes), width)
            spare = take(max(sizes), width)
            if len(shared) == 1:
                basis = vectors.permute(1, 0, 2).reshape(channels, width)
                torch.mm(shared[0], basis, out=columns)
            else:
                side_by_side = columns.view(nodes, count, channels).permute(1, 0, 2)
                product = torch.bmm(bias, vectors, out=take(count, nodes, channels))
                side_by_side.copy_(product)
            parts = zip(spectrum.blocks, torch.split(padded, sizes), self._factors, strict=True)
            for block, out, factor in parts:
                v = block.eigenvectors
                torch.index_select(columns, 0, block.nodes.flatten(), out=out)
                rotated = spare[: out.size(0)].view(*block.nodes.shape, width)
                torch.bmm(v.mT, out.view_as(rotated), out=rotated).mul_(factor)
                torch.bmm(v, rotated, out=out.view_as(rotated))
            torch.index_select(padded, 0, spectrum.place, out=columns)
            z = torch.bmm(columns.view(nodes, count, channels).permute(1, 0, 2), vectors.mT)
        steps = torch.zeros(count, equations.operator.num_graphs, dtype=torch.long)
        return Proposal(z, steps, False)

    @cached_property
    def _factors(self) -> list[Tensor]:
        r"""The factors :math:`1 / (1 - \gamma s_i^m \lambda_j)`, one tensor per block."""
        equations = self.equations
        pairs = equations.weights.eigenpairs
        values = (equations.gamma * pairs.values).to(pairs.vectors)
        factors = []
        for block in equations.operator.spectrum.blocks:
            s = block.eigenvalues.to(values.dtype).unsqueeze(-1)
            products = [s**m * mu for m, mu in zip(equations.scales, values, strict=True)]
            factors.append(torch.cat(products, -1).neg_().add_(1).reciprocal_())
        return factors


class Dense(Method):
    r"""Dense LU factorisation in float64, for tiny graphs with contractions close to one.

    For symmetric weights the columns are decoupled, and each solves
    :math:`(I - \gamma \lambda_j P^m)\,y_j = c_j`. Otherwise the system of all columns,
    :math:`(I - \gamma P^m \otimes W^{\top}) \operatorname{vec}(Z) = \operatorname{vec}(B)`, is
    factorised.
    """

    name = "dense"

    def __init__(self, equations: Equations, expansions: Expansions | None = None) -> None:
        super().__init__(equations, expansions)
        size = dense_size(equations)
        if size > LARGEST:
            raise ArgumentError(
                f"'solver' must not be 'dense' here, because its systems would hold {size:.1e} "
                f"numbers (limit {LARGEST:.1e}); use solver='auto'"
            )

    @cached_property
    def _systems(self) -> list[tuple[Tensor, Tensor]]:
        """LU factors per equation."""
        equations, weights = self.equations, self.equations.weights
        p = equations.operator.to_dense().detach().double()
        factors = []
        for index, scale in enumerate(equations.scales):
            power = equations.gamma * torch.linalg.matrix_power(p, scale)
            if weights.symmetric:
                values = weights.eigenpairs.values[index].to(p.device)
                matrix = values.view(-1, 1, 1) * power
            else:
                matrix = torch.kron(power, weights.tensor[index].double().mT.contiguous())
            eye = torch.eye(matrix.size(-1), dtype=p.dtype, device=p.device)
            factors.append(torch.linalg.lu_factor(eye - matrix))
        return factors

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Solves the factorised systems; there are no iterations."""
        weights, z = self.equations.weights, torch.empty_like(bias)
        for index, (lu, pivots) in enumerate(self._systems):
            b = bias[index].double()
            if weights.symmetric:
                q = weights.eigenpairs.vectors[index].double()
                columns = torch.linalg.lu_solve(lu, pivots, (b @ q).T.unsqueeze(-1))
                z[index] = columns.squeeze(-1).T @ q.T
            else:
                z[index] = torch.linalg.lu_solve(lu, pivots, b.reshape(-1, 1)).view_as(b)
        steps = torch.zeros(len(bias), self.equations.operator.num_graphs, dtype=torch.long)
        return Proposal(z, steps, False)


def dense_size(equations: Equations) -> int:
    """Numbers in the dense systems of one equation."""
    nodes, channels = equations.operator.num_nodes, equations.channels
    return nodes**2 * channels ** (1 if equations.weights.symmetric else 2)
