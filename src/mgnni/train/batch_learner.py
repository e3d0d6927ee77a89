"""Training on batches of graphs that several processes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mgnni.data.task import Task
from mgnni.distributed.collectives import from_first, gathered, lost_process
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import ArgumentError
from mgnni.layers.regularization import BatchNorm, Dropout, number_rows
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.learner import Batch
from mgnni.train.runs import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class BatchLearner(GraphLearner):
    """Every process trains on some graphs of each batch, and the gradients are summed.

    The batches, the loss of a batch, the dropout masks and the statistics of batch normalisation
    are those of one process. All processes have the same parameters.

    Args:
        task (Task): Graphs, labels and splits.
        config (Config): Model and training hyperparameters.
        runs (Sequence[Run]): A single run.
        fabric (Fabric): Device and precision.
        mesh (ProcessMesh): The processes.
    """

    mesh: ProcessMesh

    def __init__(
        self,
        task: Task,
        config: Config,
        runs: Sequence[Run],
        fabric: Fabric,
        mesh: ProcessMesh,
    ) -> None:
        if mesh.rows * mesh.columns > 1:
            raise ArgumentError(
                f"'mesh' must not have rows or columns for many graphs (got {mesh.rows} and "
                f"{mesh.columns}); use batch={mesh.size}"
            )
        super().__init__(task, config, runs, fabric)
        norms = [one for one in self.ensemble.model.modules() if isinstance(one, nn.BatchNorm1d)]
        self.norms = [one for one in norms if isinstance(one, BatchNorm)]
        if len(self.norms) < len(norms):
            raise ArgumentError(
                "'mesh' needs a model without the batch normalization of the head 'residual', "
                f"which would see a part of each batch only (got {config.architecture} with it); "
                "choose another head, or train in one process"
            )
        for one in self.norms:
            one.mesh = mesh
        for one in self.ensemble.model.modules():
            if isinstance(one, Dropout) and one.level == "edge" and one.p > 0:
                raise ArgumentError(
                    f"'mesh' needs a model without dropout of edges (got {config.architecture} "
                    "with it), which are not numbered over several processes; set "
                    "attention_dropout to 0, or train in one process"
                )
        self.mesh, self.capturable = mesh, False
        self.sizes = torch.tensor([int(graph.num_nodes) for graph in task.graphs])
        mesh.barrier()

    def _own(self, units: Tensor) -> Tensor:
        """Return the graphs of this process; they follow one another."""
        return torch.tensor_split(units, self.mesh.size)[self.mesh.rank]

    def _batch(self, units: Tensor) -> Batch:
        """Return the own part of a batch; the weights of all parts sum to one."""
        every, own = self.task.rows_of(units), self._own(units)
        total = self.known[every].sum()
        absent = own.numel() == 0  # a graph without weight stands for no graph
        own = units[:1] if absent else own
        rows = self.task.rows_of(own)
        labels = self.labels.index_select(0, rows.to(self.fabric.device)).unsqueeze(0)
        share = (self.known[rows] / total).unsqueeze(0).to(self.fabric.device)
        first = int((units < own[0]).sum())  # units are sorted
        nodes = int(self.sizes[units[:first]].sum())
        count = int(self.sizes[own].sum())
        numbers = {
            "nodes": torch.arange(nodes, nodes + count, device=self.fabric.device),
            "graphs": torch.arange(first, first + own.numel(), device=self.fabric.device),
        }
        inputs = (*self._inputs(own), numbers, absent)
        return inputs, labels, torch.zeros_like(share) if absent else share

    def step(self, inputs: tuple[Any, ...], labels: Tensor, weight: Tensor) -> Tensor:
        """Train on the own part of a batch; return the loss of the whole batch."""
        *inputs_, numbers, absent = inputs
        for one in self.norms:
            one.absent = absent
        number_rows(self.ensemble.model, **numbers)
        return super().step(tuple(inputs_), labels, weight)

    def _eval_units(self, part: str) -> Tensor:
        return self._own(super()._eval_units(part))

    def _logits_of(self, part: str) -> Tensor:
        """Return the logits of all processes."""
        dtype = torch.float64 if self.task.regression else self.dtype  # as a TargetScale returns
        own = super()._logits_of(part).to(self.fabric.device, dtype)
        every = torch.tensor_split(super()._eval_units(part), self.mesh.size)
        counts = [self.task.rows_of(units).numel() for units in every]
        return gathered(own, counts, self.mesh.everyone)

    def validate(self) -> list[tuple[float, float]]:
        """Return loss and metric, as the first process finds them."""
        found = torch.tensor(super().validate(), dtype=torch.float64)
        agreed = from_first(found.to(self.fabric.device), self.mesh.everyone)
        return [(a, b) for a, b in agreed.tolist()]

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state of the first process, whose certificates the others do not count again."""
        super().load_state(state)
        if self.mesh.rank > 0:
            self.certificates = Certificates()

    def all_certificates(self) -> Certificates:
        """Return the certificates of all processes, which solve for different graphs."""
        found: list[Any] = [None] * self.mesh.size
        with lost_process():
            dist.all_gather_object(found, self.certificates.to_dict(), group=self.mesh.everyone)
        total = Certificates()
        for one in found:
            total.merge(Certificates.from_dict(one))
        return total
