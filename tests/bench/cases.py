"""A lopsided equation with its dense answer, for every solver that is compared."""

from __future__ import annotations

import torch

from mgnni import Propagation
from mgnni.bench.equation import Equation
from problems import lopsided_edges

SCALES = (1, 3)
GAMMA = 0.8


def equation(device, directed: bool = True) -> Equation:
    """A directed weighted graph, and weights with one eigenvalue near one."""
    edge_index, edge_weight = lopsided_edges(40, seed=1)
    if not directed:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
        edge_weight = torch.cat([edge_weight, edge_weight])
    propagation = Propagation.from_edge_index(
        edge_index.to(device),
        40,
        edge_weight.float().to(device),
        "dir" if directed else "sym",
    )
    return Equation.random(propagation, 5, 0.93, SCALES, GAMMA)


def dense(equation: Equation) -> list[torch.Tensor]:
    """States and gradients by one dense solve a scale, in float64."""
    p = equation.propagation.to_dense().double()
    bias = equation.bias.double().requires_grad_()
    weight = equation.weight.double().requires_grad_()
    n, h = bias.shape
    states = []
    for i, scale in enumerate(SCALES):
        power = torch.linalg.matrix_power(p, scale)
        system = torch.eye(n * h, dtype=p.dtype, device=p.device)
        system = system - GAMMA * torch.kron(power, weight[i].mT.contiguous())
        states.append(torch.linalg.solve(system, bias.flatten()).view(n, h))
    z = torch.stack(states)
    return [z.detach(), *torch.autograd.grad(z, [weight, bias], equation.cotangent.double())]
