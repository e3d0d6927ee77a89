"""The dropout kernel."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from mgnni.kernels.launches import processors
from mgnni.kernels.nvrtc import launch


def dropped(x: Tensor, key: Tensor, place: Tensor | None, p: float) -> Tensor:
    """Applies dropout to independent runs, with one random key per run.

    Args:
        x (Tensor): The input.
        key (Tensor): Random key of each run.
        place (Tensor, optional): Counter of each entry of a run; :obj:`None` counts the entries.
        p (float): Dropout probability.

    Shapes:
        - **x:** ``(runs, ...)``, float32
        - **key:** ``(runs,)``, 64-bit
        - **place:** one number per entry of a run, 32-bit
        - **output:** ``(runs, ...)``
    """
    x = x.contiguous()
    out = torch.empty_like(x)
    size = x.numel() // max(x.size(0), 1)
    if size:
        launch(
            "dropout",
            min(-(-x.numel() // 256), 16 * processors(x.device)),
            256,
            x,
            out,
            key.contiguous(),
            ctypes.c_void_p(None) if place is None else place.contiguous(),
            ctypes.c_longlong(x.numel()),
            ctypes.c_longlong(size),
            round(p * 2**32) - 2**31,
            ctypes.c_float(1 - p),
        )
    return out
