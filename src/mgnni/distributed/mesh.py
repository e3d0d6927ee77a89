"""The processes that train together, and how they share the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from mgnni.distributed.collectives import lost_process, summed
from mgnni.distributed.partition import PARTITIONS
from mgnni.errors import ArgumentError, MgnniError, check_choice, check_int

T = TypeVar("T")

DEVICES = ("auto", "cpu", "cuda")
STARTUP = timedelta(minutes=10)  # that processes may need to read their data
SILENCE = 25.0  # seconds after which a process that does not answer is given up


@dataclass(frozen=True, eq=False)
class ProcessMesh:
    """The processes of a training, in a grid. Make one with :func:`start_mesh`.

    The processes along the rows hold different nodes of one graph, and those along the columns
    solve for different columns of its states. The processes of a batch have different graphs.

    Args:
        mesh (DeviceMesh): The processes, with dimensions ``"batch"``, ``"columns"`` and
            ``"rows"``.
        everyone (ProcessGroup): All processes of the mesh.
        device (torch.device): The device of this process.
        partition (str, optional): How the nodes are divided among the rows.
            (default: :obj:`"order"`)
    """

    mesh: DeviceMesh
    everyone: dist.ProcessGroup
    device: torch.device
    partition: str = "order"

    @property
    def rows(self) -> int:
        """Number of parts of the nodes."""
        return self.mesh.size(2)

    @property
    def columns(self) -> int:
        """Number of parts of the columns."""
        return self.mesh.size(1)

    @property
    def batch(self) -> int:
        """Number of parts of a batch of graphs."""
        return self.mesh.size(0)

    @property
    def shape(self) -> dict[str, int]:
        """Number of processes along each axis."""
        return {"rows": self.rows, "columns": self.columns, "batch": self.batch}

    @property
    def row(self) -> int:
        """The part of the nodes that this process holds, from 0."""
        return self.mesh.get_local_rank("rows")

    @property
    def column(self) -> int:
        """The part of the columns that this process solves for, from 0."""
        return self.mesh.get_local_rank("columns")

    @property
    def row_group(self) -> dist.ProcessGroup:
        """The processes that hold the other nodes, for the same columns."""
        return self.mesh.get_group("rows")

    @property
    def column_group(self) -> dist.ProcessGroup:
        """The processes that solve for the other columns, at the same nodes."""
        return self.mesh.get_group("columns")

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return dist.get_rank(self.everyone)

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.batch * self.rows * self.columns

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, for example of a loss."""
        return summed(x, self.everyone)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace the gradients of parameters by their sums over all processes.

        Every process differentiates the loss of its own nodes. Parameters without a gradient must
        be the same ones everywhere.

        Args:
            parameters (Iterable[Tensor]): The parameters, in the same order everywhere.

        Shapes:
            - **parameters:** any shapes
        """
        grads = [one.grad for one in parameters if one.grad is not None]
        if not grads:
            return
        total = summed(torch.cat([grad.flatten() for grad in grads]), self.everyone)
        for grad, part in zip(
            grads, torch.split(total, [one.numel() for one in grads]), strict=True
        ):
            grad.copy_(part.view_as(grad))

    def by_first(self, work: Callable[[], T]) -> T:
        """Call a function in the first process, and return its result in all of them.

        An error of the library is raised in all of them, too.

        Args:
            work (Callable): The function; its result is pickled.
        """
        done: list[Any] = [None, None]
        if self.rank == 0:
            try:
                done[0] = work()
            except MgnniError as error:
                done[1] = error
        with lost_process():
            dist.broadcast_object_list(done, device=self.device)
        if done[1] is not None:
            raise done[1]
        result: T = done[0]
        return result

    def barrier(self) -> None:
        """Wait for all processes, up to ten minutes: they may read their data at unequal speed."""
        with lost_process():
            dist.barrier()


def start_mesh(
    rows: int = 1,
    columns: int = 1,
    batch: int = 1,
    *,
    partition: str = "order",
    device: str = "auto",
    silence: float = SILENCE,
) -> ProcessMesh:
    """Connect the processes that ``torchrun`` has started, and arrange them.

    Without ``torchrun``, the mesh is this process alone. CPUs communicate by gloo, CUDA devices by
    NCCL.

    Args:
        rows (int, optional): Number of parts of the nodes. (default: :obj:`1`)
        columns (int, optional): Number of parts of the columns of the states.
            (default: :obj:`1`)
        batch (int, optional): Number of parts of each batch of graphs, if there are many graphs.
            (default: :obj:`1`)
        partition (str, optional): How the nodes are divided among the rows, see
            :func:`mgnni.distributed.partition.partition`. (default: :obj:`"order"`)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``; every process of a machine
            has a GPU of its own. (default: :obj:`"auto"`)
        silence (float, optional): Seconds after which a process that does not answer is given up,
            and all others stop. (default: :obj:`25.0`)
    """
    check_int("rows", rows)
    check_int("columns", columns)
    check_int("batch", batch)
    check_choice("partition", partition, PARTITIONS)
    if batch > 1 and rows * columns > 1:
        raise ArgumentError(
            "'batch' must be 1 if processes share one graph (got rows, columns, batch = "
            f"{rows}, {columns}, {batch}); leave out one of them"
        )
    place = _device(check_choice("device", device, DEVICES))
    if not dist.is_initialized():
        _connect("nccl" if place.type == "cuda" else "gloo")
    world = dist.get_world_size()
    size = rows * columns * batch
    if size != world:
        raise ArgumentError(
            f"'rows' times 'columns' times 'batch' must be the number of processes, {world} (got "
            f"{rows} * {columns} * {batch}); start {size} with torchrun --nproc-per-node {size}"
        )
    # Processes along the rows talk most, so they are neighbours.
    ranks = torch.arange(world).view(batch, columns, rows)
    limit = timedelta(seconds=silence)
    axes = [
        _own_group(ranks.movedim(axis, -1).flatten(0, 1).tolist(), limit)
        for axis in range(ranks.dim())
    ]
    everyone = _own_group([ranks.flatten().tolist()], limit)
    mesh = DeviceMesh.from_group(
        axes, place.type, mesh=ranks, mesh_dim_names=("batch", "columns", "rows")
    )
    return ProcessMesh(mesh, everyone, place, partition)


def _own_group(lists: list[list[int]], limit: timedelta) -> dist.ProcessGroup:
    """Create groups of processes, which all processes must do, and return that of this one."""
    with lost_process():
        groups: list[dist.ProcessGroup] = [dist.new_group(one, timeout=limit) for one in lists]
    here = next(i for i, ranks in enumerate(lists) if dist.get_rank() in ranks)
    return groups[here]


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"'device' {name} is not available here; use cpu, or auto")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if device.index >= torch.cuda.device_count():
        raise ArgumentError(
            "'device' cuda needs a GPU for every process of a machine (got process "
            f"{device.index}, from 0, and {torch.cuda.device_count()} GPUs); start fewer, or use "
            "cpu"
        )
    torch.cuda.set_device(device)
    return device


def _connect(backend: str) -> None:
    if "RANK" in os.environ:  # started by torchrun
        with lost_process():
            dist.init_process_group(backend, timeout=STARTUP)
    else:
        dist.init_process_group(
            backend, store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
        )
