"""Public functions and classes that take or return tensors document arguments and shapes."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "mgnni"
REQUIRED = 0.95  # fraction of them that must be documented
FIELDS_ARE_DOCUMENTED_IN_PLACE = {"Protocol", "NamedTuple", "Enum"}

Definition = ast.FunctionDef | ast.ClassDef


def parameters(function: ast.FunctionDef) -> dict[str, str]:
    """Return the name and annotation of each parameter."""
    found = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return {
        one.arg: ast.unparse(one.annotation) if one.annotation else ""
        for one in found
        if one.arg not in ("self", "cls")
    }


def methods(definition: ast.ClassDef, *names: str) -> list[ast.FunctionDef]:
    return [
        one for one in definition.body if isinstance(one, ast.FunctionDef) and one.name in names
    ]


def arguments(definition: Definition) -> dict[str, str]:
    """Return the arguments of a function or constructor, or the fields of a dataclass."""
    if isinstance(definition, ast.FunctionDef):
        return parameters(definition)
    for constructor in methods(definition, "__init__"):
        return parameters(constructor)
    return {
        ast.unparse(one.target): ast.unparse(one.annotation)
        for one in definition.body
        if isinstance(one, ast.AnnAssign)
    }


def uses_tensors(definition: Definition) -> bool:
    """Whether a function, or a class when built or called, takes or returns tensors."""
    called = [definition]
    if isinstance(definition, ast.ClassDef):
        if FIELDS_ARE_DOCUMENTED_IN_PLACE & {ast.unparse(base) for base in definition.bases}:
            return False
        called = methods(definition, "forward", "__call__")
    types = list(arguments(definition).values())
    for function in called:
        types += [*parameters(function).values(), ast.unparse(function.returns or ast.Constant(0))]
    return any("Tensor" in one for one in types)


def missing(source: str, definition: Definition) -> list[str]:
    """Return what a definition does not document."""
    doc = ast.get_docstring(definition) or ""
    code = ast.get_source_segment(source, definition) or ""
    shape_comment = re.search(r"#.*\bshape: ", code)
    names = arguments(definition)
    found = []
    commented = isinstance(definition, ast.ClassDef) and shape_comment  # fields of a dataclass
    if not re.search(r"^(Args|Attributes):$", doc, re.M):
        if names and not commented:
            found.append("Args")
    else:
        tensors = [name for name, kind in names.items() if "Tensor" in kind]
        found += [
            f"Args: {one}" for one in tensors if not re.search(rf"^ +{one}( \(|:)", doc, re.M)
        ]
    shape_text = re.search(r"^Shapes:$|\bshapes?\b", doc, re.M | re.I)
    if not (shape_text or "``(" in doc or shape_comment):
        found.append("Shapes")
    return found


def undocumented(package: Path) -> tuple[int, list[str]]:
    """Return the number of definitions that use tensors, and those without documentation."""
    count, found = 0, []
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for definition in ast.parse(source).body:
            if not isinstance(definition, Definition) or definition.name.startswith("_"):
                continue
            if uses_tensors(definition):
                count += 1
                if absent := missing(source, definition):
                    where = f"{path.relative_to(package)}:{definition.lineno} {definition.name}"
                    found.append(f"{where} ({', '.join(absent)})")
    return count, found


def test_functions_with_tensors_document_arguments_and_shapes() -> None:
    count, found = undocumented(PACKAGE)
    assert count > 100, f"only {count} functions and classes with tensors under {PACKAGE}"
    listed = "\n".join(found)
    assert count - len(found) >= REQUIRED * count, f"{len(found)} of {count} lack:\n{listed}"


DOCUMENTED = '''
def scale(x: Tensor, factor: float) -> Tensor:
    """Scales the features.

    Args:
        x (Tensor): The features.
        factor (float): The factor.

    Shapes:
        - **x, output:** ``(num_nodes, channels)``
    """


class Pair:
    """Two tensors."""

    left: Tensor  # shape: (rows,)
    right: Tensor  # shape: (rows,)


def _private(x: Tensor) -> Tensor: ...


def without_tensors(x: int) -> int: ...
'''


def test_the_docstring_check_itself(tmp_path: Path) -> None:
    def check(source: str) -> tuple[int, list[str]]:
        (tmp_path / "module.py").write_text(source)
        return undocumented(tmp_path)

    assert check(DOCUMENTED) == (2, [])
    for removed, expected in {
        "    Args:\n": "module.py:2 scale (Args)",
        "        x (Tensor): The features.\n": "module.py:2 scale (Args: x)",
        "    Shapes:\n        - **x, output:** ``(num_nodes, channels)``\n": (
            "module.py:2 scale (Shapes)"
        ),
    }.items():
        assert removed in DOCUMENTED
        assert check(DOCUMENTED.replace(removed, "")) == (2, [expected])
    count, found = check(DOCUMENTED.replace("  # shape: (rows,)", ""))
    assert count == 2
    assert len(found) == 1
    assert found[0].endswith("Pair (Args, Shapes)")
