"""What a person may say about tables; what is left out is found by name."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mgnni.errors import ArgumentError

# Names a column is known by, compared without regard to case; the first one present is taken.
ID_NAMES = ("id", "node", "node_id", "name")
GRAPH_NAMES = ("graph", "graph_id")
LABEL_NAMES = ("label", "y", "class", "target")
SOURCE_NAMES = ("source", "src", "from", "u")
TARGET_NAMES = ("target", "dst", "to", "v")
WEIGHT_NAMES = ("weight", "w", "edge_weight")
MASK_NAMES = ("train_mask", "val_mask", "test_mask")

SEVERAL = ("label", "split_column", "features", "ignore", "categorical")


@dataclass(frozen=True)
class TableOptions:
    """Which column is what, and how the graph is to be read. Every field may be left out.

    Where several names may be given, a string is one name.

    Args:
        id: column of ``nodes`` with the name of each node.
        label: column with the class; several columns of 0 and 1 for several labels a row. In
            ``graphs`` if there is such a table, else in ``nodes``.
        split_column: column that says train, val or test; one column for each of several splits; or
            three columns of 0 and 1 whose names begin with train, val and test.
        features: columns of ``nodes`` that are features; by default all that are nothing else.
        ignore: columns of ``nodes`` that are not features.
        categorical: features whose values are categories even if they look like numbers.
        source: column of ``edges`` where each edge begins.
        target: column of ``edges`` where each edge ends.
        weight: column of ``edges`` with its weight.
        graph: column of ``nodes`` (and of ``edges``, if ids are unique within a graph only) with
            the graph that a node belongs to.
        directed: ``True``: edges as listed. ``False``: an edge listed in one direction stands for
            both. ``None``: as listed, and undirected if each edge is listed in both directions.
        delimiter: between the cells of a text table; by default a comma, or a tab in ``.tsv``.
        degree: one more feature, the number of edges that end in a node.
        standardize: shift and scale number columns to mean 0 and deviation 1 over training nodes.
        allow_unseen: accept a split that tests on a class it does not train on.
    """

    id: str | None = None
    label: tuple[str, ...] = ()
    split_column: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    graph: str | None = None
    directed: bool | None = None
    delimiter: str | None = None
    degree: bool = False
    standardize: bool = False
    allow_unseen: bool = False

    def __post_init__(self) -> None:
        for name in SEVERAL:
            value = getattr(self, name)
            names = (value,) if isinstance(value, str) else tuple(value)
            object.__setattr__(self, name, names)
            if len(set(names)) < len(names):
                raise ArgumentError(f"'{name}' must name each column once (got {list(names)})")
        if self.delimiter == "\\t":  # as typed in a shell
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and len(self.delimiter.encode()) != 1:
            raise ArgumentError(
                f"'delimiter' must be one character (got {self.delimiter!r}); ',' ';' and '\\t' "
                "are the usual ones"
            )
        both = sorted(set(self.features) & set(self.ignore))
        if both:
            raise ArgumentError(
                f"'features' and 'ignore' must not share a column (got {both} in both); drop it "
                "from one of them"
            )
        extra = sorted(set(self.categorical) & set(self.ignore))
        if extra:
            raise ArgumentError(
                f"'categorical' and 'ignore' must not share a column (got {extra} in both); drop "
                "it from one of them"
            )

    def given(self) -> tuple[str, ...]:
        """Return the fields that differ from their default."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != f.default)
