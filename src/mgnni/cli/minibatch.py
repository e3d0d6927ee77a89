"""``mgnni minibatch``: train on the stored terms of a graph."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from mgnni.cli.arguments import Command, Parser, UsageError
from mgnni.cli.folders import default_folder, result_folder
from mgnni.cli.mesh import find_mesh
from mgnni.files import to_json


@dataclass(frozen=True, kw_only=True)
class Minibatch(Command):
    """Train on stored terms by mini-batches.

    TERMS is the output folder of mgnni precompute. The model is MGNNI whose input map is affine
    (or the identity), without dropout before it; its weights, attention and head are trained as
    always. No neighbours are sampled, so results are those of the whole graph, up to the certified
    error. The epoch with the best validation accuracy is kept. An interrupted training goes on if
    the command is repeated.

    mgnni train TERMS --precomputed is the same command.

    Example: mgnni minibatch runs/terms-cora
    Example: mgnni minibatch /data/terms --epochs 5 --batch-size 65536 --output runs/large
    """

    no_options: ClassVar[Sequence[str]] = ("options",)

    terms: Path = field(metadata={"metavar": "TERMS", "positional": True})
    """Output folder of mgnni precompute."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/minibatch-TERMS"}
    )
    """Folder for model.pt and report.json."""
    mesh: str | None = field(default=None, metadata={"metavar": "AXES", "unset": "one process"})
    """How processes of torchrun share the work: batch=4 divides every batch among four."""
    options: dict[str, Any] = field(default_factory=dict)  # hyperparameters that were given

    @classmethod
    def parser(cls, args: Sequence[str]) -> Parser:
        """Return the parser with the hyperparameters."""
        from mgnni.train.row_training import RowOptions

        parser = super().parser(args)
        group = parser.group("training options", "Model and optimisation.")
        parser.add_fields(group, RowOptions, defaults=RowOptions())
        return parser

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> Minibatch:
        """Return the command; what is not its own is a hyperparameter."""
        own = {one.name for one in fields(cls)}
        return cls(
            **{name: value for name, value in values.items() if name in own},
            options={name: value for name, value in values.items() if name not in own},
        )

    def run(self) -> None:
        """Train, print and save."""
        from mgnni.cli.precompute_output import follow_terms, show_training
        from mgnni.train.minibatch import train_rows
        from mgnni.train.row_training import RowOptions

        output = self.output or default_folder(f"minibatch-{self.terms.resolve().name}")
        options = RowOptions(**self.options)
        mesh = find_mesh(self.mesh, "order", options.device)
        if mesh is not None and mesh.batch < mesh.size:
            raise UsageError(
                f"--mesh must be batch={mesh.size} for mini-batches of nodes (got {self.mesh})"
            )
        if mesh is not None and mesh.rank > 0:
            train_rows(self.terms, output, options, mesh=mesh)
            return  # the first process reports
        try:
            with result_folder(output), follow_terms() as follow:
                report = train_rows(self.terms, output, options, follow.epoch, mesh)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command to go on"
            ) from None
        if self.json:
            sys.stdout.write(to_json(report))
            return
        show_training(report, output, self.terms)
