"""A table as plain data: what was measured, with what, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import torch

from mgnni.bench.row import Errors, Row
from mgnni.bench.settings import Settings
from mgnni.bench.tables import TABLES
from mgnni.train.report import commit, device_name, versions

FORMAT = 1


def stored(name: str, rows: Sequence[Row], settings: Settings) -> dict[str, Any]:
    """Return all that is worth keeping of a table."""
    return {
        "format": FORMAT,
        "command": "bench",
        "table": name,
        "title": TABLES[name].title,
        "device": device_name(settings.device),
        "threads": torch.get_num_threads(),
        "quick": settings.quick,
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": [_plain(row) for row in rows],
    }


def _plain(row: Row) -> dict[str, Any]:
    data = asdict(row)
    for key in ("errors", "claim"):
        value: Errors | None = getattr(row, key)
        data[key] = None if value is None else value._asdict()
    return data
