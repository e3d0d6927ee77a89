"""The notebooks in examples: their code runs and prints what is stored; Jupyter is not needed."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="pip install 'mgnni[cli]'")

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
ID = re.compile(r"\b[a-z]+-\d\d\b")  # of a node; which one is first may depend on rounding


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def run(source: str, namespace: dict[str, Any]) -> str:
    """Run a cell as a notebook does; return what it prints, and the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        value = (
            None
            if last is None
            else eval(compile(ast.Expression(last.value), "", "eval"), namespace)
        )
    return printed.getvalue() + ("" if value is None or "print" in source else f"{value!r}\n")


def stored(cell: dict[str, Any]) -> str:
    """The text among the outputs of a cell, without figures."""
    texts = []
    for output in cell["outputs"]:
        figure = "image/png" in output.get("data", {})
        text = output.get("text") or ("" if figure else output["data"]["text/plain"])
        texts.append("".join(text))
    return "\n".join(texts)


def wording(text: str) -> list[str]:
    return NUMBER.sub("#", ID.sub("ID", text)).split()


def test_both_notebooks_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["own_graph", "own_model"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_print_what_is_stored(path, tmp_path, monkeypatch):
    shutil.copytree(EXAMPLES / "club", tmp_path / "club")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    for place, cell in enumerate(cells, 1):
        printed = run("".join(cell["source"]), namespace)
        expected = stored(cell)
        assert wording(printed) == wording(expected), f"cell {place}: examples/run_notebooks.py"
        for now, then in zip(scores(printed), scores(expected), strict=True):
            assert now == pytest.approx(then, abs=0.06), f"cell {place}"
    matplotlib.pyplot.close("all")


def scores(text: str) -> list[float]:
    """Test scores, which are nearly the same on every machine."""
    return [float(one) for one in re.findall(r"test (?:accuracy|ROC-AUC) ([\d.]+)", text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_from_top_to_bottom_and_is_small(path):
    notebook = read(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert all(output.get("name") != "stderr" for output in outputs)
    assert {output["output_type"] for output in outputs} <= {
        *("stream", "execute_result", "display_data")
    }
    text = json.dumps([one for output in outputs for one in output.items() if one[0] != "data"])
    text += "".join(stored(cell) for cell in cells)
    assert not re.search(r"(?<![\w.])/\w+/\w|[A-Z]:\\", text), "a path of a machine"
    assert "Warning" not in text
    assert path.stat().st_size < 60_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_work(path):
    for cell in read(path)["cells"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", "".join(cell["source"])):
            if cell["cell_type"] == "markdown":
                assert (path.parent / target).exists(), target
