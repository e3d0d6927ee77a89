import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects
import pytest
import torch
from torch_geometric.data import Data

from html_report.conftest import HOSTILE
from html_report.definitions import write_definition
from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.html_report.page import check_target, make_page, write_page, write_training_page
from mgnni.html_report.paper import in_order, read_experiments
from mgnni.html_report.results import read_results, trained
from mgnni.train.fit import fit
from train.cases import graph_task

REPRODUCTION = Path(__file__).parents[2] / "reproduction"
VOID = {"meta", "link", "br", "img"}


class Outline(HTMLParser):
    """Elements, headings, anchors, links and figures of a page; tags must be balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.headings, self.ids, self.links, self.specs = [], [], [], [], []
        self._open, self._spec = [], False
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self._spec = found.get("type") == "application/json"

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._spec:
            self.specs.append(json.loads(data))
            self._spec = False


@pytest.fixture(scope="module")
def page(trainings, stored):
    """The text of a page, without plotly.js."""
    experiments = read_experiments(stored / "experiments")
    results = in_order(read_results([trainings, stored / "results"]), experiments)
    return make_page(results, experiments, "/* plotly */")


def test_the_structure_is_that_of_an_accessible_page(page):
    found = Outline(page)
    assert ("html", {"lang": "en"}) in found.tags
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    steps = zip(found.headings, found.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert len(set(found.ids)) == len(found.ids)
    assert all(link[1:] in found.ids for link in found.links)  # every link is an anchor here
    plots = [attrs for _, attrs in found.tags if attrs.get("class") == "plot"]
    assert len(plots) == len(found.specs) > 0
    assert all(plot["role"] == "img" and len(plot["aria-label"]) > 20 for plot in plots)
    tags = [tag for tag, _ in found.tags]
    parts = [tag for tag, attrs in found.tags if attrs.get("class") != "fold"]
    figures = [tag for tag in parts if tag in ("figure", "details", "figcaption")]
    assert figures == ["figure", "figcaption", "details"] * len(plots)
    after = [tags[place + 1] for place, tag in enumerate(tags) if tag == "figure"]
    assert set(after) == {"figcaption"}  # allowed as the first or the last element only


def plotly_figure(spec):
    text = json.dumps(spec)
    for name in re.findall(r'"(@[^"]*)"', text):  # names of colours
        text = text.replace(f'"{name}"', '"#123456"')
    return plotly.graph_objects.Figure(json.loads(text))


def test_every_figure_is_one_that_plotly_accepts(page):
    assert all(plotly_figure(spec).data for spec in Outline(page).specs)


def test_text_from_data_is_never_markup(page):
    text, found = page, Outline(page)
    assert HOSTILE not in text
    assert "onerror" in text  # it is there, escaped
    assert {tag for tag, _ in found.tags} & {"img", "iframe", "object", "embed", "base"} == set()
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    for spec in found.specs:  # Plotly shows a subset of HTML in labels
        assert "<img" not in json.dumps(spec)


def test_nothing_is_loaded_from_elsewhere(page):
    text, found = page, Outline(page)
    assert "http://" not in text
    assert "https://" not in text
    assert [attrs["href"] for tag, attrs in found.tags if tag == "link"] == ["data:,"]
    assert "default-src 'none'" in text


def test_scores_are_shown_with_their_mark_and_the_paper(page, trainings):
    text = page
    marked = next(one for one in read_results([trainings]) if one.mark)
    score = f"{100 * marked.mean:.2f} ± {100 * marked.std:.2f}{marked.mark}"
    assert score in text
    assert "This score was chosen with the labels it is tested on." in text
    assert "64.05 ± 5.28" in text
    difference = f"{100 * marked.mean - 64.05:+.2f}".replace("-", "−")
    assert difference in text


def test_what_a_result_is_worth_is_drawn(tmp_path):
    options = {"hidden_channels": 4, "epochs": 3, "device": "cpu", "output": tmp_path / "run"}
    report = fit(graph_task(count=60, splits=1), **options).report
    text = make_page(read_results([tmp_path / "run"]), {}, "")
    titles = re.findall(r"<figcaption><h4>([^<]*)</h4>", text)
    worth = ["Classes", "Calibration", "ROC curve", "Precision-recall curve"]
    assert [title for title in titles if title in worth] == worth
    area = report["classification"]["curves"]["roc"]["area"]
    assert report["runs"][0]["test"]["roc_auc"] == pytest.approx(area)
    assert f"ROC AUC: {100 * area:.2f} %" in text
    ends = report["classification"]["interval"]
    assert f"{100 * ends['low']:.2f} to {100 * ends['high']:.2f} %, by" in text
    assert all(plotly_figure(spec).data for spec in Outline(text).specs)


def test_errors_of_several_runs_are_told_apart_from_the_run_that_is_drawn(tmp_path):
    nodes = torch.arange(20)
    edges = torch.stack([torch.cat([nodes, 19 - nodes]), torch.cat([19 - nodes, nodes])])
    graph = Data(x=torch.eye(20), edge_index=edges, y=nodes.double())
    options = {"model": "linear", "task": "regression", "epochs": 2, "device": "cpu"}
    fit(graph, num_splits=2, split="all", output=tmp_path / "run", **options)
    text = make_page(read_results([tmp_path / "run"]), {}, "")
    assert re.search(r"<dd>[^<]*: MAE [^<]*, R² [^<]*, mean over 2 runs</dd>", text)
    assert ">model, mean over 2 runs</th>" in text
    assert "test rows of the best run on validation data, split " in text


def changed(folder, change, names=("run",)):
    """Copies of a training with a changed report, below a folder."""
    for name in names:
        target = folder.parent / "changed" / name
        shutil.copytree(folder, target)
        report = json.loads((target / "report.json").read_text())
        change(report, name)
        (target / "report.json").write_text(json.dumps(report))
    return folder.parent / "changed"


def test_results_of_an_experiment_are_a_table_with_both_rules_and_the_paper(page, stored):
    overview = page[page.index('id="overview"') : page.index('id="scores"')]
    row = re.search(r"<tr><th[^>]*>First of paper</th>(.*?)</tr>", overview)[1]
    report = json.loads((stored / "results/webkb/first/red/report.json").read_text())
    shown = {
        rule: f"{100 * one['mean']:.2f} ± {100 * one['std']:.2f}"
        for rule, one in report["scores"].items()
    }
    score, fair, paper = re.sub(r"<(?!br)[^>]*>", "", row).split("<br>")
    assert score == shown["test-max"] + "†"
    assert fair == f"validation {shown['validation']}"
    difference = f"{100 * report['score']['mean'] - 64.05:+.2f}".replace("-", "−")
    assert paper == f"paper 64.05 ± 5.28 ({difference})"
    assert "by rule test-max†" in overview
    part = overview[overview.index("First of paper") :].split("</section>")[0]
    assert "<strong>†</strong> test-max: " in part  # beside the table


@pytest.fixture
def marked(trainings, tmp_path):
    """A training that is scored with test labels, to be changed."""
    shutil.copytree(trainings / "two", tmp_path / "two")
    return tmp_path / "two"


def test_equal_scores_of_several_runs_are_not_one_run(marked):
    root = changed(marked, lambda report, _: report.update(score={"mean": 1.0, "std": 0.0, "n": 2}))
    text = make_page(read_results([root]), {}, "")
    assert "100.00 ± 0.00† % (mean ± standard deviation of 2 runs)" in text
    assert "one run" not in text


def test_every_rule_with_a_mark_has_its_own_note(marked):
    def set_rule(report, name):
        report["protocol"] |= {"rule": name, "description": f"described as {name}"}

    root = changed(marked, set_rule, ("fold-max", "test-max"))
    text = make_page(read_results([root]), {}, "")
    overview = text[: text.index('id="scores"')]
    for rule in ("fold-max", "test-max"):
        assert overview.count(f"<strong>†</strong> {rule}: described as {rule}.") == 1
    assert "The score is of other epochs, by the rule fold-max." in text  # than the matrix


def test_results_of_an_experiment_on_times_are_seconds(marked, tmp_path):
    def set_place(report, name):
        report |= {"experiment": name, "timing": {"epoch": 1.2345}}

    row = {"name": "gcn", "paper_seconds": {"red": [4.5, None]}}
    write_definition(tmp_path / "definitions" / "times.json", kind="seconds", rows=[row])
    results = read_results([changed(marked, set_place, ("times/gcn/red",))])
    text = make_page(results, read_experiments(tmp_path / "definitions"), "")
    assert 'runs">1.23</a><br><small>paper 4.5</small>' in text
    assert 'runs">1.23</a>' not in make_page(results, {}, "")


@pytest.mark.parametrize(
    ("seeds", "note"),
    [
        ({}, None),
        ({"seeds": 3}, "<small>2 of 6 runs</small>"),
        ({"seeds": 3, "rows": [{"name": "gcn", "seeds": 4}]}, "<small>2 of 8 runs</small>"),
        ({"seeds": 3, "columns": [{"name": "red", "seeds": 1}]}, None),
    ],
)
def test_a_result_with_fewer_runs_than_its_experiment_is_marked(marked, tmp_path, seeds, note):
    def set_place(report, name):
        report["experiment"] = name

    write_definition(tmp_path / "definitions" / "scores.json", **seeds)
    results = read_results([changed(marked, set_place, ("scores/gcn/red",))])
    text = make_page(results, read_experiments(tmp_path / "definitions"), "")
    assert (note or "") in text
    assert text.count(" runs</small>") == (note is not None)


@pytest.mark.parametrize("name", ["data", "parameters", "versions", "input", "options"])
def test_a_report_with_a_wrong_entry_is_named(marked, tmp_path, name):
    root = changed(marked, lambda report, _: report.update({name: "wrong"}))
    with pytest.raises(DataError, match=r"report\.json: is not a report of mgnni train"):
        write_page([root], tmp_path / "page.html")


def test_a_class_without_predictions_is_a_gap_and_not_zero(marked):
    def set_classes(report, _):
        first, second, *_ = report["classification"]["classes"]
        first |= {"precision": None, "recall": 0.0}
        second |= {"precision": 0.25, "recall": None}

    root = changed(marked, set_classes)
    specs = Outline(make_page(read_results([root]), {}, "")).specs
    bars = {one["name"]: one["x"] for spec in specs for one in spec["data"] if "name" in one}
    assert {None, 25.0} <= set(bars["precision"])
    assert {None, 0.0} <= set(bars["recall"])


def test_the_lowest_recall_is_that_of_all_classes(marked):
    def set_classes(report, _):
        usual = {"precision": 0.5, "recall": 0.5, "f1": 0.5}
        classes = [{**usual, "name": f"class {k}", "support": 100 - k} for k in range(50)]
        classes[-1]["recall"] = 0.01  # the rarest, which has no bar
        report["classification"]["classes"] = classes

    text = make_page(read_results([changed(marked, set_classes)]), {}, "")
    assert "Lowest recall: class class 49, 1.00 %" in text


def test_copies_of_a_training_are_counted_once(marked):
    def set_place(report, name):
        report["experiment"] = name
        if name != "a/x/red":
            report["copy_of"] = {"b/x/red": "a/x/red", "c/x/red": "b/x/red"}[name]

    root = changed(marked, set_place, ("c/x/red", "b/x/red", "a/x/red"))
    results = read_results([root])
    assert [one.experiment for one in results] == ["a", "b", "c"]
    assert trained(results) == results[:1]
    text = make_page(results, {}, "")
    assert "1 training with 2 runs on 1 dataset" in text
    assert "Copies of them in other experiments: 2." in text
    assert "of a/x/red, which is the same training" in text
    assert len(trained(read_results([root / "b", root / "c"]))) == 1  # without the original


def test_the_best_mean_is_named_only_among_comparable_results(marked):
    means = {"a": 0.5, "b": 0.75}

    def best(more=lambda report, name: None):
        def change(report, name):
            report["score"]["mean"] = means[name]
            more(report, name)

        root = changed(marked, change, means)
        text = make_page(read_results([root]), {}, "")
        shutil.rmtree(root)
        return "Best mean" in text

    def other_splits(report, name):
        if name == "a":
            report["runs"] = report["runs"][:1]
            report["classification"]["runs"] = report["classification"]["runs"][:1]

    def other_rows(report, name):
        report["data"]["split_fingerprints"] = [name, name]

    assert best()
    assert best(lambda report, name: name == "a" and report["data"].pop("split_fingerprints"))
    assert not best(other_rows)
    assert not best(lambda report, name: report["protocol"].update(rule=name)), "two rules"
    assert not best(other_splits)
    assert not best(lambda report, name: report["score"].update(mean=0.5)), "both are the best"


def test_a_result_with_added_seeds_says_where_each_was_trained(marked):
    def add(report, _):
        part = {"versions": {"mgnni": "0.1.0"}, "device": "cpu (1 thread)"}
        report["seconds"] = 50.0
        report["parts"] = [
            {**part, "seeds": [0, 1], "seconds": 20.0, "commit": "0123456789abcdef+"},
            {**part, "seeds": [2], "seconds": 30.0, "commit": "f" * 40, "device": "cuda (H200)"},
        ]

    text = make_page(read_results([changed(marked, add)]), {}, "")
    assert (
        "<dd>50.0 s: seeds 0, 1: 20.0 s on cpu (1 thread); seed 2: 30.0 s on cuda (H200)</dd>"
        in text
    )
    assert (
        "<dd>seeds 0, 1: mgnni 0.1.0, commit 0123456789ab+; seed 2: mgnni 0.1.0, "
        f"commit {'f' * 12}</dd>" in text
    )
    assert ">cpu (1 thread), cuda (H200)</td>" in text, "in the table of times"


def portfolio_rows(text):
    """The rows of the table of compared models, as text."""
    (found,) = re.findall(r"<caption><span>Models compared for .*?</table>", text)
    rows = re.findall(r"<tr>(.*?)</tr>", found)
    return [re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in rows]


def test_the_choice_of_a_model_is_shown_with_everything_that_was_tried(tmp_path):
    few = {"hidden_channels": 4, "epochs": 2, "device": "cpu", "output": tmp_path / "run"}
    report = fit(graph_task(splits=1), model="auto", **few).report
    text = make_page(read_results([tmp_path / "run"]), {}, "")
    record = report["portfolio"]
    head, *rows = portfolio_rows(text)
    assert head == ["Model", "Choice", "Validation %", "Epochs", "Seconds per epoch"]
    assert len(rows) > 3
    for row, one in zip(rows, record["candidates"], strict=True):
        choice = "chosen" if one["name"] == record["chosen"] else "–"
        assert row[:4] == [one["name"], choice, f"{100 * one['validation']:.2f}", "2"]
    scores = [float(row[2]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[0][1] == "chosen"
    assert Outline(text).headings  # balanced tags


def test_a_model_that_failed_or_was_left_out_is_named_with_its_reason(tmp_path):
    few = {"hidden_channels": 4, "epochs": 2, "device": "cpu", "output": tmp_path / "run"}
    fit(graph_task(splits=1), model="auto", **few)
    file = tmp_path / "run" / "report.json"
    report = json.loads(file.read_text())
    last = report["portfolio"]["candidates"][-1]
    last |= {"validation": None, "seconds_per_epoch": None, "error": f"diverged {HOSTILE}"}
    report["portfolio"] |= {"left_out": {"gin": "no option scales"}, "notes": ["mlp is as good"]}
    file.write_text(json.dumps(report))
    text = make_page(read_results([tmp_path / "run"]), {}, "")
    assert portfolio_rows(text)[-1][:3] == [last["name"], "failed", "–"]
    assert f"Note: {last['name']} failed: diverged &lt;img" in text
    assert "Note: gin was left out: no option scales" in text
    assert "Note: mlp is as good" in text


def test_a_training_of_a_given_model_shows_no_choice(page):
    assert "Choice of the model" not in page


def test_a_written_page_is_small_enough_and_repeats(trainings, tmp_path):
    for name in ("a.html", "b.html"):
        assert write_page([trainings], tmp_path / name) == 2
    one, other = ((tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert one == other
    assert 1e6 < len(one) < 8e6  # plotly.js is in it, once


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The report on all stored results of the repository."""
    if not REPRODUCTION.is_dir():
        pytest.skip("the stored results are in the repository only")
    target = tmp_path_factory.mktemp("all") / "all.html"
    write_page([REPRODUCTION], target)
    return target


def test_all_stored_results_fit_into_one_file(everything):
    assert everything.stat().st_size < 8e6


def test_all_stored_results_can_be_told_apart(everything):
    text = everything.read_text("utf-8")
    found = re.findall(r"<h4[^>]*>(.*?)</h4>", text)
    assert len(found) == len(set(found)) > 100
    assert "Scores on chains, γ = 0.5: Change of the states along a chain" in text
    for spec in Outline(text).specs:
        labels = spec["layout"]["yaxis"].get("ticktext", [])
        assert len(labels) == len(set(labels))
    tall = [int(pixels) for pixels in re.findall(r'style="height:(\d+)px', text)]
    assert max(tall) < 4000


def test_only_a_report_is_replaced(trainings, tmp_path):
    target = tmp_path / "report.html"
    check_target(target)
    write_page([trainings], target)
    check_target(target)
    (tmp_path / "thesis.html").write_text("precious")
    for wrong in (tmp_path / "thesis.html", tmp_path, tmp_path / "no" / "report.html"):
        with pytest.raises(ArgumentError, match="'output' must be"):
            check_target(wrong)


def test_without_plotly_the_command_is_named(trainings, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MgnniError, match=r"pip install 'mgnni\[cli\]'"):
        write_page([trainings], tmp_path / "report.html")


def test_a_page_that_cannot_be_written_is_a_note(tmp_path):
    notes = []
    write_training_page(tmp_path, notes.append)
    assert len(notes) == 1
    assert "report.html was not written" in notes[0]
