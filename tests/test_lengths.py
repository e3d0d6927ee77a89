"""One idea a file: none is longer than can be read in one sitting."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "mgnni"


def too_long(folder: Path, limit: int = 300) -> dict[str, int]:
    """Return the files of more than ``limit`` lines, with their lengths."""
    lengths = {
        str(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in folder.rglob("*.py")
    }
    return {path: length for path, length in lengths.items() if length > limit}


def test_no_file_is_too_long() -> None:
    assert list(PACKAGE.rglob("*.py")), f"no Python files under {PACKAGE}"
    assert not too_long(PACKAGE), "more than 300 lines: find the second idea and give it a file"


def test_the_length_check_itself(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "short.py").write_text("x = 1\n" * 300)
    (tmp_path / "inner" / "long.py").write_text("x = 1\n" * 301)
    assert too_long(tmp_path) == {str(tmp_path / "inner" / "long.py"): 301}
