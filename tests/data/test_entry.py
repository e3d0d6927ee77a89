from __future__ import annotations

from pathlib import Path

from mgnni.data.entry import Counts, Entry


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
