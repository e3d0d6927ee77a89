"""Features, against scikit-learn's encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.data.tables.values import sorted_values
from mgnni.errors import DataError

Write = Callable[..., Path]
NO_EDGES = "source,target\n"


def features(folder: Path, **options: object) -> tuple[np.ndarray, tuple[str, ...]]:
    file = read_graphs(folder, TableOptions(**options))  # type: ignore[arg-type]
    return file.graphs[0].x.numpy(), file.schema.feature_names


def table(column: list[str], name: str = "f") -> str:
    rows = (f"n{i},{cell},{i % 2}\n" for i, cell in enumerate(column))
    return f"id,{name},label\n" + "".join(rows)


def test_missing_numbers_as_scikit_learn_fills_them(write: Write) -> None:
    cells = ["1.5", "", "-2", "1e3", "", ".5", " 7 ", "+1"]
    values = np.array([1.5, np.nan, -2, 1e3, np.nan, 0.5, 7, 1])[:, None]
    expected = SimpleImputer(strategy="mean", add_indicator=True).fit_transform(values)
    x, names = features(write(table(cells), NO_EDGES))
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert names == ("f", "f_missing")


def test_missing_numbers_are_filled_from_the_training_nodes(write: Write) -> None:
    rows = [("1", "train"), ("3", "train"), ("", "train"), ("100", "test"), ("", "test")]
    lines = (f"n{i},{cell},{i % 2},{part}\n" for i, (cell, part) in enumerate(rows))
    x, _ = features(write("id,f,label,split\n" + "".join(lines), NO_EDGES))
    assert x.tolist() == [[1, 0], [3, 0], [2, 1], [100, 0], [2, 1]]  # the mean of 1 and 3


def test_categories_as_scikit_learn_encodes_them(write: Write) -> None:
    cells = ["red", "Blue", "élan", "red", " red", "Ω"]
    expected = OneHotEncoder(sparse_output=False).fit_transform(np.array(cells)[:, None])
    x, names = features(write(table(cells), NO_EDGES))
    np.testing.assert_array_equal(x, expected)
    assert names == tuple(f"f={category}" for category in sorted(set(cells)))


def test_numbers_as_categories_are_sorted_as_numbers(write: Write) -> None:
    x, names = features(write(table(["10", "9", "9", "-1"]), NO_EDGES), categorical="f")
    assert names == ("f=-1", "f=9", "f=10")
    assert x.tolist() == [[0, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0]]


AMOUNTS = {
    "thousands": (["$1,200.50", "$30", "-$4.5", "$ 7"], [1200.5, 30, -4.5, 7]),
    "only thousands": (["$1,200", "$850", "$1,234,567"], [1200, 850, 1234567]),
    "yen": (["¥1,200", "¥850", "¥12,345"], [1200, 850, 12345]),
    "before": (["€ 30", "€45.5", "€ -2"], [30, 45.5, -2]),
    "after": (["30 €", "4.25€", "5\u00a0€"], [30, 4.25, 5]),
    "percent": (["12 %", "12.5%", "+0.125 %", "-3%"], [12, 12.5, 0.125, -3]),
}


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts_are_numbers(write: Write, name: str) -> None:
    cells, expected = AMOUNTS[name]
    folder = write(table([f'"{cell}"' for cell in cells]), NO_EDGES)
    x, names = features(folder)
    assert names == ("f",)
    np.testing.assert_allclose(x[:, 0], expected, rtol=1e-6)
    symbol = next(mark for mark in "$€¥%" if mark in cells[0])
    assert any(f"'f': read as numbers in {symbol}" in note for note in read_graphs(folder).notes)
    assert len(features(folder, categorical="f")[1]) == len(cells)


def test_missing_amounts_are_filled(write: Write) -> None:
    x, names = features(write(table(["1%", "", "NA", "3 %"]), NO_EDGES))
    assert names == ("f", "f_missing")
    assert x.tolist() == [[1, 0], [2, 1], [2, 1], [3, 0]]


@pytest.mark.parametrize(
    "cells",
    [
        ["$30", "€30", "$40"],  # two currencies
        ["1.200,50 €", "30 €", "40 €"],  # decimal commas
        ["1,200 €", "30 €", "40 €"],  # 1200, or 1.2
        ["$1.200", "$30", "$40"],  # 1.2, or 1200
        ["£1,200", "£30.500", "£4"],
        ["$1,20", "$30", "$40"],
        ["$cheap", "$30", "$40"],
        ["$", "$30", "$40"],
        ["30%", "$40", "5 %"],
    ],
)
def test_amounts_that_are_not_clear_stay_categories(write: Write, cells: list[str]) -> None:
    _, names = features(write(table([f'"{cell}"' for cell in cells]), NO_EDGES))
    assert names == tuple(f"f={cell}" for cell in sorted(cells))


@pytest.mark.parametrize("cells", [["30,50 €", "7,00 €"], ["1,200 €", "30 €"], ["$1.200", "$3"]])
def test_amounts_that_stay_text_for_a_comma_or_point_are_noted(
    write: Write, cells: list[str]
) -> None:
    quoted = [f'"{cell}"' for cell in cells]
    note = "column 'f': amounts whose commas or points may be decimal marks are text"
    assert any(note in one for one in read_graphs(write(table(quoted), NO_EDGES)).notes)
    mixed = read_graphs(write(table([*quoted, "cheap"]), NO_EDGES, name="mixed"))
    assert not any("decimal marks" in one for one in mixed.notes)


def test_many_amounts_with_decimal_commas_are_to_be_written_with_points(write: Write) -> None:
    many = [f'"{i},50 €"' for i in range(40)]
    with pytest.raises(DataError, match=r"write amounts like 1200\.50 to use numbers, or pass"):
        read_graphs(write(table(many), NO_EDGES))


@pytest.mark.parametrize("name", ["degree", "constant"])
def test_amounts_in_a_column_with_the_name_of_a_made_feature(write: Write, name: str) -> None:
    folder = write(table(["12 %", "5 %"], name), NO_EDGES)
    trained = read_graphs(folder, TableOptions(degree=True))
    again = read_graphs(folder, schema=trained.schema)
    assert again.graphs[0].x.tolist() == trained.graphs[0].x.tolist() == [[12, 0], [5, 0]]


def test_amounts_in_prediction_are_read_as_in_training(write: Write) -> None:
    trained = read_graphs(write(table(['"$1,200.50"', "$30"]), NO_EDGES)).schema
    schema = Schema.from_dict(json.loads(json.dumps(trained.to_dict())))
    # Alone, these would be categories: the point could separate thousands.
    new = write(table(["$1.200", '"$1,000"', "5 $"]), NO_EDGES, name="new")
    x = read_graphs(new, schema=schema).graphs[0].x
    np.testing.assert_allclose(x[:, 0], [1.2, 1000, 5], rtol=1e-6)
    for number, cell in enumerate(("€5", "5", '"$1,20"')):
        other = write(table(["$5", cell]), NO_EDGES, name=f"other {number}")
        with pytest.raises(
            DataError, match=r"row 3: column 'f' must hold numbers with '\$', as in"
        ):
            read_graphs(other, schema=schema)


def test_truth_values(write: Write) -> None:
    x, names = features(write(table(["true", "False", "", "TRUE"]), NO_EDGES))
    assert names == ("f", "f_missing")
    np.testing.assert_allclose(x, [[1, 0], [0, 0], [2 / 3, 1], [1, 0]], rtol=1e-6)


def test_standardisation_is_over_the_training_nodes(write: Write) -> None:
    random = np.random.default_rng(0)
    size, red = random.normal(50, 10, 40), random.integers(0, 2, 40)
    split = ["train" if i < 25 else "test" for i in range(40)]
    rows = (
        f"n{i},{float(size[i])!r},{'red' if red[i] else 'blue'},{i % 2},{split[i]}\n"
        for i in range(40)
    )
    nodes = "id,size,colour,label,split\n" + "".join(rows)
    edges = "source,target\n" + "".join(f"n{i % 7},n{i % 3}\n" for i in range(40))
    scaler = StandardScaler().fit(size[:25, None])
    degree = np.bincount(np.arange(40) % 3, minlength=40)[:, None]
    of_degree = StandardScaler().fit(degree[:25])
    x, names = features(write(nodes, edges), standardize=True, degree=True)
    assert names == ("size", "colour=blue", "colour=red", "degree")
    np.testing.assert_allclose(x[:, :1], scaler.transform(size[:, None]), atol=1e-5)
    np.testing.assert_allclose(x[:, 3:], of_degree.transform(degree), atol=1e-5)
    np.testing.assert_array_equal(x[:, 2], red)  # categories are left alone
    plain, _ = features(write(nodes, edges, name="plain"))
    np.testing.assert_array_equal(plain[:, 0], size.astype(np.float32))


def test_standardisation_over_training_graphs(write: Write) -> None:
    graphs = {"graphs.csv": "graph,label,split\ng,x,train\nh,y,train\ni,x,test\n"}
    nodes = "id,graph,f\na,g,1\nb,h,3\nc,i,100\n"
    file = read_graphs(write(nodes, NO_EDGES, graphs), TableOptions(standardize=True))
    assert [float(graph.x) for graph in file.graphs] == [-1, 1, 98]  # mean 2, deviation 1


def test_a_constant_column_is_kept_and_noted(write: Write) -> None:
    folder = write(table(["0.1"] * 6), NO_EDGES)
    file = read_graphs(folder, TableOptions(standardize=True))
    # The mean of six times 0.1 is not 0.1 in floating point; nothing must blow that up.
    assert file.graphs[0].x.abs().max() < 1e-6
    assert any("the same in every row: 'f'" in note for note in file.notes)


def test_features_may_be_chosen_and_ignored(write: Write) -> None:
    folder = write("id,a,b,c,label\nm,1,2,3,x\nn,4,5,6,y\n", NO_EDGES)
    assert features(folder, features=("c", "a"))[1] == ("c", "a")
    assert features(folder, features=("c", "a"))[0].tolist() == [[3, 1], [6, 4]]
    assert features(folder, ignore="b")[1] == ("a", "c")


def test_a_short_table_may_have_a_category_a_row(write: Write) -> None:
    x, _ = features(write(table(["p", "q", "r"]), NO_EDGES))
    assert x.tolist() == np.eye(3).tolist()


def test_text_in_parquet_is_text(write: Write) -> None:
    import pyarrow.parquet as parquet

    folder = write(None, NO_EDGES)
    columns = {"id": [1, 2], "zip": ["007", "12"], "old": [True, None], "label": [0, 1]}
    parquet.write_table(pa.table(columns), folder / "nodes.parquet")
    x, names = features(folder)
    assert names == ("zip=007", "zip=12", "old", "old_missing")
    assert x.tolist() == [[1, 0, 1, 0], [0, 1, 1, 1]]


def test_dictionaries_decimals_and_views_in_parquet(write: Write) -> None:
    from decimal import Decimal

    import pyarrow.parquet as parquet

    columns = {
        "id": pa.array(["a", "b"], pa.large_string()),
        "kind": pa.array(["p", "q"]).dictionary_encode(),
        "cost": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "small.size": pa.array([1, 2], pa.uint8()),
        "label": pa.array([1.0, 2.0]),
    }
    folder = write(None, "source,target\na,b\n")
    parquet.write_table(pa.table(columns), folder / "nodes.parquet")
    file = read_graphs(folder)
    assert file.schema.feature_names == ("kind=p", "kind=q", "cost", "small.size")
    assert file.graphs[0].x.tolist() == [[1, 0, 1.5, 1], [0, 1, 2.25, 2]]
    assert file.classes == ("1", "2")


@pytest.mark.parametrize(
    "word", ["NA", "n/a", "nan", "NaN", "-nan", "NULL", "None", "<NA>", "#N/A", " na "]
)
def test_spellings_of_missing_are_missing_among_numbers(word: str, write: Write) -> None:
    expected = features(write(table(["1", "", "3", "8"]), NO_EDGES, name="empty"))
    x, names = features(write(table(["1", word, "3", "8"]), NO_EDGES))
    assert names == expected[1] == ("f", "f_missing")
    assert x.tolist() == expected[0].tolist() == [[1, 0], [4, 1], [3, 0], [8, 0]]


def test_spellings_of_missing_are_missing_among_booleans(write: Write) -> None:
    x, names = features(write(table(["true", "NA", "false", "true"]), NO_EDGES))
    assert names == ("f", "f_missing")
    assert x[:, 1].tolist() == [0, 1, 0, 0]


def test_spellings_of_missing_stay_text_in_text_columns(write: Write) -> None:
    x, names = features(write(table(["red", "NA", "", "nan"]), NO_EDGES))
    assert names == ("f=NA", "f=nan", "f=red", "f_missing")
    assert x.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]


def test_spellings_of_missing_are_filled_in_prediction(write: Write) -> None:
    schema = read_graphs(write(table(["1", "NA", "3", "8"]), NO_EDGES)).schema
    new = write(table(["2", "null", "NaN", "5"]), NO_EDGES, name="new")
    x = read_graphs(new, schema=schema).graphs[0].x
    assert x.tolist() == [[2, 0], [4, 1], [4, 1], [5, 0]]


def test_nan_is_missing_in_parquet(write: Write) -> None:
    import pyarrow.parquet as parquet

    folder = write(None, NO_EDGES)
    columns = {"id": [1, 2, 3], "f": [1.0, float("nan"), 3.0], "label": [0, 1, 1]}
    parquet.write_table(pa.table(columns), folder / "nodes.parquet")
    x, names = features(folder)
    assert names == ("f", "f_missing")
    assert x.tolist() == [[1, 0], [2, 1], [3, 0]]


def test_a_word_among_numbers_is_refused(write: Write) -> None:
    with pytest.raises(DataError, match=r"row 4: column 'f' .*'missing'.*leave it empty"):
        read_graphs(write(table(["1", "NA", "missing", "2"]), NO_EDGES))


def test_values_are_sorted_as_numbers_only_if_all_are_numbers() -> None:
    assert sorted_values(["10", "9", "1e1", "-3"]) == ["-3", "9", "10", "1e1"]
    assert sorted_values(["10", "9", "x"]) == ["10", "9", "x"]
    assert sorted_values(["b", "a", "B"]) == ["B", "a", "b"]
    assert sorted_values([]) == []


def test_zeros_stay_zeros_where_most_numbers_are_zero(write: Write) -> None:
    counts = write(table(["0", "0", "0", "3", "0", "4"]), NO_EDGES)
    rms = 12.5**0.5  # of 3 and 4
    x, _ = features(counts, standardize=True)
    np.testing.assert_allclose(x[:, 0], [0, 0, 0, 3 / rms, 0, 4 / rms], rtol=1e-6)
    x, _ = features(write(table(["0", "1"] * 3), NO_EDGES, name="flags"), standardize=True)
    assert x[:, 0].tolist() == [0, 1] * 3


def test_codes_with_leading_zeros_are_noted(write: Write) -> None:
    folder = write(table(["01234", "98765", "", "00501"]), NO_EDGES)
    note = "numbers with leading zeros in 'f': if they are codes, --categorical keeps them as text"
    assert note in read_graphs(folder).notes
    assert note not in read_graphs(folder, TableOptions(categorical=("f",))).notes
    usual = read_graphs(write(table(["0", "0.5", "-0", "10"]), NO_EDGES, name="usual"))
    assert not any("leading zeros" in note for note in usual.notes)


def test_a_column_of_degrees_keeps_its_name(write: Write) -> None:
    _, names = features(write(table(["3", "1", "2"], "degree"), NO_EDGES), degree=True)
    assert names == ("degree", "in-degree")


def test_another_unit_than_in_training_is_noted(write: Write) -> None:
    metres = [f"{170 + 3 * place}" for place in range(6)]
    trained = read_graphs(write(table(metres), NO_EDGES), TableOptions(standardize=True)).schema
    for name, factor in (("same", 1.1), ("other", 1000.0)):
        cells = [str(factor * float(cell)) for cell in metres]
        found = read_graphs(write(table(cells), NO_EDGES, name=name), schema=trained)
        noted = any("'f': most values are more than 10 standard dev" in one for one in found.notes)
        assert noted == (name == "other")


def test_codes_with_too_many_values_for_categories_are_not_advised(write: Write) -> None:
    codes = [f"0{i}" for i in range(30)]
    notes = read_graphs(write(table(codes), NO_EDGES)).notes
    assert not any("--categorical" in note for note in notes)


def test_dates_and_text_that_hardly_repeats_are_noted(write: Write) -> None:
    dates = [f"2024-05-{1 + i % 20:02d}" for i in range(40)]
    notes = read_graphs(write(table(dates), NO_EDGES)).notes
    assert (
        "dates in 'f' are text, with one category per date: replace them by numbers, such as days "
        "since a fixed date, or pass --ignore f"
    ) in notes
    words = [f"word {i % 30}" for i in range(40)]
    notes = read_graphs(write(table(words), NO_EDGES, name="words")).notes
    assert "column 'f': text with 30 categories in 40 rows: group them, or pass --ignore f" in notes
    few = read_graphs(write(table(["red", "blue"] * 20), NO_EDGES, name="few")).notes
    assert not any("'f'" in note for note in few)
    different = table([f"2024-01-{i:02d}" for i in range(1, 31)])
    with pytest.raises(DataError, match="days since a fixed date, or pass --ignore f"):
        read_graphs(write(different, NO_EDGES, name="different"))


def test_a_decimal_comma_beside_whole_numbers_is_named(write: Write) -> None:
    with pytest.raises(DataError, match=r"decimal points and no commas \(got '1,5'\); write 1.5"):
        read_graphs(write('id,f,label\na,2,x\nb,"1,5",y\n', NO_EDGES))
    weights = 'source,target,weight\na,b,2\nb,c,"1,5"\n'
    with pytest.raises(DataError, match=r"row 3: column 'weight' must have decimal points"):
        read_graphs(write(edges=weights, name="weights"))
