"""Numbers to predict: metrics by hand, tasks, files, and their description."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from mgnni.data.assessment.numbers import _mae, _r2, assess_numbers
from mgnni.data.inspection.description import describe_task
from mgnni.data.inspection.numbers import neighbour_correlation
from mgnni.data.inspection.suspicious import nearest_value_r2
from mgnni.data.metric_names import gain, readable, shown
from mgnni.data.regression import measure_numbers
from mgnni.data.split import Split
from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.data.targets import target_scale
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, DataError
from mgnni.train.source import find_source
from problems import generator

NUMBERS = TableOptions(label=("price",), task="regression")
NAN = float("nan")


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(1)


def task(targets: torch.Tensor, split: Split, **options: object) -> Task:
    x, edges = torch.zeros(len(targets), 1), torch.zeros(2, 0, dtype=torch.long)
    names = [f"t{place}" for place in range(targets.size(1))]
    graph = Data(x=x, edge_index=edges)
    return Task("numbers", [graph], targets, [split], names, regression=True, **options)


def split(train: list[int], val: list[int], test: list[int]) -> Split:
    return Split.of(*(torch.tensor(part) for part in (train, val, test)))


def test_metrics_are_those_of_their_formulas() -> None:
    true, predicted = column(1, 2, 6), column(2, 2, 3)
    # Mean 3, squares around it 4 + 1 + 9; squared errors 1 + 0 + 9; absolute ones 1 + 0 + 3.
    assert measure_numbers(predicted, true) == {
        "r2": pytest.approx(1 - 10 / 14),
        "mae": pytest.approx(4 / 3),
    }
    assert measure_numbers(column(3, 3, 3), true)["r2"] == pytest.approx(0, abs=1e-15)
    assert measure_numbers(true, true) == {"r2": 1, "mae": 0}
    both = measure_numbers(torch.cat([predicted, true], 1), torch.cat([true, true], 1))
    assert both == {"r2": pytest.approx(1 - 5 / 14), "mae": pytest.approx(2 / 3)}


def test_metrics_of_equal_numbers_are_finite() -> None:
    assert measure_numbers(column(5, 5), column(5, 5))["r2"] == 1
    assert measure_numbers(column(5, 6), column(5, 5))["r2"] == 0


def test_the_size_of_numbers_does_not_matter() -> None:
    true, predicted, weights = column(1, 2, 6), column(2, 2, 3), np.array([[2, 1, 1]])
    for size in (1e-300, 1e300):
        a, b = size * predicted, size * true
        assert measure_numbers(a, b)["r2"] == pytest.approx(1 - 10 / 14)
        r2 = [
            _r2(weights, *(one.numpy() for one in pair))[0] for pair in ((a, b), (predicted, true))
        ]
        assert r2[0] == pytest.approx(r2[1])
        assert target_scale(b)[1].item() == pytest.approx(size * (14 / 3) ** 0.5)
        values = np.arange(8.0)
        assert nearest_value_r2(values, size * values) == nearest_value_r2(values, values)


def test_a_lower_error_is_a_gain() -> None:
    assert gain("mae", 1.0) > gain("mae", 2.0)
    assert gain("r2", 0.5) > gain("r2", 0.4)


def test_numbers_are_shown_in_their_own_units() -> None:
    assert shown("accuracy", 0.8324, 0.01) == "83.24 ± 1.00"
    assert shown("r2", 0.8324, 0.01) == "0.8324 ± 0.0100"
    assert shown("mae", 13342.4, 381.0) == "13,342 ± 381"
    assert [readable(v) for v in (0.000123456, 9876.5, -12345.6)] == [
        "0.0001235",
        "9876",
        "-12,346",
    ]


def test_resampled_metrics_are_those_of_repeated_rows() -> None:
    g = generator(3)
    true, predicted = (torch.randn(9, 2, generator=g, dtype=torch.double) + 100 for _ in range(2))
    weights = np.array([[0, 1, 2, 0, 3, 1, 0, 1, 1]])
    rows = torch.from_numpy(np.repeat(np.arange(9), weights[0]))
    found = measure_numbers(predicted[rows], true[rows])
    assert _mae(weights, predicted.numpy(), true.numpy())[0] == pytest.approx(found["mae"])
    assert _r2(weights, predicted.numpy(), true.numpy())[0] == pytest.approx(found["r2"])
    one_row = np.eye(9, dtype=int)[:1]
    assert np.isnan(_r2(one_row, predicted.numpy(), true.numpy()))[0]


def test_the_scale_of_a_target_that_does_not_vary_is_one() -> None:
    mean, deviation = target_scale(torch.cat([column(1, 3), column(0.1 + 0.2, 0.3)], 1))
    torch.testing.assert_close(mean, torch.tensor([2.0, 0.3], dtype=torch.double))
    assert deviation.tolist() == [1.0, 1.0]  # the first one by its numbers, 1 and 3


def test_rows_without_a_number_belong_to_no_set() -> None:
    one = task(column(1, NAN, 3, 4, NAN, 7), split([0, 1, 2], [3], [4, 5]), metric="mae")
    assert [one.rows(0, part).tolist() for part in ("train", "val", "test")] == [[0, 2], [3], [5]]
    hidden = one.without_test([0])
    assert hidden.rows(0, "test").numel() == 0
    assert hidden.targets(0, "train").tolist() == [[1], [3]]


def test_the_baseline_is_the_mean_of_the_training_rows() -> None:
    one = task(column(1, 3, 0, 0, 2, 6), split([0, 1], [2, 3], [4, 5]), metric="mae")
    found = one.assess(column(2, 5), 0)
    assert found["baseline"] == {"mae": 2, "r2": pytest.approx(1 - 16 / 8)}  # of predicting 2
    assert found["targets"][0]["mean"] == 2
    assert found["targets"][0]["mae"] == 0.5
    assert found["points"] == [{"true": [2, 6], "predicted": [2, 5]}]


@pytest.mark.slow
def test_quantiles_of_more_rows_than_torch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgnni.data.assessment.numbers.bootstrap_rows", lambda *_: [])
    count = 2**24 + 1
    labels = torch.arange(count, dtype=torch.double).unsqueeze(1)
    rows = torch.arange(count)
    found = assess_numbers(torch.zeros(count, 1), labels, column(0, 1), rows, count, "mae")
    expected = [share * 2**24 for share in (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)]
    assert found["targets"][0]["residuals"] == pytest.approx(expected)


def test_a_task_of_numbers_refuses_what_it_cannot_measure() -> None:
    parts = split([0, 1], [2, 3], [4, 5])
    with pytest.raises(DataError, match=r"r2 is undefined on val.*mae"):
        task(column(1, 2, 5, 5, 6, 7), parts).check_metric(0)
    with pytest.raises(ArgumentError, match="accuracy"):
        task(column(1, 2, 3, 4, 6, 7), parts, metric="accuracy")
    with pytest.raises(DataError, match="finite"):
        task(column(1, 2, float("inf"), 4, 6, 7), parts)
    with pytest.raises(ArgumentError, match="mae"):
        Task(
            "classes",
            [Data(x=torch.zeros(2, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))],
            torch.tensor([0, 1]),
            [],
            ["a", "b"],
            metric="mae",
        )


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*cells: str) -> Path:
        folder = tmp_path / "houses"
        folder.mkdir()
        rows = [f"h{place},{place % 3},{cell}" for place, cell in enumerate(cells)]
        (folder / "nodes.csv").write_text("\n".join(["id,size,price", *rows]) + "\n")
        (folder / "edges.csv").write_text("source,target\nh0,h1\nh1,h0\n")
        return folder

    return make


def test_numbers_are_read_with_missing_ones(write: Write) -> None:
    file = read_graphs(write("-3", "", "1e3", "NA", "2.5"), NUMBERS)
    torch.testing.assert_close(file.labels, column(-3, NAN, 1000, NAN, 2.5), equal_nan=True)
    found = file.task()
    assert (found.metric, found.classes, found.regression) == ("r2", ("price",), True)
    assert any("2 rows without a number" in note for note in file.notes)


def test_numbers_may_have_a_currency_sign(write: Write) -> None:
    file = read_graphs(write('"$1,200.50"', "", "$30"), NUMBERS)
    torch.testing.assert_close(file.labels, column(1200.5, NAN, 30), equal_nan=True)
    assert "target 'price': read as numbers in $" in file.notes


def test_amounts_with_a_decimal_comma_are_refused_with_a_remedy(write: Write) -> None:
    with pytest.raises(DataError, match=r"text such as '30,50 €'\); write numbers like 1200\.50"):
        read_graphs(write('"30,50 €"', '"7,25 €"'), NUMBERS)


def test_many_amounts_as_classes_are_refused_with_a_hint(write: Write) -> None:
    with pytest.raises(DataError, match=r"got 40 different ones .*; pass --task regression"):
        read_graphs(write(*(f"${place}.50" for place in range(40))), TableOptions(label="price"))


def test_splits_are_drawn_from_rows_with_a_number(write: Write) -> None:
    folder = write(*(str(place) if place % 2 else "" for place in range(40)))
    one = find_source(folder, tables=NUMBERS).task
    parts = torch.cat([one.splits[0].part(part) for part in ("train", "val", "test")])
    assert sorted(parts.tolist()) == list(range(1, 40, 2))


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (
            ("red", "blue", "red", "red"),
            NUMBERS,
            r"needs numbers \(got text such as 'red'\).*--task",
        ),
        (("1", "2", "blue", "4"), NUMBERS, r"row 4: .*hold numbers \(got 'blue'\)"),
        (("2", "2", "2", "2"), NUMBERS, r"must differ \(got 2 only for 'price'\)"),
        (("", "", "", ""), NUMBERS, "got only empty cells"),
        (
            tuple(f"{place}.5" for place in range(30)),
            TableOptions(label=("price",)),
            "pass --task regression",
        ),
        (
            tuple(str(7 * place) for place in range(30)),
            TableOptions(label=("price",)),
            "pass --task regression",
        ),
    ],
    ids=["text", "one word", "constant", "empty", "fractions", "whole numbers"],
)
def test_files_without_numbers_to_predict_are_refused(
    write: Write, cells: tuple[str, ...], options: TableOptions, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_graphs(write(*cells), options)


def test_negative_numbers_of_arrays_are_numbers() -> None:
    data = Data(
        x=torch.randn(3, 2),
        edge_index=torch.tensor([[0], [1]]),
        y=torch.tensor([-1.0, NAN, 4.0]),
    )
    file = from_pyg(data, TableOptions(task="regression"))
    torch.testing.assert_close(file.labels, column(-1, NAN, 4), equal_nan=True)
    assert file.classes == ("y",)


def test_neighbours_with_equal_and_with_opposite_numbers() -> None:
    edges = torch.tensor([[0, 2, 0], [1, 3, 4]])
    values = torch.tensor([1.0, 1.0, 5.0, 5.0, NAN], dtype=torch.double)
    assert neighbour_correlation(values, edges) == pytest.approx(1)
    opposite = torch.tensor([1.0, -1.0, 5.0, -5.0, NAN], dtype=torch.double)
    assert neighbour_correlation(opposite, edges) == pytest.approx(-1)
    assert neighbour_correlation(values, edges[:, 2:]) is None


def test_a_description_has_no_test_numbers(write: Write) -> None:
    folder = write(*map(str, range(40)))
    source = find_source(folder, tables=NUMBERS)
    found = describe_task(source.task, source.schema)
    known = torch.cat([source.task.targets(0, part) for part in ("train", "val")])
    (price,) = found["targets"]
    assert (price["min"], price["max"]) == (float(known.min()), float(known.max()))
    assert price["mean"] == pytest.approx(float(known.mean()))
    assert price["quartiles"][1] == pytest.approx(float(known.quantile(0.5)))
    assert sum(price["histogram"]) == len(known) == price["train"] + price["val"]
    assert (found["classes"], found["majority"], found["homophily"]) == ([], None, None)


def test_a_column_that_tells_the_number_is_suspicious(tmp_path: Path) -> None:
    rows = [f"h{i},{(7 * i) % 100},{(i * i) % 13},{3 * ((7 * i) % 100) + 5}" for i in range(100)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,leak,other,price", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\nh0,h1\n")
    source = find_source(tmp_path, tables=NUMBERS)
    found = describe_task(source.task, source.schema)
    assert [one["column"] for one in found["suspicious"]["labels"]] == ["leak"]
