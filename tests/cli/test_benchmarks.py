"""Names of benchmarks, and options of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mgnni.cli.benchmarks import benchmark_options, check_exists
from mgnni.cli.errors import UsageError
from mgnni.data.catalog import benchmark_named


@pytest.mark.parametrize(
    ("name", "meant"),
    [("texas", "texas"), ("IMDB_BINARY", "imdb-binary"), ("texs", None), ("./texas", None)],
)
def test_a_benchmark_is_known_in_any_case(name: str, meant: str | None) -> None:
    assert benchmark_named(name) == meant


def test_what_is_nowhere_is_refused(tmp_path: Path) -> None:
    check_exists("texas")
    check_exists(str(tmp_path))
    with pytest.raises(UsageError, match=r"neither a benchmark \(did you mean chameleon\?\) nor"):
        check_exists("Chamaeleon")
    with pytest.raises(UsageError, match="neither a benchmark nor a path"):
        check_exists(str(tmp_path / "xyz"))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        *(("length=80", 80), ("fraction=0.5", 0.5), ("directed=true", True), ("a=False", False)),
        *(("a=none", None), ("split=geom-gcn", "geom-gcn"), ("a=", ""), ("a=b=c", "b=c")),
        ("a=(1, 2)", (1, 2)),
    ],
)
def test_a_value_is_a_literal_or_a_word(pair: str, value: Any) -> None:
    (found,) = benchmark_options([pair]).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("pairs", [["length"], ["=3"], ["a=1", "a=2"]])
def test_a_pair_that_is_none_is_refused(pairs: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--option must .*\(got"):
        benchmark_options(pairs)
