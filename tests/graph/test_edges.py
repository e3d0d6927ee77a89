"""Graphs are accepted in all formats of PyG; bad input is refused with a remedy."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

from mgnni import MGNNI, ArgumentError, Propagation
from mgnni.graph.memo import cached_propagation
from problems import lopsided_edges

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
ONES = torch.ones(4, dtype=torch.float64)
BATCH = torch.zeros(3, dtype=torch.long)
INF = float("inf")
ADVICE = r"\); \w+"  # any remedy after the value

BAD: list[tuple[str, dict, str, str, str]] = [  # id, arguments, name, value, remedy
    ("float nodes", {"num_nodes": 3.0}, "num_nodes", r"got 3\.0", r"x\.size\(0\)"),
    ("negative nodes", {"num_nodes": -1}, "num_nodes", "got -1", r"x\.size\(0\)"),
    ("bool nodes", {"num_nodes": True}, "num_nodes", "got True", r"x\.size\(0\)"),
    ("no nodes count", {"num_nodes": None}, "num_nodes", "got None", r"x\.size\(0\)"),
    ("list edges", {"edge_index": [[0], [1]]}, "edge_index", "got list", "as_tensor"),
    (
        "numpy edges",
        {"edge_index": np.array([[0], [1]])},
        "edge_index",
        "got ndarray",
        "tensor",
    ),
    (
        "bipartite adjacency",
        {"edge_index": torch.ones(3, 4).to_sparse()},
        "edge_index",
        r"got \(3, 4\)",
        "bipartite",
    ),
    (
        "integer adjacency",
        {"edge_index": torch.eye(3).long().to_sparse()},
        "edge_weight",
        "int64",
        r"\.float\(\)",
    ),
    (
        "adjacency of other nodes",
        {"edge_index": torch.eye(4).to_sparse()},
        "num_nodes",
        r"be 4.*got 3",
        "leave it out",
    ),
    (
        "adjacency and weights",
        {"edge_index": torch.eye(3).to_sparse(), "edge_weight": ONES[:3]},
        "edge_weight",
        "got both",
        "sparse matrix alone",
    ),
    (
        "loops twice",
        {"self_loops": True, "add_self_loops": True},
        "add_self_loops",
        "got True and True",
        "pass one",
    ),
    ("float batch size", {"batch_size": 1.0}, "batch_size", r"got 1\.0", "num_graphs"),
    ("negative batch size", {"batch_size": -1}, "batch_size", "got -1", "num_graphs"),
    ("batch size alone", {"batch_size": 2}, "batch_size", "got 2", "pass batch"),
    (
        "small batch size",
        {"batch": torch.tensor([1, 1, 1]), "batch_size": 1},
        "batch",
        r"\[0, 1\).*got 1",
        "batch_size",
    ),
    ("float edges", {"edge_index": EDGES.float()}, "edge_index", "float32", r"\.long\(\)"),
    ("bool edges", {"edge_index": EDGES.bool()}, "edge_index", "bool", r"\.long\(\)"),
    ("edges as rows", {"edge_index": EDGES.T}, "edge_index", r"\(4, 2\)", "first row"),
    ("flat edges", {"edge_index": EDGES[0]}, "edge_index", r"\(4,\)", "first row"),
    ("index too high", {"num_nodes": 2}, "edge_index", r"\[0, 2\) \(got 2\)", "num_nodes"),
    ("negative index", {"edge_index": EDGES - 1}, "edge_index", r"got -1\)", "relabel"),
    ("edges, no nodes", {"num_nodes": 0}, "edge_index", r"\[0, 0\) \(got 2\)", "num_nodes"),
    ("column weight", {"edge_weight": ONES.view(-1, 1)}, "edge_weight", r"\(4, 1\)", r"view\(-1\)"),
    ("short weight", {"edge_weight": ONES[:3]}, "edge_weight", r"\(4,\).*\(3,\)", "one weight per"),
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
        "directed graph",
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
def test_both_integer_dtypes_are_accepted(dtype, device):
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
def test_the_dtype_is_that_of_the_weights_unless_given(given, asked, expected, device):
    weight = None if given is None else torch.ones(4, dtype=given, device=device)
    operator = Propagation.from_edge_index(EDGES.to(device), 3, weight, dtype=asked)
    assert operator.dtype is expected


def test_negative_weights_are_accepted_without_normalization(device):
    operator = Propagation.from_edge_index(EDGES.to(device), 3, -ONES.to(device), "none", False)
    expected = -torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.float64)
    torch.testing.assert_close(operator.to_dense().cpu(), expected)


class FakeSparseTensor:
    """The interface of ``torch_sparse.SparseTensor`` that is used."""

    def __init__(self, row: Tensor, col: Tensor, value: Tensor | None, size: int) -> None:
        self.parts, self.size = (row, col, value), size

    def coo(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.parts

    def sparse_sizes(self) -> tuple[int, int]:
        return self.size, self.size


FORMATS = ["coo", "uncoalesced", "csr", "csc", "SparseTensor"]
builds = pytest.mark.parametrize("build", [Propagation.from_edge_index, cached_propagation])


def directed(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, int]:
    """A directed, weighted graph without duplicate edges, with a self-loop and isolated nodes."""
    edge_index, weight = lopsided_edges(12)
    edge_index, first = np.unique(edge_index.numpy(), axis=1, return_index=True)
    edge_index, weight = torch.from_numpy(edge_index), weight[torch.from_numpy(first)]
    order = torch.randperm(len(weight))
    return edge_index[:, order].to(device), weight[order].to(device, dtype), 12


def assert_same(ours: Tensor, expected: Tensor) -> None:
    """Equal to the digit; on CUDA degrees are summed in no fixed order."""
    digits = 0.0 if ours.device.type == "cpu" else 1e-14
    torch.testing.assert_close(ours, expected, rtol=digits, atol=digits)


def transposed(form: str, edge_index: Tensor, weight: Tensor, size: int) -> object:
    """The transposed adjacency, built as PyG builds it."""
    reverse = edge_index.flip(0)
    if form == "SparseTensor":
        return FakeSparseTensor(*reverse, weight, size)
    if form == "uncoalesced":
        return torch.sparse_coo_tensor(reverse, weight, (size, size))
    build = {"coo": to_torch_coo_tensor, "csr": to_torch_csr_tensor, "csc": to_torch_csc_tensor}
    return build[form](reverse, weight, size)


@builds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("form", FORMATS)
def test_a_sparse_adjacency_gives_the_operator_of_its_edges(form, dtype, build, device):
    edge_index, weight, size = directed(device, dtype)
    adj_t = transposed(form, edge_index, weight, size)
    for options in ({}, {"normalization": "out"}, {"normalization": "none", "self_loops": False}):
        expected = Propagation.from_edge_index(edge_index, size, weight, **options)
        assert not expected.symmetric
        for given in ((adj_t,), (adj_t, size)):
            operator = build(*given, **options)
            assert_same(operator.to_dense(), expected.to_dense())
            assert_same(operator.values, expected.values)
            assert operator.dtype is dtype
            assert operator.norm_bound == pytest.approx(expected.norm_bound, rel=1e-14)
            assert operator.norm.kind == expected.norm.kind


@pytest.mark.parametrize("form", FORMATS)
def test_a_sparse_adjacency_is_read_as_by_pyg(form, device):
    """Aggregation along ``adj_t`` with PyG's own convolution."""
    edge_index, weight, size = directed(device, torch.float32)
    conv = GCNConv(3, 3, normalize=False, bias=False).to(device)
    torch.nn.init.eye_(conv.lin.weight)
    x = torch.randn(size, 3, device=device)
    adj_t = transposed(form, edge_index, weight, size)
    expected = conv(x, edge_index, weight)
    if form == "csr":
        torch.testing.assert_close(conv(x, adj_t), expected)
    operator = Propagation.from_edge_index(adj_t, normalization="none", add_self_loops=False)
    torch.testing.assert_close(operator.apply(x), expected)


@pytest.mark.parametrize("form", FORMATS)
def test_models_accept_a_sparse_adjacency(form, device):
    edge_index, weight, size = directed(device, torch.float32)
    model = MGNNI(3, 4, 2).to(device).eval()
    x = torch.randn(size, 3, device=device)
    adj_t = transposed(form, edge_index, weight, size)
    assert torch.equal(model(x, adj_t), model(x, edge_index, weight))


@pytest.mark.parametrize("form", ["uncoalesced", "SparseTensor"])
def test_duplicate_edges_of_a_sparse_adjacency_add_up(form, device):
    edge_index, weight = (part.to(device) for part in lopsided_edges(12))
    weight = weight.float()
    expected = Propagation.from_edge_index(edge_index, 12, weight)
    operator = Propagation.from_edge_index(transposed(form, edge_index, weight, 12))
    assert_same(operator.to_dense(), expected.to_dense())


def test_a_sparse_tensor_without_values_has_unit_weights(device):
    edge_index, _, size = directed(device, torch.float32)
    operator = Propagation.from_edge_index(FakeSparseTensor(*edge_index.flip(0), None, size))
    expected = Propagation.from_edge_index(edge_index, size)
    assert_same(operator.to_dense(), expected.to_dense())


@pytest.mark.parametrize("form", ["uncoalesced", "SparseTensor"])
def test_the_values_of_a_sparse_adjacency_can_be_differentiated(form, device):
    edge_index, weight, size = directed(device, torch.float64)
    weight.requires_grad_()
    x = torch.randn(size, 2, dtype=torch.float64, device=device)
    grads = []
    for given in ((edge_index, size, weight), (transposed(form, edge_index, weight, size),)):
        out = cached_propagation(*given, normalization="out").apply(x)
        grads.append(torch.autograd.grad(out.square().sum(), weight)[0])
    torch.testing.assert_close(*grads)


@builds
@pytest.mark.filterwarnings("ignore:Sparse BSR tensor support")
def test_other_sparse_layouts_are_refused(build, device):
    adj_t = torch.eye(4, device=device).to_sparse_bsr(2)
    with pytest.raises(ArgumentError, match=r"'edge_index' must.*got torch.sparse_bsr.*csr"):
        build(adj_t)


@builds
def test_an_edge_index_object_of_pyg_is_accepted(build, device):
    edge_index, weight, size = directed(device, torch.float64)
    expected = Propagation.from_edge_index(edge_index, size, weight)
    known = EdgeIndex(edge_index, sparse_size=(size, size))
    for given in ((known, size), (known,), (EdgeIndex(edge_index), size)):
        num_nodes = given[1] if len(given) > 1 else None
        operator = build(given[0], num_nodes, weight)
        assert_same(operator.to_dense(), expected.to_dense())
    with pytest.raises(ArgumentError, match=r"'num_nodes' must.*got None"):
        build(EdgeIndex(edge_index), None, weight)


@builds
@pytest.mark.parametrize("loops", [True, False])
def test_add_self_loops_is_another_name_of_self_loops(loops, build, device):
    edge_index, weight, size = directed(device, torch.float64)
    ours = Propagation.from_edge_index(edge_index, size, weight, self_loops=loops)
    pyg = build(edge_index, size, weight, add_self_loops=loops)
    assert_same(pyg.to_dense(), ours.to_dense())
    if loops:
        default = build(edge_index, size, weight)
        assert_same(default.to_dense(), ours.to_dense())


@builds
def test_batch_size_counts_graphs_without_nodes(build, device):
    batch = torch.tensor([0, 0, 0], device=device)
    operator = build(EDGES.to(device), 3, batch=batch, batch_size=4)
    assert operator.num_graphs == 4
    assert (
        operator.restrict(torch.tensor([True, False, False, True], device=device))[0].num_graphs
        == 2
    )
    assert build(EDGES.to(device), 3, batch_size=1).num_graphs == 1
    none = torch.zeros(2, 0, dtype=torch.long, device=device)
    assert build(none, 0, batch=none[0], batch_size=2).num_graphs == 2


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_a_sparse_adjacency_is_the_same_graph_as_its_edges(flow, device):
    edge_index = torch.tensor([[0, 1, 3, 3], [1, 2, 0, 2]], device=device)
    size = (4, 4)
    adj_t = torch.sparse_coo_tensor(
        edge_index.flip(0), torch.ones(4, device=device), size, check_invariants=True
    )
    operators = [Propagation.from_edge_index(one, 4, flow=flow) for one in (edge_index, adj_t)]
    one, other = (operator.to_dense() for operator in operators)
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_batch_of_edge_weights_is_refused(device):
    edge_index = torch.tensor([[0, 1], [1, 2]], device=device)

    def product(weight):
        return Propagation.from_edge_index(edge_index, 3, weight).values

    with pytest.raises(ArgumentError, match="'edge_weight' must not be batched by vmap"):
        torch.func.vmap(product)(torch.ones(4, 2, device=device))
