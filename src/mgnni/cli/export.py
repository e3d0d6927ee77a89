"""``mgnni export``: a trained model as a file that runs without the training code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.data import benchmark_options
from mgnni.cli.folders import run_folder
from mgnni.files import to_json


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Export a trained model for serving.

    RUN is the output folder of mgnni train, of a model for nodes. The result is a program of
    torch.export that maps the features of all nodes of the graph of the training to the probability
    of each class, or to the predicted numbers. Graph and weights are part of the file. To run it, a
    process needs torch and `import mgnni.serve`, which registers the solver; docs/deploy.md has a
    script.

    Example: mgnni export runs/texas
    Example: mgnni export runs/topics --output topics.pt2
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "model": "RUN",
        "run": "--run-number",
        "options": "--option",
    }

    model: Path = field(metadata={"metavar": "RUN", "positional": True})
    """Output folder of mgnni train."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FILE", "unset": "model.pt2 in RUN, which is replaced"}
    )
    """File to write, which ends in .pt2."""
    overwrite: bool = False
    """Replace an existing file."""
    run_number: int | None = field(
        default=None, metadata={"unset": "the best on the validation set"}
    )
    """Run of the training whose weights are exported, counted from 0."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, as in training."""
    data: Path | None = field(
        default=None, metadata={"metavar": "PATH", "unset": "where they were in training"}
    )
    """Folder or file of the training data, if it has moved."""

    def run(self) -> None:
        """Read the graph of the training, export, write and print."""
        options = benchmark_options(self.option)
        folder = run_folder(self.model)
        output = self.output or folder / "model.pt2"
        if self.output is not None and output.exists() and not self.overwrite:
            raise UsageError(f"{output} exists; pass --overwrite, or --output another file")
        # Imported late because they are slow to import.
        from mgnni.cli.trained_on import trained_on
        from mgnni.export.program import check_path, export_graphs
        from mgnni.train.fitted import Fitted

        check_path(output)
        fitted = Fitted.load(folder)
        fitted.model(self.run_number)  # refuses a wrong run before anything is read
        source = trained_on(folder, options, fitted, self.run_number, self.data)
        info = export_graphs(fitted, output, source.graphs, self.run_number)
        result = {"command": "export", "run": str(self.model), "output": str(output), **info}
        if source.changed:
            sys.stderr.write(
                "mgnni export: note: the files have changed since the training; the program has "
                "their present graph and, as its example input, their present features\n"
            )
        if self.json:
            sys.stdout.write(to_json(result))
            return
        many = len(info["classes"]) > 1
        kind = f"number{'s' * many}" if fitted.regression else "probabilities"
        sys.stdout.write(
            f"Saved {info['model']} of run {info['run']} on {source.name} as {output}: features of "
            f"shape ({info['nodes']}, {info['features']}) in, {len(info['classes'])} {kind} per "
            "node out.\n"
            "In Python: import torch, mgnni.serve; "
            f"torch.export.load({str(output)!r}).module()(features)\n"
        )
