"""``mgnni quickstart`` from the outside: what it prints and writes."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mgnni.cli.quickstart import hop_bins
from mgnni.train.fit import fit

Call = Callable[..., Any]  # see conftest.py
TINY = ["quickstart", "--length", "15", "--chains", "5", "--epochs", "2", "--runs", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny") / "new" / "folder"


@pytest.fixture(scope="module")
def ended(call: Call, folder: Path) -> Any:
    return call(*TINY, "--output", folder)


@pytest.fixture(scope="module")
def report(ended: Any, folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return loaded


def row(text: str, label: str) -> list[str]:
    """The cells of the line of the table that begins with the label."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label + "  ")]
    return [cell.strip() for cell in line.strip().removeprefix(label).strip().split("  ") if cell]


def test_it_succeeds_and_names_what_it_saved(ended: Any, folder: Path) -> None:
    assert ended.status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["accuracy.png", "report.json"]
    assert (folder / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    last = ended.out[ended.out.index("Saved") :]
    assert str(folder / "accuracy.png") in last
    assert str(folder / "report.json") in last
    assert "from mgnni import MGNNI" in last


def test_the_table_shows_the_numbers_of_the_report(ended: Any, report: dict[str, Any]) -> None:
    models = report["models"]

    def shown(values: list[dict[str, Any]]) -> list[str]:
        return [f"{100 * v['mean']:.1f} ± {100 * v['std']:.1f}" for v in values]

    assert [model["name"] for model in models] == ["MGNNI {1}", "MGNNI {1, 4, 8}"]
    for index, (first, last) in enumerate([(0, 0), (1, 2), (3, 4), (5, 5)]):
        parts = [model["by_distance"][index] for model in models]
        assert [part["hops"] for part in parts] == [[first, last]] * 2
        label = f"{first} to {last} hops away" if last else "coloured nodes"
        label = label.replace("5 to 5", "5")
        assert row(ended.out, label) == shown(parts)
    assert row(ended.out, "all nodes") == shown([model["test_accuracy"] for model in models])
    exact = [model["float64"]["test_accuracy"] for model in models]
    assert row(ended.out, "all nodes, solved to 1e-12 in float64") == shown(exact)
    assert row(ended.out, "solver") == [", ".join(m["forward"]["solvers"]) for m in models]
    for label, direction, key in (
        ("relative residual (tol 1e-6)", "forward", "relative_residual"),
        ("certified relative error, states", "forward", "relative_error_bound"),
        ("certified relative error, gradients", "backward", "relative_error_bound"),
    ):
        assert row(ended.out, label) == [f"{m[direction][key]:.1e}" for m in models]


def test_the_report_is_complete_and_agrees_with_itself(report: dict[str, Any]) -> None:
    assert report["command"] == "quickstart"
    assert report["config"]["length"] == 15
    assert report["config"]["num_chains_per_class"] == 5
    assert report["config"]["epochs"] == report["config"]["num_splits"] == 2
    assert report["versions"]["torch"] == torch.__version__
    assert report["seconds"] >= sum(model["seconds"] for model in report["models"])
    for model in report["models"]:
        for part in (model, model["float64"]):
            by_hop = part["by_hop"]
            assert [point["hop"] for point in by_hop] == [0, 1, 2, 3, 4, 5]
            for spread in (part["test_accuracy"], *by_hop, *part["by_distance"]):
                assert len(spread["runs"]) == 2
                assert all(0 <= value <= 1 for value in spread["runs"])
                assert spread["mean"] == pytest.approx(statistics.fmean(spread["runs"]))
                assert spread["std"] == pytest.approx(statistics.stdev(spread["runs"]))
            # A chain has ten nodes at hop 0 and one at every other hop.
            total = 10 * by_hop[0]["mean"] + sum(point["mean"] for point in by_hop[1:])
            assert part["test_accuracy"]["mean"] == pytest.approx(total / 15)
        assert all(1 <= epoch <= 2 for epoch in model["best_epoch"])
        # Two runs of two epochs: a pass to train, one to validate; and one to test at the end.
        assert model["forward"]["solves"] == 2 * (2 * 2 + 1) * len(model["scales"])
        assert model["backward"]["solves"] == 2 * 2 * len(model["scales"])
        for direction in ("forward", "backward"):
            assert 0 < model[direction]["relative_residual"] <= report["config"]["tol"]
            assert 0 < model[direction]["relative_error_bound"] < 1e-4
            assert model[direction]["error_bound"] > 0


def test_accuracies_are_those_of_the_test_chains_and_of_every_run(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of the training measured them itself."""
    reports = []
    module = sys.modules[fit.__module__]
    monkeypatch.setattr(module, "fit", lambda *args, **options: kept(fit(*args, **options)))

    def kept(fitted: Any) -> Any:
        reports.append(fitted.report["runs"])
        return fitted

    arguments = ["--chains", "10", "--epochs", "6", "--runs", "4"]
    assert call(*TINY, *arguments, "--output", tmp_path).status == 0
    models = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["models"]
    for model, runs in zip(models, reports, strict=True):
        wanted = [run["test"]["accuracy"] for run in runs]
        assert model["test_accuracy"]["runs"] == pytest.approx(wanted)
        assert wanted != pytest.approx([run["val"]["accuracy"] for run in runs])
    assert any(len({run["test"]["accuracy"] for run in runs}) > 1 for runs in reports)


def test_json_is_alone_on_standard_output_and_a_seed_repeats(
    call: Call, report: dict[str, Any], tmp_path: Path
) -> None:
    ended = call(*TINY, "--json", "--output", tmp_path)
    assert ended.status == 0
    assert ended.out == (tmp_path / "report.json").read_text(encoding="utf-8")

    def lasting(value: Any) -> Any:  # all but times and places
        if isinstance(value, dict):
            return {k: lasting(v) for k, v in value.items() if k not in ("seconds", "files")}
        return [lasting(v) for v in value] if isinstance(value, list) else value

    assert lasting(json.loads(ended.out)) == lasting(report)


def test_it_leaves_the_callers_random_numbers_and_threads_alone(call: Call, tmp_path: Path) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    assert call(*TINY, "--runs", "1", "--output", tmp_path).status == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_single_run_has_no_spread(call: Call, tmp_path: Path) -> None:
    ended = call(*TINY, "--runs", "1", "--length", "11", "--output", tmp_path)
    assert ended.status == 0
    assert "±" not in ended.out
    assert row(ended.out, "1 hops away")


@pytest.mark.parametrize(
    ("hops", "bins"),
    [
        (40, [(0, 0), (1, 10), (11, 20), (21, 30), (31, 40)]),
        (1, [(0, 0), (1, 1)]),
        (5, [(0, 0), (1, 2), (3, 4), (5, 5)]),
    ],
)
def test_bins_cover_every_hop_once(hops: int, bins: list[tuple[int, int]]) -> None:
    assert hop_bins(hops) == bins
