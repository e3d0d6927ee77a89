"""The same equations through TorchDEQ, the general library for deep equilibrium models."""

from __future__ import annotations

import importlib
import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mgnni.errors import MgnniError
from mgnni.graph.propagation import Propagation

# Most steps of each. Broyden's keeps two tensors of the size of the states a step, and allots
# them beforehand.
SOLVERS = {"fixed_point_iter": 5000, "anderson": 300, "broyden": 60}


def installed() -> bool:
    """Tell whether TorchDEQ can be imported."""
    spec = importlib.util.find_spec("torchdeq")
    return spec is not None and spec.origin is not None  # any folder of this name is found too


@cache
def _deq(solver: str, tol: float, max_iter: int) -> Callable[..., Any]:
    if not installed():
        raise MgnniError("comparing with TorchDEQ needs torchdeq; run: pip install 'mgnni[bench]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons grumble about its docstrings
        library = importlib.import_module("torchdeq")
    made: Callable[..., Any] = library.get_deq(
        f_solver=solver,
        b_solver=solver,
        f_max_iter=max_iter,
        b_max_iter=max_iter,
        f_tol=tol,
        b_tol=tol,
        f_stop_mode="rel",
        b_stop_mode="rel",
        ift=True,
    )
    return made


def equilibria(
    propagation: Propagation,
    weight: Tensor,  # shape: (scales, channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scales: tuple[int, ...],
    gamma: float,
    solver: str,
    tol: float,
) -> Tensor:
    """Solve the equations of all scales, differentiably: ``(scales, num_nodes, channels)``.

    The first dimension of a state is a batch to TorchDEQ, of equations that do not depend on one
    another. Nodes do, so a graph is a batch of one.
    """
    enough = math.ceil(math.log(1e-9) / math.log(max(gamma, 0.5)))
    deq = _deq(solver, tol, min(SOLVERS[solver], enough))
    deq.train(torch.is_grad_enabled())  # type: ignore[attr-defined] # it returns no gradients else
    found = []
    for i, scale in enumerate(scales):

        def step(z: Tensor, w: Tensor = weight[i], scale: int = scale) -> Tensor:
            return torch.addmm(bias, propagation.apply(z[0], scale), w, alpha=gamma).unsqueeze(0)

        states, _ = deq(step, torch.zeros_like(bias).unsqueeze(0))
        found.append(states[-1][0])
    return torch.stack(found)
