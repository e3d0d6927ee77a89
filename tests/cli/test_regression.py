"""Regression from the outside: train, predict, report, explain, compare, on files of numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from cli.tables import edge_rows, write, write_graphs

Call = Callable[..., Any]  # see conftest.py
NUMBERS = ("--task", "regression", "--label", "price", "--directed", "false", "--device", "cpu")
QUICK = ("--epochs", "30", "--hidden-channels", "4", "--lr", "0.05")


def rows(count: int = 24) -> list[str]:
    """Prices of about a hundred thousand, linear in ``a``; some are unknown."""
    found = ["id,a,b,price,split"]
    for i in range(count):
        a, part = (7 * i % 11) / 11, ("train", "train", "val", "test")[i % 4]
        price = "" if i == 9 else f"{100000 + 20000 * a:.0f}"
        found.append(f"n{i:02d},{a:.3f},{(3 * i % 7) / 7:.2f},{price},{part}")
    return found


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regression")
    write(folder / "houses", nodes=rows(), edges=edge_rows())
    for model in ("mgnni", "mlp"):
        run = ("--model", model, "--metric", "mae", "--output", folder / model)
        ended = call("train", folder / "houses", *NUMBERS, *QUICK, *run)
        assert ended.status == 0, ended.err
        assert "always predicting the mean of training: mae" in ended.out
        assert "%" not in ended.out.split("95 % interval")[0], "no percentages of an error"
    return folder


def test_predictions_are_in_the_units_of_the_file(
    call: Call, trained: Path, tmp_path: Path
) -> None:
    output = tmp_path / "predictions.csv"
    ended = call("predict", trained / "mgnni", trained / "houses", "--output", output)
    assert ended.status == 0, ended.err
    table = pyarrow.csv.read_csv(output).to_pydict()
    assert [name for name in table if not name.startswith("scale")] == [
        *("id", "prediction", "label", "split")
    ]
    assert all(80000 < value < 140000 for value in table["prediction"])
    assert table["label"][9] is None
    assert table["label"][0] == 100000
    report = json.loads((trained / "mgnni" / "report.json").read_text())
    tested = [
        abs(a - b)
        for a, b, part in zip(table["prediction"], table["label"], table["split"], strict=True)
        if part == "test" and b is not None
    ]
    assert report["score"]["mean"] == pytest.approx(sum(tested) / len(tested), rel=1e-5)


def test_rows_to_predict_may_have_an_empty_label_column(
    call: Call, trained: Path, tmp_path: Path
) -> None:
    new = [line.rsplit(",", 2)[0] for line in rows()]
    write(tmp_path / "new", nodes=[new[0] + ",price", *(f"{line}," for line in new[1:])])
    (tmp_path / "new" / "edges.csv").write_bytes((trained / "houses" / "edges.csv").read_bytes())
    ended = call("predict", trained / "mlp", tmp_path / "new", "--output", tmp_path / "p.csv")
    assert ended.status == 0, ended.err
    table = pyarrow.csv.read_csv(tmp_path / "p.csv").to_pydict()
    assert "label" not in table
    assert all(80000 < value < 140000 for value in table["prediction"])


def test_predict_says_what_numbers_it_wrote(call: Call, trained: Path, tmp_path: Path) -> None:
    given = (trained / "mlp", trained / "houses", "--output", tmp_path / "p.csv", "--json")
    summary = json.loads(call("predict", *given).out)
    assert summary["predicted"] == {}
    assert 80000 < summary["numbers"]["price"]["mean"] < 140000
    refused = call("predict", *given, "--overwrite", "--threshold", "0.5")
    assert refused.status != 0
    assert "--threshold is for two classes" in refused.err


def test_the_report_has_figures_of_numbers(call: Call, trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = call("report", trained / "mgnni", trained / "mlp", "--output", page)
    assert ended.status == 0, ended.err
    text = page.read_text("utf-8")
    assert "price: predicted against true" in text
    assert "price: residuals" in text
    plain = re.sub(r"<[^>]+>", "", text)
    assert "--task regression" in plain, "the command that repeats the training"
    assert "Best mean" in text
    reports = {
        name: json.loads((trained / name / "report.json").read_text()) for name in ("mgnni", "mlp")
    }
    best = min(reports, key=lambda name: reports[name]["score"]["mean"])
    assert f"Best mean: {best}," in text, "the lowest error"


def test_comparisons_say_which_direction_is_better(call: Call, trained: Path) -> None:
    ended = call("compare", trained / "mgnni", trained / "mlp")
    assert ended.status == 0, ended.err
    assert "test mae (lower is better)" in ended.out
    assert "in %" not in ended.out


def test_an_explanation_adds_up_to_the_number(call: Call, trained: Path, tmp_path: Path) -> None:
    for model in ("mgnni", "mlp"):
        given = ("explain", trained / model, "n03", "--output", tmp_path / model)
        found = json.loads(call(*given, "--json").out)
        assert found["probability"] is None
        total = sum(one["contribution"] for one in found["hops"])
        assert found["output"] - found["baseline_output"] == pytest.approx(total, rel=1e-2)
        assert 80000 < found["output"] < 140000
        refused = call(*given, "--overwrite", "--against", "others")
        assert "--against compares two classes" in refused.err


def test_inspect_describes_the_numbers(call: Call, trained: Path, tmp_path: Path) -> None:
    given = ("inspect", trained / "houses", *NUMBERS[:-2], "--output", tmp_path / "inspect")
    found = json.loads(call(*given, "--json").out)
    assert found["targets"][0]["name"] == "price"
    assert 100000 <= found["targets"][0]["mean"] <= 120000
    shown = call(*given).out
    assert "median" in shown
    assert "price" in shown


def test_metrics_of_classes_are_refused(call: Call, trained: Path) -> None:
    ended = call("train", trained / "houses", "--label", "b", *NUMBERS[:2], "--metric", "accuracy")
    assert "--metric must be one of ['mae', 'r2']" in ended.err


def test_graphs_in_a_folder_have_numbers(call: Call, tmp_path: Path) -> None:
    folder = write_graphs(tmp_path / "many", 24)
    table = (folder / "graphs.csv").read_text().splitlines()
    sizes = [
        f"{line.split(',')[0]},{4 + place % 3},{line.split(',')[2]}"
        for place, line in enumerate(table[1:])
    ]
    (folder / "graphs.csv").write_text("\n".join(["graph,size,split", *sizes]) + "\n")
    given = ("--task", "regression", "--label", "size", "--device", "cpu", "--epochs", "40")
    run = tmp_path / "run"
    ended = call("train", folder, *given, "--model", "gin", "--output", run, "--no-report")
    assert ended.status == 0, ended.err
    assert call("predict", run, folder).status == 0
    found = pyarrow.csv.read_csv(run / "predictions.csv").to_pydict()
    errors = [abs(a - b) for a, b in zip(found["prediction"], found["label"], strict=True)]
    assert sum(errors) / len(errors) < 0.6, "that of the mean is 0.67"
