"""Tables show the published number, ours by its rule, and ours by validation."""

from __future__ import annotations

from typing import Any

from mgnni.reproduce.kinds import KINDS
from mgnni.reproduce.overview import status
from mgnni.reproduce.store import DONE, MISSING, OTHER, Stored
from reproduce.cases import tiny


def report(rule: str, values: list[float], **more: Any) -> dict[str, Any]:
    """A report of one seed; by validation all runs have 40 %."""
    runs = [
        {
            "split": split,
            "seed": 0,
            "epochs": 100,
            "val": {"accuracy": 0.5},
            "test": {"accuracy": value if rule == "validation" else 0.4},
            "reported": {"epoch": 1, "accuracy": value},
        }
        for split, value in enumerate(values)
    ]
    found = {"metric": "accuracy", "protocol": {"rule": rule}, "runs": runs, "device": "cpu"}
    return {**found, **more}


def tables(study, *stored):
    found = dict(zip(study.cells(), stored, strict=True))
    return KINDS[study.kind].tables(study, found, "mgnni reproduce tiny")


def test_both_rules_are_side_by_side():
    study = tiny(rule="fold-max")
    done = Stored(DONE, report("fold-max", [0.5, 0.7]))
    first, places, paired = tables(study, done, done, Stored(MISSING))
    assert first.rows[:5] == [
        ["mgnni", "paper", "99.00 ± 1.00"],
        ["", "ours", "60.00 ± 14.14†"],
        ["", "ours, validation", "40.00 ± 0.00"],
        ["gcn", "ours", "60.00 ± 14.14†"],
        ["", "ours, validation", "40.00 ± 0.00"],
    ]
    assert [row[2:4] + row[-1:] for row in places.rows] == [
        ["fold-max†", "99.00 ± 1.00", "inside"],  # 60 ± 12.7 × 10
        ["validation", "99.00 ± 1.00", "above"],
    ]
    assert paired.rows == [["mgnni − gcn", "+0.0 [+0.0, +0.0]"]]
    assert any("mgnni reproduce tiny" in note for note in first.notes)


def test_another_rule_of_the_same_trainings_is_shown_where_it_is_stored():
    known = {"gin": {"mean": 0.55, "std": 0.05, "n": 2, "mark": "‡"}}
    with_gin = Stored(DONE, report("fold-max", [0.5, 0.7], scores=known))
    without = Stored(DONE, report("fold-max", [0.5, 0.7]))
    first = tables(tiny(rule="fold-max", beside=("gin",)), with_gin, without, Stored(MISSING))[0]
    assert [row[1:] for row in first.rows[:6]] == [
        ["paper", "99.00 ± 1.00"],
        ["ours", "60.00 ± 14.14†"],
        ["ours, gin", "55.00 ± 5.00‡"],
        ["ours, validation", "40.00 ± 0.00"],
        ["ours", "60.00 ± 14.14†"],
        ["ours, validation", "40.00 ± 0.00"],
    ]


def test_a_row_with_its_own_rule_shows_that_of_the_table_beside_it():
    rows = [{"name": "gcn", "rule": "validation", "paper": {"short": [99.0, 1.0]}}]
    both = {"fold-max": {"mean": 0.6, "std": 0.05, "n": 2, "mark": "†"}}
    one = Stored(DONE, report("fold-max", [0.5, 0.7], scores=both))
    study = tiny(rule="fold-max", rows=rows, reference="")
    first, places = tables(study, one)
    assert [row[1:] for row in first.rows] == [
        ["paper", "99.00 ± 1.00"],
        ["ours", "40.00 ± 0.00"],
        ["ours, fold-max", "60.00 ± 14.14†"],
    ]
    assert [row[2] for row in places.rows] == ["validation"]


def test_a_report_of_other_settings_is_marked():
    old = Stored(OTHER, report("validation", [0.5, 0.7]), "lr 0.1, now 0.2")
    first = tables(tiny(), old, Stored(MISSING), Stored(MISSING))[0]
    assert first.rows[:2] == [
        ["mgnni", "paper", "99.00 ± 1.00"],
        ["", "ours", "60.00 ± 14.14*"],
    ]
    assert any("--replace" in note for note in first.notes)


def test_rows_without_any_number_are_named_below_the_table():
    done, missing = Stored(DONE, report("validation", [0.5, 0.7])), Stored(MISSING)
    first = tables(tiny(), missing, done, missing)[0]
    assert [row[:2] for row in first.rows] == [["mgnni", "paper"], ["", "ours"], ["gcn", "ours"]]
    assert [note for note in first.notes if note.startswith("Not trained")] == [
        "Not trained yet: gcn-narrow."
    ]
    assert not any(
        note.startswith("Not trained") for note in tables(tiny(), done, done, done)[0].notes
    )


def test_the_state_of_all_experiments_is_counted():
    study = tiny()
    reached = Stored(DONE, report("validation", [0.98, 1.0, 0.99]))
    cells = study.cells()
    known = dict(zip(cells, (reached, reached, Stored(MISSING)), strict=True))
    (line,) = status(known).rows
    assert line == ["tiny", study.title, "2 of 3", "1", "0", "0"]
    for values, where in (([0.5, 0.52], "above"), ([0.999, 0.9995, 0.9999], "below")):
        known[cells[0]] = Stored(DONE, report("validation", values))
        sheet = status(known)
        counts = dict(zip(sheet.header[3:], sheet.rows[0][3:], strict=True))
        assert counts == {"inside": "0", "below": "0", "above": "0", where: "1"}
    known[cells[0]] = Stored(MISSING)
    assert status(known).rows[0][2:] == ["1 of 3", "", "", ""]


def test_differences_of_older_trainings_are_marked_and_not_bold():
    high = Stored(DONE, report("validation", [0.9, 0.91]))
    low = Stored(OTHER, report("validation", [0.5, 0.51]), "lr 0.1, now 0.2")
    rows = tables(tiny(), high, low, Stored(MISSING))[-1].rows
    assert rows[0][1].startswith("+40.0* [")


def test_a_clear_difference_is_bold():
    high = Stored(DONE, report("validation", [0.9, 0.91]))
    low = Stored(DONE, report("validation", [0.5, 0.51]))
    paired = tables(tiny(), high, low, Stored(MISSING))[-1]
    assert paired.rows == [["mgnni − gcn", "**+40.0** [+40.0, +40.0]"]]


def test_times_are_beside_those_of_the_paper():
    study = tiny(
        kind="seconds",
        measures=["epoch", "once"],
        rows=[{"name": "gcn", "paper_seconds": {"short": [2.5, None]}}],
    )
    timing = {"epoch": 0.01234, "once": 1.5, "total": 3.0}
    (sheet,) = tables(study, Stored(DONE, report("validation", [0.5], timing=timing)))
    assert sheet.rows == [
        ["gcn", "s per epoch, paper", "2.5"],
        ["", "s per epoch, ours", "0.0123"],
        ["", "s once, before, ours", "1.5"],
    ]
    short = report("validation", [0.5], timing=timing)
    short["runs"][0]["epochs"] = 6  # "once" would be within the fluctuation of their times
    (sheet,) = tables(study, Stored(DONE, short))
    assert sheet.rows[2] == ["", "s once, before, ours", ""]
    (sheet,) = tables(study, Stored(OTHER, report("validation", [0.5], timing=timing), "lr"))
    assert sheet.rows[1] == ["", "s per epoch, ours", "0.0123*"], "made with other settings"


def test_attention_of_other_settings_is_marked():
    weights = {"scales": [1, 2], "weights": [[0.2, 0.8], [0.4, 0.6]], "mean": [0.3, 0.7]}
    old = Stored(OTHER, report("validation", [0.5], attention_values=weights), "lr")
    study = tiny(kind="attention", rows=[{"name": "mgnni"}])
    (sheet,) = tables(study, old)
    assert sheet.rows[0] == ["mgnni, short", "1", "0.30*", "0.20 to 0.40"]


def test_markdown_has_titles_rows_and_notes():
    first = tables(tiny(), *[Stored(MISSING)] * 3)[0]
    lines = first.markdown().splitlines()
    assert lines[:3] == [
        "|  |  | short |",
        "| --- | --- | ---: |",
        "| mgnni | paper | 99.00 ± 1.00 |",
    ]
    assert lines[-1].startswith("- ")
