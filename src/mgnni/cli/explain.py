"""``mgnni explain``: which nodes, features and scales carried a prediction."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mgnni.cli.arguments import Command, UsageError
from mgnni.cli.data import benchmark_options
from mgnni.cli.folders import default_folder, result_folder, run_folder, write_result
from mgnni.errors import closest
from mgnni.files import to_json

if TYPE_CHECKING:
    from mgnni.cli.trained_on import Graphs
    from mgnni.explain.explanation import Explanation
    from mgnni.explain.report import Names
    from mgnni.train.fitted import Fitted

FILES = ("explanation.json", "explanation.png")
CHANGED = (
    "the model was trained on other data, or the files have changed since the training; this "
    "explains the prediction for them as they are now"
)


@dataclass(frozen=True, kw_only=True)
class Explain(Command):
    """Show why a node or graph got its prediction.

    RUN is the output folder of mgnni train. NODE is the id of a node as in your files, its index,
    counted from 0, for a benchmark, or a graph for a model of whole graphs. It is searched in the
    data of the training, or in new data that --data names.

    The contributions of all nodes add up to the logit of the predicted class, minus what it would
    be with the features of the baseline at every node; so do those of all features. For mgnni and
    gmgnni the propagation is attributed exactly, by one solve per scale. Other models are
    attributed by integrated gradients. What the sums miss is printed as the gap. The result is a
    table, and a folder with explanation.json and a drawing, explanation.png.

    Example: mgnni explain runs/texas 17
    Example: mgnni explain runs/topics paper-1204 --against theory --top 20
    Example: mgnni explain runs/topics paper-9001 --data new-graph/
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "data": "--data",
        "index": "NODE",
        "run": "--run-number",
        "options": "--option",
    }

    model: Path = field(metadata={"metavar": "RUN", "positional": True})
    """Output folder of mgnni train."""
    node: str = field(metadata={"metavar": "NODE", "positional": True})
    """Id of a node, or of a graph; index in a benchmark."""
    class_name: str | None = field(
        default=None,
        metadata={
            **{"metavar": "CLASS", "unset": "the predicted one", "names": ("--class",)},
            "literal": True,
        },
    )
    """Class to explain."""
    against: str | None = field(
        default=None,
        metadata={"metavar": "CLASS", "unset": "the logit itself is explained", "literal": True},
    )
    """Explain why the class was predicted rather than this one, or rather than the mean of all
    others: others, unless a class has this name."""
    top: int = 10
    """Number of nodes and of features in the tables."""
    baseline: str = field(default="zero", metadata={"choices": ("zero", "mean")})
    """Features that stand for no information: zeros, or the mean over all nodes of the graph."""
    steps: int = 64
    """Points of integrated gradients; more make the gap smaller."""
    run_number: int | None = field(
        default=None, metadata={"unset": "the best on the validation set"}
    )
    """Run of the training that predicts, counted from 0."""
    option: tuple[str, ...] = field(
        default=(), metadata={"metavar": "NAME=VALUE", "unset": "those of the benchmark"}
    )
    """Options of the benchmark, as in training."""
    data: Path | None = field(
        default=None, metadata={"metavar": "PATH", "unset": "the data of the training"}
    )
    """Folder or file with the node or graph, which is read as in training: the data of the training
    if they have moved, or new data."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/explain-RUN-NODE"}
    )
    """Folder for explanation.json and explanation.png."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        """Explain, print and save."""
        options = benchmark_options(self.option)
        folder = run_folder(self.model)
        if self.top < 1:
            raise UsageError(f"--top must be at least 1 (got {self.top})")
        output = self.output or default_folder(f"explain-{folder.resolve().name}-{self.node}")
        there = [output / one for one in FILES if (output / one).exists()]
        if there and not self.overwrite:
            raise UsageError(f"{there[0]} exists; pass --overwrite, or --output another folder")
        # Imported late because they are slow to import.
        from mgnni.cli.explain_output import show_explanation
        from mgnni.cli.trained_on import trained_on
        from mgnni.explain.figure import draw_explanation
        from mgnni.explain.prediction import explain_graphs
        from mgnni.explain.report import summarize
        from mgnni.train.fitted import Fitted

        fitted = Fitted.load(folder)
        fitted.model(self.run_number)  # refuses a wrong run before anything is read
        source = trained_on(folder, options, fitted, self.run_number, self.data, same_size=False)
        index = self._find(source, fitted.level)
        found = explain_graphs(
            fitted,
            source.graphs,
            index,
            class_index=self._class(fitted, "--class", self.class_name),
            against=self._class(fitted, "--against", self.against, others=True),
            baseline=self.baseline,
            steps=self.steps,
            run=self.run_number,
        )
        names = _names(fitted, source, found)
        result = {
            "command": "explain",
            "run": str(self.model),
            "data": source.name,
            "baseline": self.baseline,
            **summarize(found, names, self.top),
            "threshold": _threshold(fitted, found, self.run_number),
            "notes": [*[CHANGED] * source.changed, *source.warnings],
        }
        text = to_json(result)
        with result_folder(output):
            saved = write_result(output, FILES, text, partial(draw_explanation, found, names))
        if self.json:
            sys.stdout.write(text)
            return
        show_explanation(result)
        sys.stdout.write(saved)

    def _find(self, source: Graphs, level: str) -> int:
        """Return the row whose id was given."""
        ids = list(map(str, _plain(source.ids)))
        if self.node in ids:
            return ids.index(self.node)
        near = closest(self.node, ids[:10000])
        hint = f"did you mean {near}?" if near else f"ids look like {', '.join(ids[:3])}"
        raise UsageError(
            f"NODE must be the id of one of the {len(ids):,} {level}s of {source.name} (got "
            f"{self.node!r}); {hint}"
        )

    def _class(
        self, fitted: Fitted, option: str, name: str | None, *, others: bool = False
    ) -> int | str | None:
        """Return the index of a class."""
        if name in fitted.classes:
            return fitted.classes.index(name)
        if name is None or (others and name == "others"):
            return name
        known = ", ".join((*fitted.classes[:20], *(["others"] if others else [])))
        raise UsageError(f"{option} must be a class of the training (got {name!r}); it has {known}")


def _plain(ids: Any) -> Sequence[object]:
    """Return ids as Python objects, whatever column they come from."""
    found: Sequence[object] = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
    return found


def _threshold(fitted: Fitted, found: Explanation, run: int | None) -> float | None:
    """Return the probability of the explained class above which it is predicted."""
    threshold = fitted.threshold(run)
    return threshold if threshold is None or found.class_index else 1 - threshold


def _names(fitted: Fitted, source: Graphs, found: Explanation) -> Names:
    """Return the names of the nodes of the graph that is explained."""
    from mgnni.explain.report import Names

    features = None if fitted.schema is None else fitted.schema.feature_names
    ids = _plain(source.ids)
    target = ids[found.index]
    count = found.contributions.size(1)
    if found.node is None:
        start = sum(int(graph.num_nodes) for graph in source.graphs[: found.index])
        nodes = None if source.node_ids is None else _plain(source.node_ids[start : start + count])
        return Names(fitted.classes, features, nodes, target=target)
    start = found.index - found.node
    known = [] if source.labels is None else source.labels[start : start + count].tolist()
    labels = {node: fitted.classes[label] for node, label in enumerate(known) if label >= 0}
    return Names(fitted.classes, features, ids[start : start + count], labels, target)
