"""``mgnni precompute``: store what training on a graph of any size needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mgnni.cli.arguments import UsageError
from mgnni.cli.data import DataCommand, benchmark_options, check_data
from mgnni.cli.folders import default_folder, result_folder
from mgnni.files import to_json

SYNTHETIC = "synthetic"


@dataclass(frozen=True, kw_only=True)
class Precompute(DataCommand):
    """Store the terms of a graph for mini-batches.

    Computes the products of polynomials of the operator with the features once, in files, so that
    mgnni minibatch trains MGNNI exactly, by mini-batches of nodes, whatever the size of the graph.
    The bias of its equations is then an affine function of the features. The number of terms
    follows from --gamma, --scales and --tol.

    DATA is a benchmark, a folder or file as for mgnni train, a folder with a stored graph
    (graph.json), or the word synthetic, which makes a random graph of any size. An interrupted
    computation goes on if the command is repeated.

    Example: mgnni precompute cora --output runs/cora-terms
    Example: mgnni precompute synthetic --nodes 10000000 --edges 100000000 --output /data/terms
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "options": "--option",
        "num_nodes": "--nodes",
        "num_edges": "--edges",
        "features": "--num-features",
    }

    data: str = field(metadata={"metavar": "DATA", "positional": True})
    """Benchmark, folder or file; or synthetic."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/terms-DATA"}
    )
    """Folder for the terms and, in its folder graph, the graph."""
    scales: tuple[int, ...] = (1, 2)
    """Scales of the models that can be trained."""
    gamma: float = 0.8
    """Largest contraction factor of these models."""
    tol: float = 1e-3
    """Residual, relative to the bias, that the terms shall suffice for."""
    storage: str = field(default="float32", metadata={"choices": ("float32", "float16")})
    """Precision of the stored terms; float16 has half the size, for a tol of about 1e-2."""
    no_constant: bool = False
    """Do not add a feature of ones, which an affine bias needs."""
    memory_limit: float = 2.0
    """GiB for the columns that are in memory at a time."""
    split: int = 0
    """Split of the benchmark or of the drawn ones."""
    nodes: int = 100_000
    """Nodes of a synthetic graph."""
    edges: int = 1_000_000
    """Edges of a synthetic graph, counted in both directions."""
    num_features: int = 32
    """Features of a synthetic graph."""
    seed: int = 0
    """Seed of a synthetic graph."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, see mgnni datasets NAME."""

    def run(self) -> None:
        """Store the graph and its terms."""
        if self.data != SYNTHETIC:
            check_data(self.data)
        if not self.memory_limit > 0:
            raise UsageError(f"--memory-limit must be positive (got {self.memory_limit})")
        options = benchmark_options(self.option)
        # Imported late because they are slow to import.
        from mgnni.cli.precompute_output import follow_terms, show_terms
        from mgnni.disk.precompute import precompute
        from mgnni.implicit.check import check_gamma, check_options, check_scales
        from mgnni.train.terms_source import find_stored_graph

        check_options(self.tol, None)
        scales, gamma = check_scales(self.scales), check_gamma(self.gamma)
        output = self.output or default_folder(f"terms-{Path(self.data).resolve().name}")
        synthetic = None
        if self.data == SYNTHETIC:
            synthetic = (self.nodes, self.edges, self.num_features, self.seed)
        try:
            with result_folder(output), follow_terms() as follow:
                graph = find_stored_graph(
                    self.data,
                    output / "graph",
                    synthetic=synthetic,
                    split=self.split,
                    options=options,
                    tables=self.tables,
                    on_progress=follow.graph,
                )
                precompute(
                    graph,
                    output,
                    scales=scales,
                    gamma=gamma,
                    tol=self.tol,
                    storage=self.storage,
                    constant=not self.no_constant,
                    budget=self.memory_limit,
                    on_term=follow.term,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command to go on"
            ) from None
        found = show_terms(output, quiet=self.json)
        if self.json:
            sys.stdout.write(to_json(found))
