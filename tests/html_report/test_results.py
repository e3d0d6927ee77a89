import json
import shutil

import pytest

from html_report.conftest import HOSTILE
from html_report.definitions import write_definition
from mgnni.errors import DataError
from mgnni.html_report.curves import Curve, read_curves
from mgnni.html_report.figure import categories, plain
from mgnni.html_report.labels import headings, labels
from mgnni.html_report.page import write_page
from mgnni.html_report.paper import (
    PaperScore,
    in_order,
    paper_score,
    published_score,
    read_experiments,
)
from mgnni.html_report.results import read_results
from mgnni.train.tuned import find_preset


def test_trainings_are_found_below_a_folder(trainings):
    found = read_results([trainings, trainings / "two"])
    assert [one.number for one in found] == [1, 2]  # a folder that is named twice is read once
    assert {one.label for one in found} == {"mgnni", "gcn"}
    assert {one.experiment for one in found} == {""}
    gcn = next(one for one in found if one.label == "gcn")
    report = json.loads((gcn.folder / "report.json").read_text())
    assert gcn.mark == report["protocol"]["mark"] != ""
    assert [run.test for run in gcn.runs] == [r["reported"]["accuracy"] for r in report["runs"]]
    assert gcn.val == pytest.approx(sum(r["val"]["accuracy"] for r in report["runs"]) / 2)


def test_stored_results_have_the_numbers_of_the_paper(stored):
    experiments = read_experiments(stored / "experiments")
    found = in_order(read_results([stored / "results"]), experiments)
    assert [one.label for one in found] == ["First of paper", "Second", "unknown"]
    assert [one.number for one in found] == [1, 2, 3]
    papers = [paper_score(one, experiments) for one in found]
    assert papers == [PaperScore(0.6405, pytest.approx(0.0528)), None, None]
    # Named directly, a folder is a stored result if its experiment and row are known.
    known = {("webkb", row.name) for row in experiments["webkb"].rows}
    for name, experiment in (("first", "webkb"), ("unknown", "")):
        (one,) = read_results([stored / "results" / "webkb" / name / "red"], known)
        assert one.experiment == experiment


def test_a_stored_result_says_where_it_belongs(stored, tmp_path):
    experiments = read_experiments(stored / "experiments")
    report = json.loads((stored / "results/webkb/first/red/report.json").read_text())
    stated = {**report, "dataset": "data", "experiment": "webkb/first/grey", "quick": True}
    (tmp_path / "report.json").write_text(json.dumps(stated))
    (one,) = in_order(read_results([tmp_path]), experiments)
    assert (one.dataset, one.column, one.label) == ("data", "grey", "First of paper (quick)")
    assert paper_score(one, experiments) == PaperScore(0.5, None)


def test_a_training_is_compared_with_the_only_row_of_its_model(stored, trainings):
    experiments = read_experiments(stored / "experiments")
    (one,) = read_results([stored / "results" / "webkb" / "first" / "red"])
    assert (one.experiment, one.report["model"]) == ("", "gcn")
    assert paper_score(one, experiments) is None  # on another dataset only
    one.report.update(dataset="grey", input={"data": "grey"})
    assert paper_score(one, experiments) == PaperScore(0.01, 0.02)
    one.report["model"] = "mgnni"
    assert paper_score(one, experiments) == PaperScore(0.5, None)
    one.report["input"] = {"data": "/home/me/grey"}  # other data of the same name
    assert paper_score(one, experiments) is None


@pytest.mark.parametrize(("scales", "mean"), [((1, 2), 0.8486), ((2,), None)])
def test_mgnni_is_compared_with_its_own_row_if_rows_differ_in_their_scales(stored, scales, mean):
    (one,) = read_results([stored / "results" / "webkb" / "first" / "red"])
    config = find_preset("texas", "node", "paper", "mgnni").to_dict()
    config["model"] = {**config["model"], "scales": scales}
    one.report.update(model="mgnni", dataset="texas", input={"data": "texas"}, config=config)
    found = paper_score(one, read_experiments())
    assert (found and found.mean) == mean


@pytest.mark.parametrize(
    ("dataset", "metric", "compared"),
    [
        ("cornell", "accuracy", True),
        ("cornell", "roc_auc", False),
        ("ppi-recon", "micro_f1", True),
        ("ppi-recon", "macro_f1", False),
    ],
)
def test_a_training_is_compared_with_the_paper_by_the_metric_of_the_benchmark(
    stored, dataset, metric, compared
):
    (one,) = read_results([stored / "results" / "webkb" / "first" / "red"])
    one.report.update(model="gat", dataset=dataset, metric=metric, input={"data": dataset})
    assert (paper_score(one, read_experiments()) is not None) == compared


def test_without_definitions_there_are_no_numbers_of_a_paper(tmp_path):
    assert read_experiments(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("entry", "score"),
    [
        ({"paper": {"red": [25, None]}}, PaperScore(0.25, None)),
        ({"paper_hops": {"red": 25}}, None),
        ({"paper_seconds": {"red": [25, None]}}, None),
    ],
)
def test_published_distances_and_times_are_not_shown_as_scores(stored, tmp_path, entry, score):
    write_definition(tmp_path / "webkb.json", rows=[{"name": "first", **entry}])
    (one,) = read_results([stored / "results" / "webkb" / "first" / "red"], {("webkb", "first")})
    assert paper_score(one, read_experiments(tmp_path)) == score


def test_columns_have_the_order_and_titles_of_their_definition(stored, tmp_path):
    options = {"split": "shuffle", "loops": True}
    columns = [
        {"name": "20", "data": "chains", "options": {"length": 20, **options}},
        {"name": "100", "data": "chains", "options": {"length": 100, **options}},
        {"name": "far-20", "label": "20", "options": {"length": 20, "places": "far", **options}},
        {"name": "0.5", "label": "γ = 0.5", "data": "chains", "options": options},
        {"name": "texas", "label": "Texas", "options": options},
    ]
    write_definition(
        tmp_path / "webkb.json", title="How far?", columns=columns, rows=[{"name": "first"}]
    )
    report = json.loads((stored / "results/webkb/first/red/report.json").read_text())
    for name in ("0.5", "100", "20", "far-20", "other", "texas"):
        folder = tmp_path / "webkb" / "first" / name
        folder.mkdir(parents=True)
        dataset = name if name == "texas" else "chains"
        stated = {**report, "dataset": dataset, "experiment": f"webkb/first/{name}"}
        (folder / "report.json").write_text(json.dumps(stated))
    found = in_order(read_results([tmp_path / "webkb"]), read_experiments(tmp_path))
    assert [one.place for one in found] == [
        "chains, length 20",
        "chains, length 100",
        "chains, length 20, far",
        "chains, γ = 0.5",
        "Texas",
        "chains, other",
    ]
    assert headings(found)[0] == "first on chains, length 20 (webkb)"
    assert labels(found[:2]) == ["first, length 20", "first, length 100"]
    assert {one.title for one in found} == {"How far?"}


def test_equal_trainings_are_told_apart_by_their_folders(trainings, tmp_path):
    for name in ("a/run", "b/run", "c"):
        shutil.copytree(trainings / "two", tmp_path / name)
    found = read_results([tmp_path])
    assert labels(found)[2] == "gcn (c)"
    assert len(set(labels(found))) == len(set(headings(found))) == 3


def test_long_labels_are_cut_in_the_middle_and_stay_different():
    assert plain("a" * 28) == "a" * 28
    assert plain("MGNNI, released code, on Squirrel, filtered") == "MGNNI, releas…rrel, filtered"
    assert plain("a <b>") == "a &lt;b&gt;"
    names = [f"{'x' * 40} {middle} {'y' * 40}" for middle in "ab"]
    assert len(set(categories(names)["ticktext"])) == 2
    assert len(set(categories(["a", "a"])["ticktext"])) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.pop("runs"),
        lambda report: report.update(runs=[]),
        lambda report: report["score"].update(mean="high"),
        lambda report: report["score"].update(mean=float("nan")),
        lambda report: report.update(dataset=3),
        lambda report: report["confusion"].update(counts=[[1]]),
        lambda report: report["classification"].update(classes=[]),
        lambda report: report.update(solver=None),
        lambda report: report.update(seconds=10**400),
        lambda report: report.update(portfolio={"chosen": "mlp", "candidates": []}),
        lambda report: report.update(parts=[{"seeds": [0]}]),
        lambda report: report.update(attention={"nodes": [1], "predicted": [], "weights": []}),
    ],
)
def test_a_report_that_is_wrong_is_refused(trainings, tmp_path, change):
    shutil.copytree(trainings / "two", tmp_path / "bad")
    file = tmp_path / "bad" / "report.json"
    report = json.loads(file.read_text())
    change(report)
    file.write_text(json.dumps(report))
    with pytest.raises(DataError, match=r"report\.json: is not a report of mgnni train"):
        write_page([tmp_path / "bad"], tmp_path / "report.html")


def test_folders_without_results_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        read_results([tmp_path / "none"])
    with pytest.raises(DataError, match="found none"):
        read_results([tmp_path])
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        read_results([tmp_path])


def test_a_report_of_another_command_is_left_out_among_others(trainings, tmp_path):
    shutil.copytree(trainings, tmp_path / "runs")
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "report.json").write_text('{"command": "quickstart"}')
    assert len(read_results([tmp_path / "runs"])) == 2


def test_a_single_report_of_another_command_is_named(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps({"command": "minibatch", "data": "cora"}))
    with pytest.raises(DataError, match=r"mgnni train \(got one of mgnni minibatch\)"):
        read_results([tmp_path])


def test_a_thinned_curve_keeps_its_ends():
    curve = Curve(list(range(1, 1001)), [1 / n for n in range(1, 1001)], [], [0.5] * 1000)
    thin = curve.thinned(20)
    assert (len(thin.epoch), thin.epoch[0], thin.epoch[-1]) == (20, 1, 1000)
    assert thin.loss == [1 / epoch for epoch in thin.epoch]
    assert thin.val_loss == []
    assert curve.thinned(1000) == curve


def test_curves_are_those_of_the_log(trainings, tmp_path):
    folder = trainings / "two"
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    curves = read_curves(folder)
    assert list(curves) == [(0, 0), (1, 0)]
    assert curves[1, 0].loss == [row["loss"][1] for row in log]
    assert read_curves(tmp_path) == {}
    (tmp_path / "log.jsonl").write_text('{"epoch": 1, "split": [0], "seed": [0]}\n')
    with pytest.raises(DataError, match=r"log\.jsonl, line 1"):
        read_curves(tmp_path)
    row = {"epoch": 1, "split": [0], "seed": [0], "loss": [float("nan")]}
    for wrong in (json.dumps({**row, "val_loss": [], "val_metric": []}).encode(), b"\xff\xfe"):
        (tmp_path / "log.jsonl").write_bytes(wrong)
        with pytest.raises(DataError, match=r"log\.jsonl, line 1"):
            read_curves(tmp_path)


def test_the_hostile_name_is_in_the_data(trainings):  # or the tests of the page show nothing
    assert all(HOSTILE in one.dataset for one in read_results([trainings]))


def test_only_experiments_on_accuracy_have_published_scores():
    found = read_experiments().items()
    scored = {
        name
        for name, one in found
        if any(
            published_score(one, row.name, column.name)
            for row in one.rows
            for column in one.columns
        )
    }
    assert scored == {"heterophilic", "ppi", "graphs", "scales", "chains"}


def test_tables_of_the_paper_come_first_in_their_order():
    names = list(read_experiments())
    tables = ["heterophilic", "ppi", "graphs", "scales", "gamma", "efficiency", "attention"]
    assert names[: len(tables)] == tables  # Tables 1 to 7
    assert names[len(tables) :] == sorted(names[len(tables) :])
