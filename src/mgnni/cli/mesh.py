"""The processes that ``torchrun`` has started, as ``--mesh`` arranges them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mgnni.cli.arguments import UsageError

if TYPE_CHECKING:
    from mgnni.distributed.mesh import ProcessMesh

AXES = ("rows", "columns", "batch")


def find_mesh(text: str | None, partition: str, device: str) -> ProcessMesh | None:
    """Connect the processes of this training, or return ``None`` if there is only this one.

    Args:
        text (str, optional): As in ``rows=2,columns=2``.
        partition (str): How the nodes are divided among the rows.
        device (str): Where to compute.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if text is None:
        if started > 1:
            raise UsageError(
                f"--mesh must say how {started} processes share the work (got none); add for "
                f"example --mesh columns={started}, or batch={started} for batches"
            )
        return None
    sizes = _sizes(text)
    processes = 1
    for size in sizes.values():
        processes *= size
    if processes != started:
        raise UsageError(
            f"--mesh must have as many processes as were started, {started} (got {text}: "
            f"{processes}); start them with torchrun --nproc-per-node {processes} -m mgnni"
        )
    from mgnni.distributed.mesh import start_mesh

    return start_mesh(**sizes, partition=partition, device=device)


@contextmanager
def first_alone(mesh: ProcessMesh | None) -> Iterator[None]:
    """Context manager that the first process leaves before the others enter it.

    A dataset is then downloaded once.

    Args:
        mesh (ProcessMesh, optional): The processes; ``None`` if there is only this one.
    """
    if mesh is not None and mesh.rank > 0:
        mesh.barrier()
    try:
        yield
    finally:
        if mesh is not None and mesh.rank == 0:
            mesh.barrier()


def _sizes(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in text.split(","):
        name, _, number = pair.partition("=")
        if name not in AXES or not number.isdecimal() or int(number) < 1 or name in found:
            raise UsageError(
                f"--mesh must be NAME=NUMBER, separated by commas, with the names "
                f"{', '.join(AXES)} (got {text!r}); for example rows=2,columns=2"
            )
        found[name] = int(number)
    return found
