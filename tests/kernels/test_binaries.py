"""The cache of compiled kernels, with a compiler that counts its calls."""

import os

import pytest

from mgnni.kernels.binaries import cache_folder, cached


class Compiler:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return b"binary " * 100


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Compiler()


def found(compiler: Compiler, *depends_on: str, name: str = "sweep.cu") -> int:
    """How often a binary had to be compiled to get it."""
    before = compiler.calls
    assert cached(name, depends_on or ("source", "sm_90", "12"), compiler) == b"binary " * 100
    return compiler.calls - before


def test_a_kernel_is_compiled_once(compiler, tmp_path):
    assert found(compiler) == 1
    assert found(compiler) == 0
    (file,) = cache_folder().iterdir()  # and no draft beside it
    assert cache_folder() == tmp_path / "mgnni" / "kernels"
    assert (file.name.split("-")[0], file.suffix) == ("sweep", ".cubin")


def test_another_source_option_or_version_is_another_kernel(compiler):
    every = [("a", "b", "c"), ("x", "b", "c"), ("a", "x", "c"), ("a", "b", "x"), ("ab", "", "c")]
    assert [found(compiler, *one) for one in every] == [1] * 5
    assert [found(compiler, *one) for one in every] == [0] * 5
    assert found(compiler, *every[0], name="term.cu") == 1


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_kernel_is_compiled_again_and_replaced(compiler, damage):
    found(compiler)
    (file,) = cache_folder().iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3] + b"xxx" if damage is None else damage)
    assert found(compiler) == 1
    assert file.read_bytes() == whole
    assert found(compiler) == 0


def test_a_folder_that_cannot_be_written_is_no_error(compiler, tmp_path):
    (tmp_path / "mgnni").write_text("a file where the folder should be")
    assert found(compiler) == 1
    assert found(compiler) == 1


def test_a_user_without_a_home_has_no_cache(compiler, monkeypatch):
    def no_home(path: str) -> str:
        return path

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", no_home)
    assert found(compiler) == 1
    assert found(compiler) == 1
