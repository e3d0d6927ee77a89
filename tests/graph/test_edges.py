"""Every bad input is refused with the argument's name, what came, and what to do."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mgnni import ArgumentError, Propagation
from mgnni.graph.memo import cached_propagation

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
ONES = torch.ones(4, dtype=torch.float64)
BATCH = torch.zeros(3, dtype=torch.long)
INF = float("inf")
ADVICE = r"\); \w+"  # a remedy after what came, in whatever words

BAD: list[tuple[str, dict, str, str, str]] = [  # id, arguments, name, what came, remedy
    ("float nodes", {"num_nodes": 3.0}, "num_nodes", r"got 3\.0", r"x\.size\(0\)"),
    ("negative nodes", {"num_nodes": -1}, "num_nodes", "got -1", r"x\.size\(0\)"),
    ("bool nodes", {"num_nodes": True}, "num_nodes", "got True", r"x\.size\(0\)"),
    ("no nodes count", {"num_nodes": None}, "num_nodes", "got None", r"x\.size\(0\)"),
    ("list edges", {"edge_index": [[0], [1]]}, "edge_index", "got list", "to_edge_index"),
    (
        "numpy edges",
        {"edge_index": np.array([[0], [1]])},
        "edge_index",
        "got ndarray",
        "tensor",
    ),
    (
        "sparse edges",
        {"edge_index": torch.eye(3).to_sparse()},
        "edge_index",
        r"got [^)]*sparse",
        "to_edge_index",
    ),
    ("float edges", {"edge_index": EDGES.float()}, "edge_index", "float32", r"\.long\(\)"),
    ("bool edges", {"edge_index": EDGES.bool()}, "edge_index", "bool", r"\.long\(\)"),
    ("edges as rows", {"edge_index": EDGES.T}, "edge_index", r"\(4, 2\)", "first row"),
    ("flat edges", {"edge_index": EDGES[0]}, "edge_index", r"\(4,\)", "first row"),
    ("index too high", {"num_nodes": 2}, "edge_index", r"\[0, 2\) \(got 2\)", "num_nodes"),
    ("negative index", {"edge_index": EDGES - 1}, "edge_index", r"got -1\)", "relabel"),
    ("edges, no nodes", {"num_nodes": 0}, "edge_index", r"\[0, 0\) \(got 2\)", "num_nodes"),
    ("column weight", {"edge_weight": ONES.view(-1, 1)}, "edge_weight", r"\(4, 1\)", r"view\(-1\)"),
    ("short weight", {"edge_weight": ONES[:3]}, "edge_weight", r"\(4,\).*\(3,\)", "one weight an"),
    ("int weight", {"edge_weight": ONES.long()}, "edge_weight", "int64", r"\.float\(\)"),
    ("list weight", {"edge_weight": [1.0] * 4}, "edge_weight", r"got list", ADVICE),
    ("nan weight", {"edge_weight": ONES * float("nan")}, "edge_weight", "nan", "isfinite"),
    ("inf weight", {"edge_weight": ONES * INF}, "edge_weight", "inf", "isfinite"),
    ("minus inf weight", {"edge_weight": -ONES * INF}, "edge_weight", "-inf", "isfinite"),
    ("negative weight", {"edge_weight": -ONES}, "edge_weight", "got -1", "normalization='none'"),
    ("half", {"dtype": torch.float16}, "dtype", "float16", r"torch\.float32 or torch\.float64"),
    ("integer type", {"dtype": torch.int64}, "dtype", "int64", r"torch\.float32 or torch\.float64"),
    ("type by name", {"dtype": "float32"}, "dtype", "got float32", r"torch\.float32 or"),
    ("short batch", {"batch": BATCH[:2]}, "batch", r"\(3,\).*\(2,\)", r"\.batch"),
    ("32-bit batch", {"batch": BATCH.int()}, "batch", "int32", r"\.batch"),
    ("list batch", {"batch": [0, 0, 0]}, "batch", "got list", r"\.batch"),
    ("negative batch", {"batch": BATCH - 1}, "batch", "got -1", ADVICE),
    (
        "crossing edge",
        {"batch": torch.tensor([0, 0, 1])},
        "batch",
        r"edge \[1, 2\] between graphs 0 and 1",
        "leave batch out",
    ),
    ("negative bound", {"norm_bound": -1.0}, "norm_bound", r"got -1\.0", ADVICE),
    ("infinite bound", {"norm_bound": INF}, "norm_bound", "got inf", ADVICE),
    ("nan bound", {"norm_bound": float("nan")}, "norm_bound", "got nan", ADVICE),
    ("bound in words", {"norm_bound": "one"}, "norm_bound", "got 'one'", ADVICE),
    (
        "misspelt kind",
        {"normalization": "symm"},
        "normalization",
        r"\['auto', 'dir', 'none', 'out', 'row', 'sym'\] \(got 'symm'\)",
        r"did you mean 'sym'\?",
    ),
    ("number for a kind", {"normalization": 1}, "normalization", "got 1", "must be one of"),
    (
        "misspelt flow",
        {"flow": "source_to_targets"},
        "flow",
        "got 'source_to_targets'",
        r"did you mean 'source_to_target'\?",
    ),
    ("unknown flow", {"flow": "up"}, "flow", "got 'up'", "'target_to_source'"),
    (
        "directed sym",
        {"edge_index": EDGES[:, :1], "normalization": "sym"},
        "normalization",
        "got one with",
        "normalization='dir', or .*to_undirected",
    ),
]


def on(device: torch.device, arguments: dict) -> dict:
    return {k: v.to(device) if isinstance(v, Tensor) else v for k, v in arguments.items()}


@pytest.mark.parametrize("build", [Propagation.from_edge_index, cached_propagation])
@pytest.mark.parametrize(
    ("arguments", "name", "came", "remedy"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input_is_refused_with_a_remedy(build, arguments, name, came, remedy, device):
    full = {"edge_index": EDGES, "num_nodes": 3, **arguments}
    with pytest.raises(ArgumentError, match=rf"(?s)'{name}' must.*{came}.*") as caught:
        build(**on(device, full))
    message = str(caught.value)
    assert caught.match(remedy)
    assert "\n" not in message
    assert isinstance(caught.value, ValueError)


def test_tensors_must_share_a_device(device):
    """The meta device stands in for a second one."""
    edge_index = EDGES.to(device)
    place = rf"must be on the device of edge_index, {device.type}.*\(got meta\); use \.to\("
    with pytest.raises(ArgumentError, match="'edge_weight' " + place):
        Propagation.from_edge_index(edge_index, 3, ONES.to("meta"))
    with pytest.raises(ArgumentError, match="'batch' " + place):
        Propagation.from_edge_index(edge_index, 3, batch=BATCH.to("meta"))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_both_integer_types_are_taken(dtype, device):
    operator = Propagation.from_edge_index(EDGES.to(device, dtype), 3, dtype=torch.float64)
    again = Propagation.from_edge_index(EDGES.to(device), 3, dtype=torch.float64)
    torch.testing.assert_close(operator.to_dense(), again.to_dense(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("given", "asked", "expected"),
    [
        (None, None, torch.float32),
        (None, torch.float64, torch.float64),
        (torch.float64, None, torch.float64),
        (torch.float32, None, torch.float32),
        (torch.float16, None, torch.float32),
        (torch.bfloat16, None, torch.float32),
        (torch.float64, torch.float32, torch.float32),
    ],
)
def test_the_type_is_that_of_the_weights_unless_asked_for(given, asked, expected, device):
    weight = None if given is None else torch.ones(4, dtype=given, device=device)
    operator = Propagation.from_edge_index(EDGES.to(device), 3, weight, dtype=asked)
    assert operator.dtype is expected


def test_negative_weights_are_taken_as_given(device):
    operator = Propagation.from_edge_index(EDGES.to(device), 3, -ONES.to(device), "none", False)
    expected = -torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.float64)
    torch.testing.assert_close(operator.to_dense().cpu(), expected)
