"""Definitions of experiments for tests."""

import json
from pathlib import Path
from typing import Any


def write_definition(file: Path, **fields: Any) -> None:
    """Writes an experiment; rows and columns are named ``gcn`` and ``red`` unless given."""
    usual = {"title": "", "paper": "", "columns": [{"name": "red"}], "rows": [{"name": "gcn"}]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**usual, **fields}))
