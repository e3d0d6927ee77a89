"""What works without pyarrow, and what is said where it does not."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["pyarrow"] = None
import torch
from pathlib import Path
from torch_geometric.datasets import KarateClub
from mgnni.data.tables.read import from_pyg
from mgnni.data.tables.read import read_graphs
from mgnni.errors import DataError
assert from_pyg(KarateClub()[0]).graphs[0].num_nodes == 34
try:
    read_graphs(Path("."))
except DataError as error:
    assert "pip install 'mgnni[files]'" in str(error), error
else:
    sys.exit("a folder of tables was read without pyarrow")
"""


def test_only_tables_need_pyarrow() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
