from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.utils import is_undirected

from data.raw import EDGES, expect, write_geom_gcn
from mgnni.data.catalog import ENTRIES
from mgnni.data.chains import class_chains, color_chains
from mgnni.data.entry import Counts
from mgnni.data.registry import LOADERS, MAKERS, counts, load_task, options_of
from mgnni.data.task import all_labels
from mgnni.errors import ArgumentError, DataError

DOWNLOADED = [name for name, entry in ENTRIES.items() if entry.place]

# Published counts of what is on the disk (graphs, nodes, edges, features, classes, splits), and
# the sizes of training, validation and test where all splits have the same.
REAL: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "cornell": ((1, 183, 298, 1703, 5, 10), (87, 59, 37)),
    "texas": ((1, 183, 325, 1703, 5, 10), (87, 59, 37)),
    "wisconsin": ((1, 251, 515, 1703, 5, 10), (120, 80, 51)),
    "cornell-fixed": ((1, 183, 554, 1703, 5, 10), (87, 59, 37)),
    "chameleon": ((1, 2277, 36101, 2325, 5, 10), (1092, 729, 456)),
    "squirrel": ((1, 5201, 217073, 2089, 5, 10), (2496, 1664, 1041)),
    "chameleon-filtered": ((1, 890, 13584, 2325, 5, 10), None),
    "squirrel-filtered": ((1, 2223, 65718, 2089, 5, 10), None),
    "actor": ((1, 7600, 30019, 932, 5, 10), (3648, 2432, 1520)),
    "cora": ((1, 2708, 10556, 1433, 7, 1), (140, 500, 1000)),
    "citeseer": ((1, 3327, 9104, 3703, 6, 1), (120, 500, 1000)),
    "minesweeper": ((1, 10000, 78804, 7, 2, 10), (5000, 2500, 2500)),
    "ppi-recon": ((24, 56944, 1587264, 50, 121, 1), (20, 2, 2)),
    "mutag": ((188, 3371, 7442, 7, 2, 10), None),
    "ptc": ((344, 8792, 17862, 19, 2, 10), None),
    "ptc-mr": ((344, 4915, 10108, 18, 2, 10), None),
    "proteins": ((1113, 43471, 162088, 3, 2, 10), None),
    "nci1": ((4110, 122747, 265506, 37, 2, 10), None),
    "imdb-binary": ((1000, 19773, 193062, 1, 2, 10), None),
    "imdb-multi": ((1500, 19502, 197806, 1, 3, 10), None),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_counts(real: Path, name: str) -> None:
    expected, sizes = REAL[name]
    task = load_task(name, root=real)
    assert counts(task) == expected == ENTRIES[name].counts
    assert ENTRIES[name].on_disk(real)
    assert (task.level, task.metric) == (ENTRIES[name].level, ENTRIES[name].metric)
    assert task.notes[: len(ENTRIES[name].traps)] == ENTRIES[name].traps
    for split in task.splits:
        found = (split.train.numel(), split.val.numel(), split.test.numel())
        assert sizes in (None, found)
        everything = torch.cat([split.train, split.val, split.test])
        assert everything.unique().numel() == everything.numel() <= task.num_units


@pytest.mark.parametrize("name", ["chains", "colors", "lattice"])
def test_the_counts_of_what_is_made(name: str) -> None:
    assert counts(load_task(name)) == ENTRIES[name].counts


def test_every_family_has_a_loader_and_every_loader_a_family() -> None:
    families = {entry.family for entry in ENTRIES.values()}
    assert families == {*LOADERS, "synthetic"}
    assert {name for name, entry in ENTRIES.items() if entry.family == "synthetic"} == set(MAKERS)


@pytest.mark.parametrize("name", DOWNLOADED)
@pytest.mark.usefixtures("offline")
def test_without_a_network_one_line_says_what_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        load_task(name, root=tmp_path)
    message = str(caught.value)
    entry = ENTRIES[name]
    assert message.startswith(f"{name}: not found in {tmp_path / entry.place}, and ")
    said = "there is no download" if entry.remedy else "the download failed (OSError: no network)"
    assert said in message
    assert message.endswith(f"set MGNNI_DATA=FOLDER to a folder with {entry.place}")
    assert "\n" not in message
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4)
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path))
    assert load_task("TEXAS").num_rows == 4


@pytest.mark.parametrize("undirected", [None, False, True])
def test_direction_is_kept_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undirected: bool | None
) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4, edges=5)
    task = load_task("texas", root=tmp_path, undirected=undirected)
    edges = {tuple(edge) for edge in task.graphs[0].edge_index.T.tolist()}
    reverse = {(b, a) for a, b in EDGES} if undirected else set()
    assert edges == set(EDGES) | reverse
    assert task.graphs[0].num_edges == len(edges)
    assert len(task.splits) == 10
    assert task.notes == ENTRIES["texas"].traps


def test_the_real_graphs_are_directed_where_they_were(real: Path) -> None:
    directed = {
        name
        for name in ("texas", "cornell-fixed", "squirrel", "chameleon-filtered", "actor", "cora")
        if not is_undirected(load_task(name, root=real).graphs[0].edge_index)
    }
    assert directed == {"texas", "squirrel", "chameleon-filtered", "actor"}
    task = load_task("squirrel", root=real, undirected=True)
    assert is_undirected(task.graphs[0].edge_index)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("texsa", {}, r"'dataset' must be one of .*\(got 'texsa'\); did you mean 'texas'\?"),
        ("texas", {"split": "public"}, r"'texas option' must be one of \['undirected'\] \(got 'sp"),
        ("cora", {"splits": "public"}, r"'cora option' must .*; did you mean 'split'\?"),
        ("chains", {"undirected": True}, r"'chains option' must .*; did you mean 'directed'\?"),
        ("colors", {"noise": 0.1}, r"'colors option' must .*\(got 'noise'\)"),
        ("mutag", {"folds": 5}, r"'mutag option' must be one of \['degree', 'undirected', 'val_"),
        ("texas", {"undirected": "yes"}, r"'undirected' must be True, False or None \(got 'yes'\)"),
    ],
)
def test_what_is_not_known_is_refused(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        load_task(name, root=tmp_path, **options)


def test_options_and_their_defaults() -> None:
    assert options_of(ENTRIES["texas"]) == {"undirected": None}
    assert options_of(ENTRIES["cora"]) == {"split": "public", "undirected": None}
    tu = {"val_fraction": 0.1, "degree": None, "undirected": None}
    assert options_of(ENTRIES["nci1"]) == tu
    chains = options_of(ENTRIES["chains"])
    assert (chains["length"], chains["directed"], chains["num_splits"]) == (100, True, 1)
    assert "undirected" not in chains


@pytest.mark.parametrize(("name", "make"), [("chains", class_chains), ("colors", color_chains)])
def test_a_made_task_is_what_its_maker_makes(name: str, make: Any) -> None:
    options = {"num_chains_per_class": 4, "length": 30, "seed": 9, "directed": True}
    options |= {"num_splits": 3, "split": "shuffle"}
    task, data = load_task(name, **options), make(**options)
    assert torch.equal(task.graphs[0].x, data.x)
    assert torch.equal(task.graphs[0].edge_index, data.edge_index)
    assert torch.equal(all_labels(task), data.y)
    assert len(task.splits) == 3
    for index, split in enumerate(task.splits):
        for part in ("train", "val", "test"):
            mask = data[f"{part}_mask"][:, index]
            assert torch.equal(split.part(part), mask.nonzero().squeeze(1))


def test_an_unknown_count_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas")
    assert counts(load_task("texas", root=tmp_path)) == Counts(1, 4, 5, 3, 2, 10)
    expect(monkeypatch, "texas", classes=3)
    with pytest.raises(DataError, match="expected 3 classes, got 2"):
        load_task("texas", root=tmp_path)
