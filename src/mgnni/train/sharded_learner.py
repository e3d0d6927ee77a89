"""Training on one graph whose nodes are spread over several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.data.task import Task
from mgnni.distributed.collectives import from_first
from mgnni.distributed.mesh import ProcessMesh
from mgnni.distributed.shard import shard
from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation
from mgnni.layers.regularization import number_rows, share_batch_statistics
from mgnni.layers.sparse_features import sparse_features
from mgnni.train.config import Config
from mgnni.train.node_learner import NodeLearner
from mgnni.train.runs import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class ShardedNodeLearner(NodeLearner):
    """Every process trains on its own nodes; gradients are summed, and logits gathered.

    All processes have the same parameters and take the same decisions, so each of them holds the
    whole state of the training.

    Args:
        task (Task): One graph, labels and splits.
        config (Config): Model and training hyperparameters.
        runs (Sequence[Run]): Splits and seeds.
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
        if mesh.batch > 1:
            raise ArgumentError(
                f"'mesh' must have rows or columns for one graph (got batch={mesh.batch}); use "
                f"columns={mesh.batch}"
            )
        check_shardable(config)
        self.mesh = mesh
        super().__init__(task, config, runs, fabric)
        labels, weight = self.parts["train"]
        here = self.operator.nodes.to(labels.device)
        self.parts["train"] = (labels[:, here], weight[:, here])
        self.capturable = False
        number_rows(self.ensemble.model, nodes=here)
        share_batch_statistics(self.ensemble.model, mesh)

    def _place_and_inputs(self) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the part of the graph that this process has."""
        return self._prepare()

    def _inputs(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[Any, ...]:
        """Return the features of the own nodes, and the operator of the whole graph."""
        whole = Propagation.from_edge_index(
            edge_index,
            x.size(0),
            edge_weight,
            dtype=self.dtype,
            **self.ensemble.model.graph_options,
        )
        self.operator = shard(whole, self.mesh)
        own = self.operator.local(x)
        own = sparse_features(own) if self._sparse(x) else own
        return own.to(self.fabric.device), self.operator

    @torch.no_grad()
    def predict(self, inputs: tuple[Any, ...]) -> Tensor:
        """Return the logits of all nodes in evaluation mode."""
        own = super().predict(inputs).transpose(0, 1)
        return self.operator.gather(own).transpose(0, 1)

    def validate(self) -> list[tuple[float, float]]:
        """Return loss and metric of each run, as the first process finds them."""
        found = torch.tensor(super().validate(), dtype=torch.float64)
        agreed = from_first(found.to(self.fabric.device), self.mesh.everyone)
        return [(a, b) for a, b in agreed.tolist()]


def check_shardable(config: Config) -> None:
    """Raise an error unless a model can be trained on a part of the nodes.

    Args:
        config (Config): The model.
    """
    model = config.model
    if config.architecture != "mgnni":
        raise ArgumentError(
            "'mesh' with rows or columns is for the model mgnni (got "
            f"{config.architecture}); train other models in one process"
        )
    for name, allowed in (
        ("input_map", ("mlp", "mlp-relu", "identity")),
        ("head", ("auto", "linear", "mlp")),
    ):
        if getattr(model, name) not in allowed:
            raise ArgumentError(
                f"'{name}' must be {' or '.join(map(str, allowed))} over several processes (got "
                f"{getattr(model, name)}), each of which knows its own nodes only; change it, or "
                "train in one process"
            )
