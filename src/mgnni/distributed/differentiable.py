"""A sum over processes that autograd and ``vmap`` know."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.distributed.mesh import ProcessMesh


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, mesh: ProcessMesh) -> Tensor:
        return mesh.sum(x) if mesh.size > 1 else x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.mesh = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # The loss is the sum of the losses of all processes, and each of them used the sum.
        return sum_over_processes(grads[0], ctx.mesh), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: Tensor, mesh: ProcessMesh
    ) -> tuple[Tensor, int]:
        """Sum a batch as one tensor."""
        return sum_over_processes(x, mesh), in_dims[0]


def sum_over_processes(x: Tensor, mesh: ProcessMesh) -> Tensor:
    """Return the sum of a tensor over all processes, differentiable.

    The loss that is differentiated is the sum of the losses of all processes.

    Args:
        x (Tensor): Any tensor, of the same shape everywhere.
        mesh (ProcessMesh): The processes.

    Shapes:
        - **x, output:** any
    """
    total: Tensor = _Sum.apply(x, mesh)  # type: ignore[no-untyped-call]
    return total
