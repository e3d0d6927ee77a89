"""Devices, precision, determinism and threads."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, MgnniError, check_choice
from mgnni.solve.plan import precision_restored

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DEVICES = ("auto", "cpu", "cuda")  # not mps, which has no float64 for the error bounds
# Fabric's 64-true rounds outputs to single precision; learners convert their model to double
# themselves, which Fabric leaves as it is.
_PRECISIONS = {"32": "32-true", "tf32": "32-true", "64": "32-true", "bf16": "bf16-mixed"}


def make_fabric(
    device: str,
    precision: str,
    deterministic: bool = False,
    own: torch.device | None = None,
) -> Fabric:
    """Return a Fabric for a device and a precision.

    Args:
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision (str): ``"32"``, ``"tf32"``, ``"64"`` or ``"bf16"``. ``"tf32"`` affects products
            outside of the equilibrium equations on accelerators that support it.
        deterministic (bool, optional): Allow deterministic algorithms only.
            (default: :obj:`False`)
        own (torch.device, optional): The device of this process, if there are several.
            (default: :obj:`None`)
    """
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise MgnniError("training needs lightning-fabric; run: pip install 'mgnni[train]'") from (
            error
        )
    check_choice("device", device, DEVICES)
    device = find_device(device if own is None else own.type)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    # Its message about the precision would interrupt a progress bar.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    devices = 1 if own is None or own.index is None else [own.index]
    return Fabric(accelerator=device, devices=devices, precision=_PRECISIONS[precision])  # type: ignore[arg-type]


def find_device(name: str) -> str:
    """Return ``"cpu"`` or ``"cuda"``, which must be available here.

    Args:
        name (str): ``"auto"``, ``"cpu"`` or ``"cuda"``; ``"auto"`` is a GPU if there is one.
    """
    if check_choice("device", name, DEVICES) == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"'device' {name} is not available here; use cpu, or auto")
    return name


def threads_per_process(jobs: int) -> int:
    """Return the number of CPU threads of each of several processes.

    Together they have those of this process, which ``OMP_NUM_THREADS`` may limit.

    Args:
        jobs (int): Number of processes.
    """
    return max(torch.get_num_threads() // max(jobs, 1), 1)


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Restore the global settings of torch that :func:`make_fabric` changes."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with precision_restored():
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Limit torch to one CPU thread, which also fixes the order of summation.

    Args:
        wanted (bool, optional): Whether to do so. (default: :obj:`True`)
    """
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_cpu(state: Any) -> Any:
    """Return a state whose tensors are on the CPU, so that it occupies no accelerator."""
    if isinstance(state, dict):
        return {key: on_cpu(value) for key, value in state.items()}
    if isinstance(state, list):
        return [on_cpu(value) for value in state]
    return state.cpu() if isinstance(state, Tensor) else state
