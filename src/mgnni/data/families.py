"""Entries of datasets that come in the same form: their files, licence and source."""

from __future__ import annotations

from mgnni.data.entry import Counts, Entry

GEOM_GCN = "Geom-GCN, github.com/graphdml-uiuc-jlu/geom-gcn"
HETEROPHILOUS = "Platonov et al. 2023, github.com/yandex-research/heterophilous-graphs"
PLANETOID = "Yang et al. 2016, github.com/kimiyoung/planetoid"
TU = "TU Dortmund collection, chrsmrrs.github.io/datasets"
GIN = "Xu et al. 2019, github.com/weihua916/powerful-gnns"
NOT_STATED = "not stated"


def webkb(key: str, nodes: int, edges: int, *traps: str) -> Entry:
    """Pages of a university."""
    return Entry(
        name=key,
        family="webkb",
        key=key,
        counts=Counts(1, nodes, edges, 1703, 5, 10),
        licence=NOT_STATED,
        source=GEOM_GCN,
        traps=traps,
        place=f"webkb/{key}",
        copies=(_geom_gcn_files(f"webkb/{key}", key),),
    )


def webkb_fixed(key: str, nodes: int, edges: int, *traps: str) -> Entry:
    """Pages of a university whose Geom-GCN file is wrong; as text files, or as downloaded."""
    return Entry(
        name=f"{key}-fixed",
        family="webkb-fixed",
        key=key,
        counts=Counts(1, nodes, edges, 1703, 5, 10),
        licence="MIT",
        source=HETEROPHILOUS,
        traps=traps,
        place=f"webkb_{key}_alt",
        copies=(
            _geom_gcn_files(f"webkb_{key}_alt/{key}", key),
            (f"webkb_{key}_alt/{key}.npz",),
        ),
    )


def wikipedia(key: str, nodes: int, edges: int, features: int, *traps: str) -> Entry:
    """Pages of Wikipedia."""
    return Entry(
        name=key,
        family="wikipedia",
        key=key,
        counts=Counts(1, nodes, edges, features, 5, 10),
        licence=NOT_STATED,
        source=GEOM_GCN,
        traps=traps,
        place=f"wikipedia/{key}",
        copies=(_geom_gcn_files(f"wikipedia/{key}/geom_gcn", key),),
    )


def wikipedia_filtered(key: str, nodes: int, edges: int, features: int, *traps: str) -> Entry:
    """Pages of Wikipedia without duplicates."""
    file = f"wikipedia_filtered/{key}_filtered_directed.npz"
    return Entry(
        name=f"{key}-filtered",
        family="wikipedia-filtered",
        key=key,
        counts=Counts(1, nodes, edges, features, 5, 10),
        licence="MIT",
        source=HETEROPHILOUS,
        traps=traps,
        place=file,
        copies=((file,),),
    )


def actor(nodes: int, edges: int, features: int, *traps: str) -> Entry:
    """Actors on the same page of Wikipedia."""
    return Entry(
        name="actor",
        family="actor",
        key="film",
        counts=Counts(1, nodes, edges, features, 5, 10),
        licence=NOT_STATED,
        source=GEOM_GCN,
        traps=traps,
        place="actor",
        copies=(_geom_gcn_files("actor", "film"),),
    )


def planetoid(key: str, counts: Counts, *traps: str) -> Entry:
    """Papers that cite one another."""
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


def heterophilous(key: str, counts: Counts, *traps: str, metric: str = "accuracy") -> Entry:
    """The graphs made to replace the old heterophilous ones."""
    return Entry(
        name=key.replace("_", "-"),
        family="heterophilous",
        key=key,
        counts=counts,
        metric=metric,
        licence="MIT",
        source=HETEROPHILOUS,
        traps=traps,
        place=f"heterophilous/{key}",
        copies=((f"heterophilous/{key}/raw/{key}.npz",),),
    )


def ppi(name: str, *traps: str, licence: str, source: str, remedy: str = "") -> Entry:
    """Proteins in 24 tissues."""
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
    """Molecules and networks of people, many small graphs."""
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
    """A task that is made in code."""
    return Entry(
        name=name,
        family="synthetic",
        key=name,
        counts=counts,
        licence="MIT",
        source=f"made in code, after {after}",
        traps=traps,
    )


def _geom_gcn_files(folder: str, key: str) -> tuple[str, ...]:
    names = ["out1_node_feature_label.txt", "out1_graph_edges.txt"]
    names += [f"{key}_split_0.6_0.2_{index}.npz" for index in range(10)]
    return tuple(f"{folder}/raw/{name}" for name in names)
