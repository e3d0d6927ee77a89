"""Run the commands in docs/first_hour.md, and write what they print below them.

    python docs/make_first_hour.py

A test runs the commands too, and compares what they print with the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from mgnni.cli import main as mgnni

PAGE = Path(__file__).with_name("first_hour.md")
EXAMPLES = PAGE.parents[1] / "examples"
BLOCK = re.compile(r"```console\n(.*?)```\n", re.DOTALL)


class Step(NamedTuple):
    """A command on the page, and what it prints."""

    command: str
    output: str


def steps(text: str) -> list[Step]:
    """Return the commands of all ``console`` blocks, in order."""
    found = []
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Step(command, output))
    return found


def run(command: str) -> str:
    """Run a command in the current folder, and return its standard output."""
    name, *words = command.split()
    if name != "mgnni":  # a tool of the shell
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        return done.stdout
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = mgnni(words)
    if status != 0:
        raise RuntimeError(f"{command} has failed: {err.getvalue()}")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def prepare(folder: Path) -> None:
    """Copy the sample files to where a reader finds them."""
    shutil.copytree(EXAMPLES / "club", folder / "examples" / "club")


def render(text: str) -> str:
    """Return the page with what its commands print now."""

    def again(block: re.Match[str]) -> str:
        shown = [f"$ {one.command}\n{run(one.command)}" for one in steps(block[0])]
        return "```console\n" + "\n".join(shown) + "```\n"

    return BLOCK.sub(again, text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place))
        os.chdir(place)
        new = render(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(new, encoding="utf-8")
