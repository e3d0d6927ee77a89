"""Every table can be made, and everything in it is right."""

from __future__ import annotations

import json

import pytest

from mgnni.bench import deq
from mgnni.bench.compete import RIVAL
from mgnni.bench.row import ABSENT, RIGHT
from mgnni.bench.settings import Settings
from mgnni.bench.store import stored
from mgnni.bench.tables import TABLES
from mgnni.train.report import to_json


@pytest.mark.parametrize("name", TABLES)
def test_all_rows_are_right(device, name, monkeypatch):
    monkeypatch.setattr(deq, "installed", lambda: False)  # the same with and without it
    settings = Settings(device, quick=True)
    rows = list(TABLES[name].rows(settings))
    verdicts = {(row.case, row.method): row.verdict for row in rows}
    assert len(verdicts) == len(rows), "one row a method and case"
    there = {key: verdict for key, verdict in verdicts.items() if verdict != ABSENT}
    assert set(there.values()) == {RIGHT}, there
    assert all(row.seconds for row in rows if row.verdict == RIGHT)
    for case in {row.case for row in rows}:
        methods = {row.method: row for row in rows if row.case == case}
        mine = [row for method, row in methods.items() if method.startswith("mgnni")]
        assert mine
        if name == "large":  # where the textbook would take minutes
            continue
        assert methods[RIVAL].ratio == 1
        for row in mine:
            if row.method == "mgnni, tf32":  # which claims less, and is held to that above
                continue
            assert row.errors.forward <= max(methods[RIVAL].errors.forward, 1e-6)

    data = json.loads(to_json(stored(name, rows, settings)))
    assert (data["table"], data["quick"]) == (name, True)
    assert {"device", "threads", "versions", "commit", "date"} <= set(data)
    assert data["rows"][0]["errors"].keys() == {"forward", "gradient"}
    assert len(data["rows"]) == len(rows)
