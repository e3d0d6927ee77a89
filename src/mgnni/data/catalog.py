"""All datasets with a name, their published sizes and known problems."""

from __future__ import annotations

from mgnni.data.entry import (
    GIN,
    NOT_STATED,
    Counts,
    Entry,
    geom_gcn,
    heterophilous,
    planetoid,
    ppi,
    synthetic,
    tu,
    webkb_fixed,
    wikipedia_filtered,
)
from mgnni.errors import check_choice

FEW = "{} per split: one is worth {} points, so compare models by paired tests."
TWINS = (
    "Many duplicates: {} % of the test nodes have a training node with the same links. Prefer "
    "{}-filtered."
)
FEWER_TWINS = (
    "By links alone, {} % of the test nodes still have a duplicate in training. The sizes of "
    "training, validation and test set differ between splits."
)
KINDS = (
    "The public split trains on 20 nodes per class, Geom-GCN's ten splits (split='geom-gcn') on "
    "about half of all nodes: the two are not comparable."
)
IMBALANCED = "The classes are imbalanced: the metric is ROC-AUC; accuracy says little."
FOLD_MAX = (
    "Published numbers of IGNN and MGNNI are each fold's best epoch on its test graphs; other "
    "rules give lower numbers."
)
DEGREE = (
    "No node labels: the feature is the degree in one column, as in the code of MGNNI. GIN uses "
    "one-hot degrees (degree='onehot'); the two are not comparable."
)
SAME_CHAINS = (
    "Every chain has nodes in training; split='chains' tests on unseen chains. split='shuffle' is "
    "the authors' shuffle of all nodes regardless of their class."
)

_ALL = (
    geom_gcn(
        "cornell",
        "webkb",
        Counts(1, 183, 298, 1703, 5, 10),
        "Geom-GCN's file gives Cornell the features and labels of Texas, which are unrelated to "
        "its edges; published numbers use it. cornell-fixed is the corrected graph.",
        FEW.format("37 test nodes", 2.7),
    ),
    geom_gcn(
        "texas",
        "webkb",
        Counts(1, 183, 325, 1703, 5, 10),
        "Geom-GCN's Cornell has the same features and labels: the two are not independent. One "
        "class has a single node.",
        FEW.format("37 test nodes", 2.7),
    ),
    geom_gcn(
        "wisconsin",
        "webkb",
        Counts(1, 251, 515, 1703, 5, 10),
        FEW.format("51 test nodes", 2.0),
    ),
    webkb_fixed(
        "cornell",
        Counts(1, 183, 554, 1703, 5, 10),
        "Stored undirected: the directions of the links are lost. Most published numbers on "
        "Cornell use Geom-GCN's graph and are not comparable.",
        FEW.format("37 test nodes", 2.7),
    ),
    geom_gcn(
        "chameleon",
        "wikipedia",
        Counts(1, 2277, 36101, 2325, 5, 10),
        TWINS.format(67, "chameleon"),
    ),
    geom_gcn(
        "squirrel",
        "wikipedia",
        Counts(1, 5201, 217073, 2089, 5, 10),
        TWINS.format(62, "squirrel"),
    ),
    wikipedia_filtered("chameleon", Counts(1, 890, 13584, 2325, 5, 10), FEWER_TWINS.format(8)),
    wikipedia_filtered("squirrel", Counts(1, 2223, 65718, 2089, 5, 10), FEWER_TWINS.format(2)),
    geom_gcn(
        "actor",
        "actor",
        Counts(1, 7600, 30019, 932, 5, 10),
        "Called film in the files and in some papers.",
        key="film",
    ),
    planetoid(
        "Cora",
        Counts(1, 2708, 10556, 1433, 7, 1),
        KINDS,
        "Geom-GCN's splits cover 2,485 of the 2,708 nodes.",
    ),
    planetoid(
        "CiteSeer",
        Counts(1, 3327, 9104, 3703, 6, 1),
        KINDS,
        "Of Geom-GCN's splits, the fifth and the sixth cover only 2,120 of the 3,327 nodes.",
    ),
    planetoid("PubMed", Counts(1, 19717, 88648, 500, 3, 1), KINDS),
    heterophilous("minesweeper", Counts(1, 10000, 78804, 7, 2, 10), IMBALANCED, metric="roc_auc"),
    heterophilous(
        "roman_empire",
        Counts(1, 22662, 65854, 300, 18, 10),
        "Close to a chain: its diameter is 6,824.",
    ),
    heterophilous(
        "amazon_ratings",
        Counts(1, 24492, 186100, 300, 5, 10),
        "The classes are ratings; accuracy ignores their order.",
    ),
    heterophilous("tolokers", Counts(1, 11758, 1038000, 10, 2, 10), IMBALANCED, metric="roc_auc"),
    heterophilous("questions", Counts(1, 48921, 307080, 301, 2, 10), IMBALANCED, metric="roc_auc"),
    ppi(
        "ppi",
        "Published numbers of IGNN and MGNNI are those of the best epoch on the test graphs.",
        licence=NOT_STATED,
        source="Hamilton et al. 2017, as packed in data.dgl.ai/dataset/ppi.zip",
    ),
    ppi(
        "ppi-recon",
        "The labels are reconstructed: about 98.9 % agree with the released ones. Numbers are "
        "close to those on ppi, but not comparable.",
        licence="CC-BY-4.0 (annotations, gene sets); not stated (graphs)",
        source="graphs of Hamilton et al. 2017, labels rebuilt from Gene Ontology annotations",
        remedy="use ppi, which is downloaded",
    ),
    tu("MUTAG", Counts(188, 3371, 7442, 7, 2, 10), FEW.format("18 test graphs", 5.6), FOLD_MAX),
    tu(
        "PTC",
        Counts(344, 8792, 17862, 19, 2, 10),
        "The PTC of the GIN paper, with 25.56 nodes per graph; it is not PTC_MR, with 14.29.",
        FOLD_MAX,
        licence="MIT",
        source=GIN,
        remedy="take PTC from dataset.zip of github.com/weihua916/powerful-gnns, as TU files",
    ),
    tu(
        "PTC_MR",
        Counts(344, 4915, 10108, 18, 2, 10),
        "Not the PTC of the GIN paper: that one is ptc, and GIN's folds belong to it.",
        FOLD_MAX,
    ),
    tu("PROTEINS", Counts(1113, 43471, 162088, 3, 2, 10), FOLD_MAX),
    tu("NCI1", Counts(4110, 122747, 265506, 37, 2, 10), FOLD_MAX),
    tu("IMDB-BINARY", Counts(1000, 19773, 193062, 1, 2, 10), DEGREE, FOLD_MAX, node_labels=False),
    tu("IMDB-MULTI", Counts(1500, 19502, 197806, 1, 3, 10), DEGREE, FOLD_MAX, node_labels=False),
    synthetic(
        "chains",
        Counts(1, 4000, 3960, 100, 2, 1),
        SAME_CHAINS,
        after="Gu et al. 2020 and Liu et al. 2021",
    ),
    synthetic(
        "colors",
        Counts(1, 2000, 3920, 50, 2, 1),
        SAME_CHAINS,
        "The authors add self-loops twice: once to the data (self_loops=True), once as all models "
        "do. They colour the first ten nodes; the paper says some nodes (places='anywhere').",
        after="Liu et al. 2022",
    ),
    synthetic(
        "lattice",
        Counts(1, 4096, 16384, 1, 2, 1),
        "Long-range by proof: mgnni.data.lattice.lattice_error gives the smallest error of any "
        "model that sees r hops. Without noise, 100 % is possible.",
        after="the long-range Ising benchmark LRIM (2026); inputs are normal, so that the best "
        "errors are known",
    ),
)
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _ALL}


def benchmark_named(name: object) -> str | None:
    """Returns the name of a dataset, ignoring case and underscores; None if there is none."""
    plain = name.lower().replace("_", "-") if isinstance(name, str) else ""
    return plain if plain in ENTRIES else None


def find_entry(name: str) -> Entry:
    """Returns the entry of a dataset, or raises an error that suggests the closest name."""
    return ENTRIES[check_choice("dataset", benchmark_named(name) or name, ENTRIES)]
