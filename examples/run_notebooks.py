"""Runs the notebooks in this folder and stores their outputs.

    pip install nbclient ipykernel
    python examples/run_notebooks.py

Outputs hold no times and no paths, so that running them again changes little.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> None:
    """Run one notebook in its folder, and write it with what its cells print."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONWARNINGS"] = "ignore"  # tqdm misses widgets, which nobody would see here
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}  # the times of the run
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        run(path)
