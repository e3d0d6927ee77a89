"""Checks of the arguments, and of the outcome, of equilibrium equations and fixed-point maps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy
import torch
from torch import Tensor

from mgnni.errors import (
    ArgumentError,
    ConvergenceError,
    ConvergenceWarning,
    NotContractiveError,
    check_number,
)
from mgnni.graph.propagation import Propagation
from mgnni.solve.result import Options, SolveStats, Status


def check_gamma(gamma: float) -> float:
    """Returns ``gamma`` if it lies in [0, 1)."""
    hint = "the equation contracts if gamma is below 1; 0.8 is the paper's choice"
    return check_number("gamma", gamma, "[0, 1)", hint)


def check_scales(scales: Sequence[int]) -> tuple[int, ...]:
    """Returns the scales as a tuple of distinct positive integers."""
    if isinstance(scales, (int, str)) or not isinstance(scales, Sequence) or not len(scales):
        raise ArgumentError(
            f"'scales' must be a sequence of at least one int (got {scales!r}); write (1, 2)"
        )
    found = tuple(check_scale(scale, "scales") for scale in scales)
    if len(set(found)) < len(found):
        raise ArgumentError(
            f"'scales' must not repeat a scale (got {found}); duplicate scales are redundant, so "
            "remove one"
        )
    return found


def check_scale(scale: int, name: str = "scale") -> int:
    """Returns ``scale`` if it is a positive integer."""
    if isinstance(scale, (int, numpy.integer)) and not isinstance(scale, bool) and scale >= 1:
        return int(scale)
    kind = "hold ints" if name == "scales" else "be an int"
    raise ArgumentError(
        f"'{name}' must {kind} of at least 1, the number of hops per step (got {scale!r}); use 1 "
        "for direct neighbors"
    )


def check_options(tol: float, max_iter: int | None) -> None:
    """Checks the tolerance and the iteration budget."""
    Options(tol=tol, max_iter=max_iter)


def check_propagation(propagation: Propagation) -> None:
    """Checks the type of the operator."""
    if not isinstance(propagation, Propagation):
        raise ArgumentError(
            f"'propagation' must be a Propagation (got {type(propagation).__name__}); build one "
            "with Propagation.from_edge_index(edge_index, num_nodes)"
        )


def check_tensors(propagation: Propagation, weight: Tensor, bias: Tensor, count: int) -> None:
    """Checks shapes, dtypes and devices of a stack of equations against their operator.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor): The weights.
        bias (Tensor): The bias of each equation.
        count (int): Number of equations.

    Shapes:
        - **weight:** ``(count, channels, channels)``
        - **bias:** ``(count, num_nodes, channels)``
    """
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
            f"'bias' must have one row per node, shape ({propagation.num_nodes}, channels) (got "
            f"{tuple(bias.shape[1:])}); check num_nodes of the propagation"
        )
    channels = bias.size(2)
    if weight.shape != (count, channels, channels):
        raise ArgumentError(
            f"'weight' must have shape ({channels}, {channels}) for each scale, as bias has "
            f"{channels} channels (got {tuple(weight.shape)} for {count} scales); use weights as "
            "wide as the bias, one per scale"
        )


def check_contraction(contraction: float | None) -> None:
    """Checks the Lipschitz constant, if one is given."""
    if contraction is None:
        return
    check_number("contraction", contraction, "[0, inf]", "leave it out if none is known")
    if contraction >= 1:
        raise NotContractiveError(
            f"'contraction' must be below 1 (got {contraction}); leave it out if the map is not "
            "known to contract; error_bound is then inf"
        )


def check_states(z0: Tensor, batch: Tensor | None, num_graphs: int) -> None:
    """Checks the initial states and the graph of each node.

    Args:
        z0 (Tensor): The initial states.
        batch (Tensor, optional): Graph of each node; :obj:`None` for a single graph. Its values
            are only checked on the CPU, because reading them elsewhere would synchronise.
        num_graphs (int): Number of graphs.

    Shapes:
        - **z0:** ``(num_nodes, channels)``
        - **batch:** ``(num_nodes,)``
    """
    usable = isinstance(z0, Tensor) and z0.dtype in (torch.float32, torch.float64)
    if not usable or z0.dim() != 2:
        got = f"{z0.dtype}, {tuple(z0.shape)}" if isinstance(z0, Tensor) else type(z0).__name__
        raise ArgumentError(
            "'z0' must be of float32 or float64 and of shape (num_nodes, channels) (got "
            f"{got}); pass for example torch.zeros(num_nodes, channels)"
        )
    if batch is not None and batch.shape != z0.shape[:1]:
        raise ArgumentError(
            f"'batch' must have one number for each of the {z0.size(0)} nodes (got shape "
            f"{tuple(batch.shape)})"
        )
    if batch is None and num_graphs != 1:
        raise ArgumentError(
            f"'num_graphs' must be 1 without a batch vector (got {num_graphs!r}); pass batch, the "
            "graph of each node"
        )
    if batch is not None and batch.device.type == "cpu" and batch.numel():
        low, high = int(batch.min()), int(batch.max())
        if low < 0 or high >= num_graphs:
            raise ArgumentError(
                f"'batch' must hold graph indices in [0, {num_graphs}), as num_graphs={num_graphs} "
                f"(got {low if low < 0 else high}); pass num_graphs=int(batch.max()) + 1"
            )


def check_map(map: Callable[..., Tensor], z0: Tensor, params: Sequence[Tensor]) -> None:
    """Checks the output of the map, and that it uses no other tensors that require grad.

    Args:
        map (Callable): Takes states and ``params``, and returns the next states.
        z0 (Tensor): The initial states.
        params (Sequence[Tensor]): All tensors that may require gradients.

    Shapes:
        - **z0, output of map:** ``(num_nodes, channels)``
        - **params:** any shapes
    """
    with torch.autocast(z0.device.type, enabled=False):
        fixed = [param.detach() for param in params]
        states = z0.detach().clone()
        image = map(states, *fixed)
    if not states.is_inference() and states._version:
        raise ArgumentError(
            "'map' must not change the states in place (got a map that does), because they are "
            "compared with the next ones; use z * 0.5 in place of z.mul_(0.5)"
        )
    if not isinstance(image, Tensor) or image.shape != z0.shape or image.dtype is not z0.dtype:
        got = f"{image.dtype}, {tuple(image.shape)}" if isinstance(image, Tensor) else type(image)
        raise ArgumentError(
            f"'map' must return a tensor like z0, {z0.dtype}, {tuple(z0.shape)} (got {got})"
        )
    if image.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            "'map' must not use tensors that require grad other than those of 'params' (got one), "
            "because no gradient would reach them; add them to params, or detach them"
        )


def report_failure(
    stats: SolveStats, equation: str, name: str | None, given: Tensor, on_failure: str
) -> None:
    """Raises or warns about an equation that was not solved.

    Args:
        stats (SolveStats): How its solve ended.
        equation (str): Which equation, for the message.
        name (str, optional): What ``given`` is; :obj:`None` if it need not be checked.
        given (Tensor): The right-hand side, which may be the cause.
        on_failure (str): ``"raise"`` or ``"warn"``.

    Shapes:
        - **given:** any shape
    """
    if name and stats.status is Status.NOT_FINITE and not bool(given.isfinite().all()):
        raise ArgumentError(
            f"{name} must be finite (got nan or inf in it); check the features and the loss with "
            "torch.isfinite"
        )
    message = f"{equation} equation: {stats.failure()}"
    if on_failure == "raise":
        raise ConvergenceError(message)
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
