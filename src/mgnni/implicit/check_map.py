"""Checks of a map before its fixed point is looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, NotContractiveError


def check_contraction(contraction: float | None) -> None:
    """Check that a constant is one of a contraction, if there is one."""
    if contraction is None:
        return
    if not isinstance(contraction, (int, float)) or not contraction >= 0:
        raise ArgumentError(
            f"'contraction' must lie in [0, 1) (got {contraction!r}); leave it out if none is known"
        )
    if contraction >= 1:
        raise NotContractiveError(
            f"'contraction' must be below 1 (got {contraction}); leave it out if the map is not "
            "known to contract, and nothing is certified"
        )


def check_states(z0: Tensor, batch: Tensor | None) -> None:
    """Check where to start, and the graph of each node."""
    usable = isinstance(z0, Tensor) and z0.dtype in (torch.float32, torch.float64)
    if not usable or z0.dim() != 2:
        got = f"{z0.dtype}, {tuple(z0.shape)}" if isinstance(z0, Tensor) else type(z0).__name__
        raise ArgumentError(
            "'z0' must be of float32 or float64 and of shape (num_nodes, channels) (got "
            f"{got}); torch.zeros will do"
        )
    if batch is not None and batch.shape != z0.shape[:1]:
        raise ArgumentError(
            f"'batch' must have one number for each of the {z0.size(0)} nodes (got shape "
            f"{tuple(batch.shape)})"
        )


def check_map(map: Callable[..., Tensor], z0: Tensor, params: Sequence[Tensor]) -> None:
    """Evaluate the map once, apart from autograd: what requires grad then came another way."""
    with torch.autocast(z0.device.type, enabled=False):
        fixed = [param.detach() for param in params]
        image = map(z0.detach(), *fixed)
    if not isinstance(image, Tensor) or image.shape != z0.shape or image.dtype is not z0.dtype:
        got = f"{image.dtype}, {tuple(image.shape)}" if isinstance(image, Tensor) else type(image)
        raise ArgumentError(
            f"'map' must return a tensor like z0, {z0.dtype}, {tuple(z0.shape)} (got {got})"
        )
    if image.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            "'map' must not use tensors that require grad but those of 'params' (got one), as no "
            "gradient would reach them; add them to params, or detach them"
        )
