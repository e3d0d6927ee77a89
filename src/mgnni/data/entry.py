"""What the catalog knows about a dataset, and the entries of datasets of the same family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

GEOM_GCN = "Geom-GCN, github.com/graphdml-uiuc-jlu/geom-gcn"
HETEROPHILOUS = "Platonov et al. 2023, github.com/yandex-research/heterophilous-graphs"
PLANETOID = "Yang et al. 2016, github.com/kimiyoung/planetoid"
TU = "TU Dortmund collection, chrsmrrs.github.io/datasets"
GIN = "Xu et al. 2019, github.com/weihua916/powerful-gnns"
NOT_STATED = "not stated"


class Counts(NamedTuple):
    """The size of a dataset, over all graphs and with one edge per direction.

    ``None`` means unknown. With several labels per node, ``classes`` is the number of labels.
    """

    graphs: int | None
    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None
    splits: int | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset: its size, its files, its source and known problems.

    Args:
        name (str): Name of the dataset.
        family (str): Name of its loader.
        key (str): Its name in the published files.
        level (str, optional): ``"node"`` or ``"graph"``: what is classified.
        counts (Counts): Published size, for the default options.
        metric (str, optional): The metric of the dataset.
        licence (str): Licence of the data.
        source (str): Publisher of the data.
        traps (tuple of str, optional): What readers of results on it should know.
        place (str, optional): Its folder or file in the folder of all datasets; empty if it is
            generated.
        copies (tuple, optional): Sets of files; the dataset is on disk if one set is complete.
        remedy (str, optional): How to get a dataset that has no download.
    """

    name: str
    family: str
    key: str
    level: str = "node"
    counts: Counts
    metric: str = "accuracy"
    licence: str
    source: str
    traps: tuple[str, ...] = ()
    place: str = ""
    copies: tuple[tuple[str, ...], ...] = ()
    remedy: str = ""

    def on_disk(self, root: Path) -> bool:
        """Returns whether the dataset can be loaded without a download."""
        if not self.place:
            return True
        return any(all((root / file).is_file() for file in files) for files in self.copies)


def geom_gcn(name: str, family: str, counts: Counts, *traps: str, key: str = "") -> Entry:
    """WebKB, Wikipedia and Actor as published by Geom-GCN."""
    place = family if family == name else f"{family}/{name}"
    folder = f"{place}/geom_gcn" if family == "wikipedia" else place
    return Entry(
        name=name,
        family=family,
        key=key or name,
        counts=counts,
        licence=NOT_STATED,
        source=GEOM_GCN,
        traps=traps,
        place=place,
        copies=(_geom_gcn_files(folder, key or name),),
    )


def platonov(
    name: str,
    family: str,
    counts: Counts,
    *traps: str,
    key: str,
    place: str,
    copies: tuple[tuple[str, ...], ...],
    metric: str = "accuracy",
) -> Entry:
    """Graphs published by Platonov et al."""
    return Entry(
        name=name,
        family=family,
        key=key,
        counts=counts,
        metric=metric,
        licence="MIT",
        source=HETEROPHILOUS,
        traps=traps,
        place=place,
        copies=copies,
    )


def webkb_fixed(key: str, counts: Counts, *traps: str) -> Entry:
    """A WebKB graph whose Geom-GCN file is wrong; as text files, or as downloaded."""
    place = f"webkb_{key}_alt"
    copies = (_geom_gcn_files(f"{place}/{key}", key), (f"{place}/{key}.npz",))
    name = f"{key}-fixed"
    return platonov(name, "webkb-fixed", counts, *traps, key=key, place=place, copies=copies)


def wikipedia_filtered(key: str, counts: Counts, *traps: str) -> Entry:
    """Wikipedia pages without duplicates."""
    file = f"wikipedia_filtered/{key}_filtered_directed.npz"
    name, family = f"{key}-filtered", "wikipedia-filtered"
    return platonov(name, family, counts, *traps, key=key, place=file, copies=((file,),))


def heterophilous(key: str, counts: Counts, *traps: str, metric: str = "accuracy") -> Entry:
    """The heterophilous graphs of Platonov et al."""
    place = f"heterophilous/{key}"
    return platonov(
        key.replace("_", "-"),
        "heterophilous",
        counts,
        *traps,
        key=key,
        place=place,
        copies=((f"{place}/raw/{key}.npz",),),
        metric=metric,
    )


def planetoid(key: str, counts: Counts, *traps: str) -> Entry:
    """Citation networks."""
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return Entry(
        name=key.lower(),
        family="planetoid",
        key=key,
        counts=counts,
        licence="MIT",
        source=PLANETOID,
        traps=traps,
        place=f"planetoid/{key}",
        copies=(tuple(f"planetoid/{key}/raw/ind.{key.lower()}.{part}" for part in parts),),
    )


def ppi(name: str, *traps: str, licence: str, source: str, remedy: str = "") -> Entry:
    """Protein interactions in 24 tissues."""
    folder = name.replace("-", "_")
    parts = ("feats.npy", "graph_id.npy", "graph.json", "labels.npy")
    files = [f"{split}_{part}" for split in ("train", "valid", "test") for part in parts]
    return Entry(
        name=name,
        family="ppi",
        key=folder,
        counts=Counts(24, 56944, 1587264, 50, 121, 1),
        metric="micro_f1",
        licence=licence,
        source=source,
        traps=traps,
        place=folder,
        copies=(tuple(f"{folder}/raw/{file}" for file in files),),
        remedy=remedy,
    )


def tu(
    key: str,
    counts: Counts,
    *traps: str,
    node_labels: bool = True,
    licence: str = NOT_STATED,
    source: str = TU,
    remedy: str = "",
) -> Entry:
    """Graph classification datasets of the TU collection."""
    files = ["A", "graph_indicator", "graph_labels", *(["node_labels"] if node_labels else [])]
    return Entry(
        name=key.lower().replace("_", "-"),
        family="tu",
        key=key,
        level="graph",
        counts=counts,
        licence=licence,
        source=source,
        traps=traps,
        place=f"tu/{key}",
        copies=(tuple(f"tu/{key}/raw/{key}_{file}.txt" for file in files),),
        remedy=remedy,
    )


def synthetic(name: str, counts: Counts, *traps: str, after: str) -> Entry:
    """A generated dataset."""
    return Entry(
        name=name,
        family="synthetic",
        key=name,
        counts=counts,
        licence="MIT",
        source=f"generated, after {after}",
        traps=traps,
    )


def _geom_gcn_files(folder: str, key: str) -> tuple[str, ...]:
    names = ["out1_node_feature_label.txt", "out1_graph_edges.txt"]
    names += [f"{key}_split_0.6_0.2_{index}.npz" for index in range(10)]
    return tuple(f"{folder}/raw/{name}" for name in names)
