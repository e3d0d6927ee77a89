"""The walk in docs/first_hour.md: its commands run in order and print what the page shows."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
import torch

from mgnni.cli.app import EXTRA

ROOT = Path(__file__).parents[1]


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


walk = load(ROOT / "docs" / "make_first_hour.py")
make_club = load(ROOT / "examples" / "make_club.py")
STEPS = walk.steps(walk.PAGE.read_text("utf-8"))
EXACT = ("head -n 4", "mgnni inspect", "mgnni report")  # the same on every machine
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
ID = re.compile(r"\b[a-z]+-\d\d\b")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder after the walk, and what was printed by each command."""
    folder = tmp_path_factory.mktemp("walk")
    walk.prepare(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder, {step.command: walk.run(step.command) for step in STEPS}
    finally:
        os.chdir(before)


def packages(extra: str) -> set[str]:
    """The packages of an extra in pyproject.toml, with those of the extras in it."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = text.split("[project.optional-dependencies]")[1].split("\n\n")[0]
    (items,) = re.findall(rf"^{extra} = \[(.*)\]", extras, re.MULTILINE)
    found: set[str] = set()
    for item in re.findall(r'"(.*?)"', items):
        name, inner = re.fullmatch(r"([\w-]+)(?:\[(.*)\])?(?:>=.*)?", item).groups()
        found |= set().union(*map(packages, inner.split(","))) if inner else {name}
    return found


def test_the_page_installs_all_packages_that_its_commands_use():
    assert re.findall(r"pip install (.*)", walk.PAGE.read_text("utf-8")) == ["'.[cli]'"]
    assert {name.replace("-", "_") for name in packages("cli")} == set(EXTRA)
    assert "plotly" in EXTRA  # of mgnni report, which the page calls
    assert packages("report") == packages("cli")  # the old name


def test_the_walk_has_every_stage():
    commands = [step.command.split()[:2] for step in STEPS]
    names = [words[1] for words in commands if words[0] == "mgnni"]
    assert names == ["inspect", "train", "report", "explain", "predict", "export"]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: " ".join(step.command.split()[:2]))
def test_the_page_shows_what_a_command_prints(place, step):
    printed = place[1][step.command]
    if step.command.startswith(EXACT):
        assert printed.strip() == step.output.strip(), "run: python docs/make_first_hour.py"
        return
    # Rounding differs between processors and changes the numbers of a training, not the words.
    assert wording(printed) == wording(step.output), "run: python docs/make_first_hour.py"


def wording(text: str) -> list[str]:
    """The words of a text in any order, without contributions, numbers, ids and rules."""
    lines = [line for line in text.splitlines() if not re.search(r" [-+]\d", line)]
    plain = NUMBER.sub("#", ID.sub("ID", "\n".join(lines).replace("─", "")))
    return sorted(plain.split())


def number(pattern: str, text: str) -> float:
    (found,) = re.findall(pattern, " ".join(text.split()))
    return float(found)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def output_of(name: str) -> str:
    (step,) = (step for step in STEPS if step.command.startswith(f"mgnni {name}"))
    return step.output


def test_the_scores_on_the_page_are_those_of_the_training(place):
    report = json.loads((place[0] / "runs" / "club" / "report.json").read_text())
    shown = output_of("train")
    assert report["portfolio"]["chosen"] == "mgnni"
    score = number(r"test roc_auc ([\d.]+) %", shown)
    assert 100 * report["score"]["mean"] == pytest.approx(score, abs=3)
    low, high = re.findall(r"95 % interval ([\d.]+) to ([\d.]+) %", shown)[0]
    assert float(low) < 100 * report["score"]["mean"] <= float(high) + 1e-9
    without_graph = number(r"mlp 60 ([\d.]+)", shown)
    (mlp,) = (one for one in report["portfolio"]["candidates"] if one["name"] == "mlp")
    assert 100 * mlp["validation"] == pytest.approx(without_graph, abs=3)
    assert score > without_graph + 20  # the graph helps, as the page says


def test_predictions_follow_the_threshold_that_was_chosen_on_validation(place):
    folder = place[0] / "runs" / "club"
    rows = table(folder / "predictions.csv")
    nodes = table(place[0] / "examples" / "club" / "nodes.csv")
    assert [row["id"] for row in rows] == [node["member"] for node in nodes]
    assert [row["label"] for row in rows] == [node["left"] for node in nodes]
    (run,) = json.loads((folder / "report.json").read_text())["classification"]["runs"]
    threshold = run["threshold"]
    shown = number(r"a probability of ([\d.]+),", output_of("train"))
    assert threshold == pytest.approx(shown, abs=0.15)
    for row in rows:
        assert row["prediction"] == ("yes" if float(row["p_yes"]) > threshold else "no")
        assert float(row["p_yes"]) + float(row["p_no"]) == pytest.approx(1, abs=1e-5)
    # Another threshold would predict something else.
    assert any((float(row["p_yes"]) > 0.5) != (row["prediction"] == "yes") for row in rows)
    # It is the best balanced accuracy of the validation rows; no other cut is better.
    val = [(float(row["p_yes"]), row["label"] == "yes") for row in rows if row["split"] == "val"]
    assert len(val) == 90
    best = max(balanced_accuracy(val, cut) for cut in (0.0, *(p for p, _ in val)))
    assert balanced_accuracy(val, threshold) == pytest.approx(best)


def balanced_accuracy(rows: list[tuple[float, bool]], threshold: float) -> float:
    found = [p > threshold for p, yes in rows if yes]
    left = [p <= threshold for p, yes in rows if not yes]
    return (sum(found) / len(found) + sum(left) / len(left)) / 2


def test_new_members_have_predictions_and_neither_label_nor_split(place):
    rows = table(place[0] / "runs" / "club" / "predictions.csv")
    new = [row for row in rows if not row["label"]]
    assert new == rows[-make_club.NEW :]
    assert {row["split"] for row in new} == {""}
    assert {row["split"] for row in rows[: -make_club.NEW]} == {"train", "val", "test"}
    assert {row["prediction"] for row in new} == {"yes", "no"}


def test_the_explanation_adds_up_and_is_that_of_the_table(place):
    folder = place[0] / "runs" / "explain-club-hana-25"
    found = json.loads((folder / "explanation.json").read_text())
    total = found["output"] - found["baseline_output"]
    assert found["predicted"] == "yes"
    assert sum(one["contribution"] for one in found["hops"]) == pytest.approx(total, rel=1e-2)
    assert (folder / "explanation.png").stat().st_size > 1000


def test_the_report_is_written_and_shows_the_choice(place):
    text = (place[0] / "club.html").read_text("utf-8")
    assert "Choice of the model" in text


def test_the_exported_model_predicts_what_the_table_says(place):
    (code,) = re.findall(r"```python\n(.*?)```", walk.PAGE.read_text("utf-8"), re.DOTALL)
    code = code.replace('"club.pt2"', repr(str(place[0] / "club.pt2")))
    names: dict[str, torch.Tensor] = {}
    exec(code, names)  # the page's own lines
    rows = table(place[0] / "runs" / "club" / "predictions.csv")
    told = torch.tensor([[float(row["p_no"]), float(row["p_yes"])] for row in rows])
    torch.testing.assert_close(names["probabilities"], told, rtol=0, atol=2e-6)


def test_the_sample_files_are_those_of_their_generator():
    for name, rows in zip(("nodes", "edges"), make_club.make_tables(), strict=True):
        text = (ROOT / "examples" / "club" / f"{name}.csv").read_text("utf-8")
        assert [line.split(",") for line in text.splitlines()] == rows
    nodes, edges = make_club.make_tables()
    assert len(nodes) == make_club.MEMBERS + 1
    pairs = [frozenset(edge) for edge in edges[1:]]
    assert len(set(pairs)) == len(pairs)  # each pair once
