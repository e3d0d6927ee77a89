"""Where to compute, and in which precision."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from mgnni.errors import ArgumentError, MgnniError, check_choice

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DEVICES = ("auto", "cpu", "cuda", "mps")
# Fabric's own 64-true rounds what a model returns to single precision; a learner's model is made
# double by itself, and Fabric leaves it so.
_PRECISIONS = {"32": "32-true", "tf32": "32-true", "64": "32-true", "bf16": "bf16-mixed"}


def make_fabric(device: str, precision: str, deterministic: bool = False) -> Fabric:
    """Return what puts a model on a device and runs it in a precision.

    Args:
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
        precision: ``"32"``; ``"tf32"``, products of the head in fewer digits on accelerators that
            have them, never those of a solve; ``"64"`` or ``"bf16"``.
        deterministic: have torch refuse operations that may differ from run to run.
    """
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise MgnniError("training needs lightning-fabric; run: pip install 'mgnni[train]'") from (
            error
        )
    check_choice("device", device, DEVICES)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    missing = {
        "cuda": not torch.cuda.is_available(),
        "mps": not torch.backends.mps.is_available(),
    }
    if missing.get(device):
        raise ArgumentError(f"'device' {device} is not available here; use cpu, or auto")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    # It tells which precision was asked for, in the middle of a progress bar.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    return Fabric(accelerator=device, devices=1, precision=_PRECISIONS[precision])  # type: ignore[arg-type]


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Leave torch as strict about deterministic operations and products as it was before."""
    before = torch.are_deterministic_algorithms_enabled()
    products = torch.get_float32_matmul_precision()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.set_float32_matmul_precision(products)


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Keep torch to one thread, which also makes sums add in one order."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
