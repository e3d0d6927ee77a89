"""The layers of the package, and what `import mgnni` must not need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "mgnni"

# Every layer may import the layers before it.
LAYERS = [
    "errors",
    "kernels",
    "graph",
    "distributed",
    "solve",
    "implicit",
    "layers",
    "models",
    "train",
    "html_report",
    "bench",
]

MAY_IMPORT: dict[str, set[str]] = {
    "files": {"errors"},
    "figures": set(),
    "version": set(),
    "plain_data": {"errors"},
    "data": {"errors", "figures", "files", "plain_data"},
    **{name: set(LAYERS[:place]) for place, name in enumerate(LAYERS)},
}
MAY_IMPORT["kernels"] |= {"files"}
MAY_IMPORT["range"] = set(LAYERS[: LAYERS.index("train")])
MAY_IMPORT["disk"] = set(LAYERS[: LAYERS.index("implicit")]) | {"files"}
MAY_IMPORT["train"] |= {"data", "disk", "files", "plain_data", "version"}
MAY_IMPORT["html_report"] |= {"data", "files", "reproduce", "version"}
MAY_IMPORT["bench"] |= {"data"}
MAY_IMPORT["explain"] = MAY_IMPORT["train"] | {"figures", "range", "train"}
MAY_IMPORT["export"] = MAY_IMPORT["train"] | {"train"}
MAY_IMPORT["serve"] = {"graph", "implicit"}
MAY_IMPORT["plan"] = MAY_IMPORT["bench"] | {"bench", "disk", "train"}
MAY_IMPORT["reproduce"] = MAY_IMPORT["train"] | {"figures", "range", "train"}
MAY_IMPORT_EVERYTHING = {"__init__", "__main__", "cli"}

# Used by the command line only: the library works, and starts fast, without them.
OPTIONAL = (
    *("docstring_parser", "rich", "matplotlib", "pyarrow", "lightning_fabric", "optuna"),
    *("plotly", "pymetis"),
)


def imported_parts(path: Path, root: str) -> set[str]:
    """Returns the parts of ``root`` that the file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: use absolute imports"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        # `import mgnni` is an import of all its parts, and is reported as `mgnni`.
        found |= {[*name.split("."), root][1] for name in names if name.split(".")[0] == root}
    return found


def check_layers(package: Path) -> None:
    """Fails on the first file that imports a layer above its own."""
    for path in sorted(package.rglob("*.py")):
        layer = path.relative_to(package).parts[0].removesuffix(".py")
        imported = imported_parts(path, package.name)
        if layer in MAY_IMPORT_EVERYTHING:
            continue
        assert layer in MAY_IMPORT, f"{path}: add '{layer}' to LAYERS or MAY_IMPORT"
        extra = imported - MAY_IMPORT[layer] - {layer}
        assert not extra, (
            f"{path}: '{layer}' may import {sorted(MAY_IMPORT[layer])}, not {sorted(extra)}"
        )


def test_imports_point_to_lower_layers() -> None:
    check_layers(PACKAGE)


def test_layers_do_not_import_one_another_in_a_cycle() -> None:
    placed: set[str] = set()
    while placed != set(MAY_IMPORT):
        ready = {layer for layer, below in MAY_IMPORT.items() if below <= placed}
        assert ready > placed, f"a cycle among {sorted(set(MAY_IMPORT) - placed)}"
        placed = ready


@pytest.mark.parametrize(
    ("file", "line", "allowed"),
    [
        ("solve/picard.py", "from mgnni.errors import ConvergenceError", True),
        ("solve/picard.py", "from mgnni.solve.loop import solve", True),
        ("solve/picard.py", "import torch", True),
        ("solve/picard.py", "import mgnni_other.graph", True),
        ("solve/picard.py", "from mgnni.graph.operator import Propagation", True),
        ("solve/picard.py", "from mgnni.implicit.linear import equilibria", False),
        ("solve/picard.py", "def f():\n    import mgnni.implicit.linear", False),
        ("graph/operator.py", "from mgnni.solve.picard import solve", False),
        ("solve/picard.py", "from mgnni import models", False),
        ("solve/picard.py", "from mgnni import MGNNI", False),
        ("solve/picard.py", "import mgnni", False),
        ("solve/picard.py", "from ..graph import operator", False),
        ("solve/picard.py", "from . import loop", False),
        ("errors.py", "from mgnni.solve import picard", False),
        ("implicit/linear.py", "from mgnni.graph.operator import Propagation", True),
        ("models/mgnni.py", "from mgnni.train.loop import fit", False),
        ("models/mgnni.py", "from mgnni.data.nodes import planetoid", False),
        ("data/nodes.py", "from mgnni.graph.operator import Propagation", False),
        ("train/loop.py", "from mgnni.data.nodes import planetoid", True),
        ("cli.py", "from mgnni.train.loop import fit", True),
        ("cli.py", "from .train import loop", False),
        ("misc.py", "import torch", False),
    ],
)
def test_the_layer_check_itself(tmp_path: Path, file: str, line: str, allowed: bool) -> None:
    path = tmp_path / "mgnni" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")
    if allowed:
        check_layers(tmp_path / "mgnni")
    else:
        with pytest.raises(AssertionError, match=path.name):
            check_layers(tmp_path / "mgnni")


def run_fresh(code: str) -> None:
    """Runs the code in a new interpreter, and shows its output if it fails."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_import_loads_nothing_optional() -> None:
    run_fresh(
        "import sys, mgnni\n"
        f"loaded = [name for name in {OPTIONAL} if name in sys.modules]\n"
        "sys.exit(f'import mgnni also imports {loaded}' if loaded else 0)"
    )


def test_import_needs_nothing_optional() -> None:
    run_fresh(f"import sys\nsys.modules.update(dict.fromkeys({OPTIONAL}))\nimport mgnni")
