"""Checks of an equilibrium equation before it is solved."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation


def check_gamma(gamma: float) -> float:
    """Return ``gamma`` if it lies in [0, 1)."""
    if not isinstance(gamma, (int, float)) or not 0 <= gamma < 1:
        raise ArgumentError(
            f"'gamma' must lie in [0, 1), so that the equation contracts (got {gamma}); 0.8 is "
            "the paper's choice"
        )
    return float(gamma)


def check_scales(scales: Sequence[int]) -> tuple[int, ...]:
    """Return the scales as a tuple of distinct positive integers."""
    if isinstance(scales, (int, str)) or not isinstance(scales, Sequence) or not len(scales):
        raise ArgumentError(
            f"'scales' must be a sequence of at least one int (got {scales!r}); write (1, 2)"
        )
    for scale in scales:
        check_scale(scale, "scales")
    if len(set(scales)) < len(scales):
        raise ArgumentError(
            f"'scales' must not repeat a scale (got {tuple(scales)}); equal scales would only "
            "share out one equation's work"
        )
    return tuple(scales)


def check_scale(scale: int, name: str = "scale") -> int:
    """Return ``scale`` if it is a positive integer."""
    if not isinstance(scale, int) or isinstance(scale, bool) or scale < 1:
        raise ArgumentError(
            f"'{name}' must hold ints of at least 1, the hops of one implicit step (got "
            f"{scale!r}); use 1 for direct neighbours"
        )
    return scale


def check_options(tol: float, max_iter: int | None) -> None:
    """Check the tolerance and the iteration budget."""
    if not isinstance(tol, (int, float)) or not 0 < tol < 1:
        raise ArgumentError(
            f"'tol' must lie in (0, 1), for it bounds a relative residual (got {tol!r}); 1e-6 "
            "suits float32"
        )
    if max_iter is not None and (not isinstance(max_iter, int) or max_iter < 1):
        raise ArgumentError(
            f"'max_iter' must be a positive int, or None for as many as the contraction proves "
            f"to be enough (got {max_iter!r})"
        )


def check_propagation(propagation: Propagation) -> None:
    """Check that the operator is one."""
    if not isinstance(propagation, Propagation):
        raise ArgumentError(
            f"'propagation' must be a Propagation (got {type(propagation).__name__}); build one "
            "with Propagation.from_edge_index(edge_index, num_nodes)"
        )


def check_tensors(propagation: Propagation, weight: Tensor, bias: Tensor, count: int) -> None:
    """Check shapes, dtypes and devices of a stack of equations against their operator."""
    check_propagation(propagation)
    for name, tensor in (("bias", bias), ("weight", weight)):
        if tensor.device != propagation.device:
            raise ArgumentError(
                f"'{name}' must be on the device of the propagation, {propagation.device} (got "
                f"{tensor.device}); use propagation.to({str(tensor.device)!r})"
            )
        if tensor.dtype is not propagation.dtype:
            raise ArgumentError(
                f"'{name}' must have the dtype of the propagation, {propagation.dtype} (got "
                f"{tensor.dtype}); use propagation.to({tensor.dtype})"
            )
    if bias.dim() != 3 or bias.size(1) != propagation.num_nodes:
        raise ArgumentError(
            f"'bias' must have one row a node, shape ({propagation.num_nodes}, channels) (got "
            f"{tuple(bias.shape[1:])}); check num_nodes of the propagation"
        )
    channels = bias.size(2)
    if weight.shape != (count, channels, channels):
        raise ArgumentError(
            f"'weight' must have shape ({channels}, {channels}) for each scale, as bias has "
            f"{channels} channels (got {tuple(weight.shape)} for {count} scales); use weights as "
            "wide as the bias, one a scale"
        )


def check_finite_weight(weight: Tensor) -> None:
    """Check the entries of the weights."""
    if not bool(torch.isfinite(weight).all()):
        raise ArgumentError(
            "'weight' must be finite (got nan or inf in it); an optimiser that diverged is the "
            "usual cause, so lower its learning rate"
        )
