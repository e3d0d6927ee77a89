"""The folder of a training by several processes: the first one writes, the others wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mgnni.distributed.mesh import ProcessMesh
from mgnni.train.folder import Folder
from mgnni.train.training import Training


class SharedFolder(Folder):
    """A folder that the first process of a mesh owns.

    Every process has the whole state of the training, so the checkpoint of the first one can be
    continued by any number of processes.

    Args:
        path (Path): The folder, which all processes can read.
        every (float): Seconds between checkpoints.
        mesh (ProcessMesh): The processes.
    """

    def __init__(self, path: Path, every: float, mesh: ProcessMesh) -> None:
        super().__init__(path, every)
        self.mesh, self._complete = mesh, False

    def __enter__(self) -> SharedFolder:
        self.mesh.by_first(lambda: _nothing(Folder.__enter__(self)))
        return self

    def __exit__(self, *error: object) -> None:
        if self.mesh.rank == 0:
            super().__exit__(*error)

    def open(self, header: dict[str, Any], resume: bool) -> dict[str, Any] | None:
        """Start a training here, or return the last checkpoint, as the first process reads it."""

        def opened() -> tuple[dict[str, Any] | None, bool, bool]:
            state = Folder.open(self, header, resume)
            return state, self._has("report.json"), self.all_stopped

        state, self._complete, self.all_stopped = self.mesh.by_first(opened)
        return state

    @property
    def complete(self) -> bool:
        """Whether the training was finished when the folder was opened."""
        return self._has("report.json") if self.mesh.rank == 0 else self._complete

    def save(self, training: Training, seconds: float) -> None:
        """Write a checkpoint if it is due."""
        if self.mesh.rank == 0:
            super().save(training, seconds)

    def finish(self, training: Training, model: dict[str, Any], report: dict[str, Any]) -> None:
        """Write model, log and report."""
        if self.mesh.rank == 0:
            super().finish(training, model, report)
        self.mesh.barrier()  # no process ends before the files are there


def open_folder(path: Path, every: float, mesh: ProcessMesh | None) -> Folder:
    """Return the folder of a training, which several processes may share.

    Args:
        path (Path): The folder.
        every (float): Seconds between checkpoints.
        mesh (ProcessMesh, optional): The processes; ``None`` if there is only this one.
    """
    return Folder(path, every) if mesh is None else SharedFolder(path, every, mesh)


def _nothing(_: object) -> None:
    """Return nothing that would have to be sent to other processes."""
