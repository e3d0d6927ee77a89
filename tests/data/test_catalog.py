from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from torch_geometric import datasets

from mgnni.data.catalog import ENTRIES, find_entry
from mgnni.data.entry import Counts, Entry
from mgnni.data.metric_names import METRICS
from mgnni.errors import ArgumentError

NAMES = """
    cornell texas wisconsin cornell-fixed chameleon squirrel chameleon-filtered squirrel-filtered
    actor cora citeseer pubmed minesweeper roman-empire amazon-ratings tolokers questions
    ppi ppi-recon mutag ptc ptc-mr proteins nci1 imdb-binary imdb-multi chains colors
    lattice
""".split()


def test_every_name_is_there() -> None:
    assert list(ENTRIES) == NAMES


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=NAMES)
def test_an_entry_is_complete(entry) -> None:
    assert find_entry(entry.name) is entry
    assert entry.level == ("graph" if entry.family == "tu" else "node")
    assert entry.metric in METRICS
    assert None not in entry.counts
    assert entry.licence
    assert entry.source
    for line in (*entry.traps, entry.remedy):
        assert "\n" not in line
    assert entry.traps
    if entry.family == "synthetic":
        assert (entry.place, entry.copies) == ("", ())
    else:
        files = [file for copy in entry.copies for file in copy]
        assert files
        assert all(file.startswith(entry.place) for file in files)


def test_only_these_have_no_download() -> None:
    assert {name for name, entry in ENTRIES.items() if entry.remedy} == {"ppi-recon", "ptc"}


@pytest.mark.parametrize(
    ("asked", "name"),
    [("Texas", "texas"), ("IMDB_BINARY", "imdb-binary"), ("PTC_MR", "ptc-mr"), ("NCI1", "nci1")],
)
def test_names_are_found_in_any_dress(asked: str, name: str) -> None:
    assert find_entry(asked).name == name


@pytest.mark.parametrize(("asked", "near"), [("corra", "cora"), ("colours", "colors")])
def test_a_wrong_name_gets_the_nearest(asked: str, near: str) -> None:
    with pytest.raises(ArgumentError, match=rf"\(got '{asked}'\); did you mean '{near}'\?"):
        find_entry(asked)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'dataset' must be one of .* \(got 3\)"):
        find_entry(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "table", "row", "directions"),
    [
        ("cornell", "WebKB", "Cornell", 1),
        ("texas", "WebKB", "Texas", 1),
        ("wisconsin", "WebKB", "Wisconsin", 1),
        ("cora", "Planetoid", "Cora", 1),
        ("citeseer", "Planetoid", "CiteSeer", 1),
        ("pubmed", "Planetoid", "PubMed", 1),
        ("minesweeper", "HeterophilousGraphDataset", "Minesweeper", 2),
        ("roman-empire", "HeterophilousGraphDataset", "Roman-empire", 2),
        ("amazon-ratings", "HeterophilousGraphDataset", "Amazon-ratings", 2),
        ("tolokers", "HeterophilousGraphDataset", "Tolokers", 2),
        ("questions", "HeterophilousGraphDataset", "Questions", 2),
    ],
)
def test_counts_are_those_that_pyg_documents(
    name: str, table: str, row: str, directions: int
) -> None:
    cells = rf"\* - {row}" + r"\s+- ([\d,]+)" * 4
    found = re.search(cells, getattr(datasets, table).__doc__)
    assert found
    nodes, edges, features, classes = (int(cell.replace(",", "")) for cell in found.groups())
    counts = ENTRIES[name].counts
    assert counts[:5] == (1, nodes, directions * edges, features, classes)


def test_the_catalog_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from mgnni.data.catalog import ENTRIES\n"
        "slow = [name for name in ('torch', 'numpy', 'torch_geometric') if name in sys.modules]\n"
        "sys.exit(f'imports {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def entry(place: str, *copies: tuple[str, ...]) -> Entry:
    return Entry(
        name="mine",
        family="webkb",
        key="mine",
        counts=Counts(1, 2, 3, 4, 5, 6),
        licence="MIT",
        source="me",
        place=place,
        copies=copies,
    )


def test_it_is_on_disk_if_one_copy_is_whole(tmp_path: Path) -> None:
    either = entry("place", ("place/a", "place/b"), ("place/c",))
    (tmp_path / "place").mkdir()
    assert not either.on_disk(tmp_path)
    (tmp_path / "place" / "a").touch()
    assert not either.on_disk(tmp_path)
    (tmp_path / "place" / "b").mkdir()
    assert not either.on_disk(tmp_path), "a folder is no file"
    (tmp_path / "place" / "c").touch()
    assert either.on_disk(tmp_path)


def test_what_is_made_in_code_needs_no_disk(tmp_path: Path) -> None:
    assert entry("").on_disk(tmp_path / "nowhere")
