"""The list of planted bugs fits the present source; run.py plants them."""

import ast
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("tomllib, which reads the list, is new in Python 3.11", allow_module_level=True)

from planted.run import ROOT, Bug, load

BUGS = load()
PARTS = {"solve", "implicit", "graph", "layers", "models", "data", "train", "range", "bench", "cli"}


def functions(path: Path) -> set[str]:
    """Names of all functions in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_bug_can_be_planted_in_the_present_source():
    problems = {bug.id: bug.problem(ROOT) for bug in BUGS}
    assert {key: found for key, found in problems.items() if found is not None} == {}


def test_the_tests_listed_for_every_bug_exist():
    listed = {test for bug in BUGS for test in bug.tests}
    assert all(bug.tests for bug in BUGS)
    assert {test for test in listed if not (ROOT / test.partition("::")[0]).is_file()} == set()
    by_name = [test.split("::") for test in listed if "::" in test]
    known = {path: functions(ROOT / path) for path, _ in by_name}
    missing = [name for path, name in by_name if name.partition("[")[0] not in known[path]]
    assert missing == []


def test_the_list_is_long_and_covers_every_part_of_the_library():
    assert len(BUGS) >= 80
    assert {Path(bug.file).relative_to("src/mgnni").parts[0] for bug in BUGS} >= PARTS
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    assert all(bug.why.endswith(".") for bug in BUGS)


def test_planting_replaces_the_occurrence_asked_for_and_no_other(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    ambiguous = Bug("b", "a.py", "= 1", "= 2", "Wrong.", ("t",))
    assert ambiguous.problem(tmp_path) == "text found 2 times; set nth"
    absent = Bug("b", "a.py", "= 3", "= 2", "Wrong.", ("t",))
    assert absent.problem(tmp_path) == "text not found"
    second = Bug("b", "a.py", "= 1", "= 2", "Wrong.", ("t",), nth=2)
    assert second.problem(tmp_path) is None
    second.plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 2\n"
