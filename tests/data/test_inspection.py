"""The description of a task against hand-made cases, and the advice that follows from it."""

from __future__ import annotations

import io

import pytest
import torch
from torch_geometric.data import Data

from mgnni.data.inspection.advice import advise
from mgnni.data.inspection.description import describe_task
from mgnni.data.inspection.figure import draw_description
from mgnni.data.split import Split
from mgnni.data.tables.schema import Column, Schema, TableOptions
from mgnni.data.task import Task

NODES = 60


def schema(*columns: Column, **options: object) -> Schema:
    return Schema("node", ("a", "b"), False, columns, False, TableOptions(**options))


def ring_task(
    x: torch.Tensor, labels: torch.Tensor, edges: torch.Tensor | None = None, **options: object
) -> Task:
    """A directed ring; the first half is for training, then validation and test."""
    here = torch.arange(NODES)
    ring = torch.stack([here, (here + 1) % NODES]) if edges is None else edges
    split = Split.of(here[:30], here[30:40], here[40:])
    return Task("ring", [Data(x=x, edge_index=ring)], labels, [split], "ab", **options)


def noise() -> torch.Tensor:
    return torch.randn(NODES, 2, generator=torch.Generator().manual_seed(0))


def alternating() -> torch.Tensor:
    return torch.arange(NODES) % 2


def texts(found: dict[str, object]) -> str:
    return "\n".join(f"{one.warning} {one.text}" for one in advise(found))


NUMBERS = (Column("p", "number"), Column("q", "number"))


def test_sizes_degrees_and_homophily_by_hand():
    #  0 -> 1 -> 2 -> 0, a self-loop at 3, and 4 without edges; classes a a b b a
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 3]])
    x = torch.tensor([[0.0, 2.0], [1.0, 2.0], [0.0, 2.0], [1.0, 2.0], [0.0, 2.0]])
    data, labels = Data(x=x, edge_index=edges), torch.tensor([0, 0, 1, 1, 0])
    split = Split.of(torch.tensor([0, 1, 2]), torch.tensor([3]), torch.tensor([4]))
    found = describe_task(Task("hand", [data], labels, [split], "ab"))
    assert found["graph"] == {
        "graphs": 1,
        "nodes": 5,
        "edges": 4,
        "weighted": False,
        "self_loops": 1,
        "isolated": 2,  # a self-loop is no neighbour
        "reciprocal": 0.0,
    }
    assert found["degree"]["in"]["histogram"] == [1, 4]
    assert (found["degree"]["in"]["mean"], found["degree"]["out"]["max"]) == (0.8, 1)
    assert found["features"]["kinds"] == {"flag": 1, "numeric": 1}
    assert found["features"]["constant"] == 1
    # Training and validation rows: a a b b.
    assert [one["share"] for one in found["classes"]] == [0.5, 0.5]
    assert found["majority"] == {"class": "a", "share": 0.5}
    # One of three edges joins a class; ends are a a, a b, b a: 4 of a, 2 of b.
    chance = (4 / 6) ** 2 + (2 / 6) ** 2
    assert found["homophily"]["edge"] == pytest.approx(1 / 3)
    assert found["homophily"]["adjusted"] == pytest.approx((1 / 3 - chance) / (1 - chance))
    assert [one["share"] for one in found["homophily"]["by_class"]] == [0.5, 0.0]


def test_unrelated_neighbours_are_advised_on():
    """Labels a a b b again and again: as many edges join a class as by chance."""
    here = torch.arange(NODES)
    edges = torch.stack([here[:36], (here[:36] + 1) % NODES])
    found = describe_task(ring_task(noise(), here // 2 % 2, edges))
    assert found["homophily"]["adjusted"] == 0
    assert "neighbours hardly share their class (adjusted homophily 0.00)" in texts(found)


@pytest.mark.parametrize(
    ("model", "head", "said"),
    [
        (None, None, "mlp, which ignores the edges, and try --model mgnni --head residual, which"),
        ("mgnni", "linear", "mlp, which ignores the edges, and try --head residual, which"),
        ("mgnni", "residual", "compare with --model mlp, which ignores the edges"),
        ("gcn", None, "compare with --model mlp, which ignores the edges"),
        ("mlp", None, None),
    ],
)
def test_advice_has_options_of_the_model_only(
    model: str | None, head: str | None, said: str | None
) -> None:
    here = torch.arange(NODES)
    edges = torch.stack([here[:36], (here[:36] + 1) % NODES])
    of_classes = describe_task(ring_task(noise(), here // 2 % 2, edges))
    numbers = (here // 2 % 2).float()[:, None]
    split = Split.of(here[:30], here[30:40], here[40:])
    data = Data(x=noise(), edge_index=edges)
    of_numbers = describe_task(Task("ring", [data], numbers, [split], "y", regression=True))
    for found in (of_classes, of_numbers):
        found["options"] |= {"model": model, "head": head}
        lines = [line for line in texts(found).splitlines() if "neighbours hardly" in line]
        assert len(lines) == (said is not None)
        assert said is None or said in lines[0]
        assert ("residual" in str(lines)) == ("residual" in str(said))


def test_few_test_rows_are_averaged_over_several_splits_once() -> None:
    task = ring_task(noise(), alternating())
    one, two = (texts(describe_task(task.with_splits(task.splits * n))) for n in (1, 2))
    said = "one of them changes the accuracy by 5.0 points; "
    assert f"20 test rows: {said}average over several splits" in one
    assert f"20 test rows in a split: {said}look at the mean over the splits" in two


def test_a_description_does_not_depend_on_test_labels():
    other = alternating()
    other[40:] = 1 - other[40:]
    first, second = (describe_task(ring_task(noise(), y)) for y in (alternating(), other))
    assert first == second


def test_features_are_counted_by_kind():
    columns = (
        Column("age", "number", missing=True),
        Column("country", "category", ("de", "fr", "it")),
        Column("member", "bool"),
    )
    x = torch.zeros(NODES, 6)
    x[:, 0] = noise()[:, 0]
    found = describe_task(ring_task(x, alternating()), schema(*columns))
    kinds = {"numeric": 1, "missing-value flag": 1, "one-hot": 3, "flag": 1}
    assert found["features"]["kinds"] == kinds
    assert (found["features"]["count"], found["features"]["columns"]) == (6, 3)


def test_edges_listed_once_are_a_warning_unless_direction_was_given():
    task = ring_task(noise(), alternating())
    said = "True no edge has its reverse: if your edges are undirected, pass --directed false"
    assert said in texts(describe_task(task, schema(*NUMBERS)))
    assert said not in texts(describe_task(task, schema(*NUMBERS, directed=True)))
    assert said not in texts(describe_task(task))  # a benchmark is as it is
    here = torch.arange(NODES)
    one_back = torch.cat([task.graphs[0].edge_index, torch.stack([here[1:2], here[:1]])], 1)
    found = describe_task(ring_task(noise(), alternating(), one_back), schema(*NUMBERS))
    assert found["graph"]["reciprocal"] == pytest.approx(2 / (NODES + 1))
    assert said not in texts(found)


def test_twins_have_the_same_features_and_neighbours():
    # Leaves 1, 2 (training) and 41, 42, 43 (test) of node 0; 43 is linked the other way round.
    x = torch.zeros(NODES, 2)
    x[42, 0] = 1  # the same neighbour, but other features
    x[:, 1] = torch.arange(NODES)
    x[[1, 2, 41, 42, 43], 1] = 7.0
    edges = torch.tensor([[1, 2, 41, 42, 0], [0, 0, 0, 0, 43]])
    found = describe_task(ring_task(x, alternating(), edges))["twins"]
    assert (found["count"], found["test"], found["share"]) == (1, 20, 1 / 20)
    assert found["same_targets"] == pytest.approx(2 / 20)  # 41 and 42


def test_a_graph_with_its_nodes_in_another_order_is_a_twin():
    g = torch.Generator().manual_seed(0)
    graphs = []
    for _ in range(3):
        x = torch.randn(5, 2, generator=g)
        graphs.append(Data(x=x, edge_index=torch.randint(5, (2, 8), generator=g)))
    order = torch.tensor([3, 1, 4, 0, 2])
    place = torch.argsort(order)
    graphs.append(Data(x=graphs[0].x[order], edge_index=place[graphs[0].edge_index]))
    split = Split.of(torch.tensor([0, 1]), torch.tensor([], dtype=torch.long), torch.tensor([2, 3]))
    task = Task("few", graphs, torch.tensor([0, 1, 0, 1]), [split], "ab", level="graph")
    found = describe_task(task)
    assert (found["twins"]["count"], found["twins"]["same_targets"]) == (1, None)
    assert found["homophily"] is None


def test_a_column_that_is_the_label_or_an_id_is_found():
    x = noise()
    x[:, 0] = 3.0 * alternating() + 0.1 * x[:, 0]
    x[:, 1] = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    found = describe_task(ring_task(x, alternating()), schema(*NUMBERS))
    assert [one["column"] for one in found["suspicious"]["labels"]] == ["p"]
    assert found["suspicious"]["labels"][0]["accuracy"] == 1.0
    assert found["suspicious"]["ids"] == ["q"]
    assert "True column 'p' alone predicts 100.0 % of the training labels" in texts(found)
    plain = describe_task(ring_task(noise(), alternating()), schema(*NUMBERS))["suspicious"]
    assert plain == {"ids": [], "labels": []}
    # Scaling hides neither.
    mean, deviation = float(x[:, 1].mean()), float(x[:, 1].std())
    x[:, 1] = (x[:, 1] - mean) / deviation
    scaled = (NUMBERS[0], Column("q", "number", mean=mean, deviation=deviation))
    assert describe_task(ring_task(x, alternating()), schema(*scaled))["suspicious"]["ids"] == ["q"]
    priced = (NUMBERS[0], Column("q", "number", mean=mean, deviation=deviation, symbol="€"))
    assert describe_task(ring_task(x, alternating()), schema(*priced))["suspicious"]["ids"] == []


def test_a_category_that_tells_the_label_is_found():
    words = Column("word", "category", ("x", "y", "z"))
    place = torch.where(alternating() == 1, 2, torch.arange(NODES) // 2 % 2)
    found = describe_task(ring_task(torch.eye(3)[place], alternating()), schema(words))
    assert [one["column"] for one in found["suspicious"]["labels"]] == ["word"]


def test_a_rare_class_is_named_with_a_remedy():
    labels = torch.zeros(NODES, dtype=torch.long)
    labels[[3, 50]] = 1
    found = describe_task(ring_task(noise(), labels), schema(*NUMBERS))
    assert [one["rare"] for one in found["classes"]] == [False, True]
    said = texts(found)
    assert "rare classes: b (2.5 %): pass --class-weight balanced" in said
    assert "pass --metric roc_auc: always answering 'a' has an accuracy of 97.5 %" in said


def test_a_class_without_a_training_row_is_not_to_be_balanced() -> None:
    labels = torch.zeros(NODES, dtype=torch.long)
    labels[35] = 1
    said = texts(describe_task(ring_task(noise(), labels), schema(*NUMBERS)))
    assert "classes without a training row, which no model can learn: 'b'; move some of" in said
    assert "balanced" not in said


def test_several_labels_have_shares_and_no_majority():
    labels = torch.stack([alternating(), torch.ones(NODES)], 1).float()
    found = describe_task(ring_task(noise(), labels))
    assert [one["share"] for one in found["classes"]] == [0.5, 1.0]
    assert found["majority"] is None
    assert found["homophily"] is None


@pytest.mark.parametrize("several", [False, True])
def test_the_picture_is_a_png(several):
    labels = torch.stack([alternating()] * 2, 1).float() if several else alternating()
    file = io.BytesIO()
    draw_description(describe_task(ring_task(noise(), labels)), file)
    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize(("factor", "found"), [(1.0, []), (1e-30, []), (1e30, []), (None, ["p"])])
def test_measurements_of_any_size_are_no_ids(factor: float | None, found: list[str]) -> None:
    """In single precision, large numbers have no fraction, and small ones are close to 0."""
    ids = torch.arange(NODES).flip(0) + 10**6
    column = ids.float() if factor is None else factor * noise()[:, 0]
    x = torch.stack([column, torch.zeros(NODES)], dim=1)
    described = describe_task(ring_task(x, alternating()), schema(*NUMBERS))
    assert described["suspicious"]["ids"] == found


def test_classes_that_differ_in_spaces_are_a_warning() -> None:
    task = ring_task(
        noise(), alternating(), notes=("label 'l': some classes differ only in spaces",)
    )
    assert "True label 'l': some classes differ only in spaces: remove" in texts(
        describe_task(task)
    )


def test_the_degree_is_no_column_to_ignore() -> None:
    x = torch.stack([alternating().float(), noise()[:, 0]], dim=1)
    columns = (Column("degree", "degree"), Column("q", "number"))
    found = describe_task(ring_task(x, alternating()), schema(*columns))
    assert found["suspicious"]["labels"] == []


def test_classes_that_differ_in_capital_letters_and_no_validation_rows_are_warnings() -> None:
    note = "label 'l': some classes differ only in capital letters"
    task = ring_task(noise(), alternating(), notes=(note,))
    found = describe_task(task, schema(*NUMBERS))
    assert f"True {note}: write them in one way" in texts(found)
    assert "no labelled validation rows" not in texts(found)
    found["parts"]["val"] = 0
    assert "True no labelled validation rows" in texts(found)


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_set_that_training_needs_is_missed(part: str) -> None:
    name = {"val": "validation", "test": "test"}[part]
    said = f"True no labelled {name} rows, which mgnni train needs: move some labelled rows there"
    labels = alternating()
    labels[slice(30, 40) if part == "val" else slice(40, 60)] = -1
    task = ring_task(noise(), labels)
    own = texts(describe_task(task, schema(*NUMBERS)))
    assert f"{said}, or label more" in own
    named = schema(*NUMBERS, split_column=("my split", "split_1"))
    own = texts(describe_task(task, named))
    assert f"{said}, or pass --ignore 'my split' split_1, so that a split is drawn" in own
    assert said not in texts(describe_task(task))  # a benchmark is as it is
