"""Code in the README and in docs runs: every block after a `<!-- run -->` line, in order."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from torch_geometric.nn import Sequential

import mgnni
import mgnni.range
from mgnni.cli.app import COMMANDS
from mgnni.reproduce.definitions import ORDER, study_names

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [
    page
    for page in (README, *sorted((ROOT / "docs").glob("*.md")))
    if "<!-- run -->" in page.read_text("utf-8")
]


def code_blocks(text: str) -> list[str]:
    """Return the python blocks that follow a ``<!-- run -->`` line, in order.

    Each is padded with blank lines, so that an error names the line of the whole text.
    """
    blocks = []
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if line.strip() != "<!-- run -->":
            continue
        start, fence = next(lines, (number, ""))
        if fence.strip() != "```python":
            raise ValueError(f"line {number}: '<!-- run -->' must be followed by a ```python block")
        body = itertools.takewhile(lambda item: item[1].strip() != "```", lines)
        blocks.append("\n" * start + "\n".join(line for _, line in body))
    return blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what the code writes does not stay
    # PyG's Sequential replaces `forward` of its class, which would affect later tests.
    monkeypatch.setattr(Sequential, "forward", Sequential.forward)
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in code_blocks(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


def test_the_readme_and_the_guides_have_code_that_runs() -> None:
    pages = {"README.md", "data.md", "evaluation.md", "models.md", "training.md"}
    assert pages <= {page.name for page in PAGES}


def test_the_quick_start_is_short() -> None:
    quick_start = code_blocks(README.read_text(encoding="utf-8"))[0]
    length = sum(bool(line.strip()) for line in quick_start.splitlines())
    assert length <= 12, f"the quick start has {length} lines that are not blank; at most 12"


def test_blocks_are_found_in_order() -> None:
    text = (
        "<!-- run -->\n```python\na = 1\n\nb = 2\n```\n"
        "```python\nskipped\n```\n"
        "<!-- run -->\n```python\nc = a\n```\n"
    )
    first, second = code_blocks(text)
    assert first.splitlines() == ["", "", "a = 1", "", "b = 2"]
    assert second.splitlines() == [""] * 11 + ["c = a"]


def shell_commands(text: str) -> list[str]:
    """Return the ``mgnni`` commands in the shell blocks, without comments and torchrun."""
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)
    text = "".join(blocks).replace("\\\n", "")
    lines = [re.sub(r" #.*|\$resume", "", line) for line in text.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&") if "mgnni " in part]
    return [re.sub(r"^(srun )?torchrun .* -m ", "", part) for part in parts]


@pytest.mark.parametrize(
    "page", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_the_commands_on_a_page_exist_with_their_options(page: Path) -> None:
    for command in shell_commands(page.read_text("utf-8")):
        # A file of another training cannot be read here.
        words = shlex.split(re.sub(r"--(preset|config) \S+\.json", "", command))
        if words[0] != "mgnni" or words[1] not in COMMANDS:
            assert words[0] in ("pip", ".venv/bin/mgnni"), command
            continue
        args = [word for word in words[2:] if word != "--help"]
        COMMANDS[words[1]].parser(args).parse(args)


def test_the_map_of_the_paper_has_its_tables_and_only_names_that_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text("utf-8")
    assert set(ORDER) <= set(re.findall(r"`mgnni reproduce ([a-z-]+)`", text)) <= set(study_names())
    for name in re.findall(r"`mgnni\.range\.(\w+)`", text):
        assert hasattr(mgnni.range, name)
    known = ("solve_equilibrium", "normalized_gram", "MultiscaleEquilibrium", "ScaleAttention")
    for name in (*known, "MGNNI", "Propagation"):
        assert f"`{name}`" in text
        assert hasattr(mgnni, name)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize(
    "page",
    [
        README,
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ],
    ids=lambda page: page.name,
)
def test_links_between_pages_work(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: no file {path}"
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), f"{page.name}: no {path}#{anchor}"


@pytest.mark.parametrize("after", ["", "\n```python\na = 1\n```", "```bash\nls\n```"])
def test_a_marker_without_a_python_block_is_refused(after: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: .* must be followed by"):
        code_blocks("Text.\n<!-- run -->\n" + after)
