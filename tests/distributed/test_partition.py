"""Parts of a graph, and what is refused on them; in a mesh of this process alone."""

import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch_geometric.data import Data

from mgnni import MGNNI, Propagation, fit, make_model, solve_equilibrium
from mgnni.distributed.mesh import ProcessMesh, start_mesh
from mgnni.distributed.partition import Layout, partition
from mgnni.distributed.shard import shard
from mgnni.errors import ArgumentError, MgnniError
from problems import generator, propagation
from train.cases import node_task

CLIQUES = torch.arange(12) % 2  # the clique of each node


def two_cliques() -> Propagation:
    """Two cliques of six nodes, joined by one edge."""
    edges = (CLIQUES.unsqueeze(0) == CLIQUES.unsqueeze(1)).nonzero().T
    bridge = torch.tensor([[0, 1], [1, 0]])
    return Propagation.from_edge_index(torch.cat([edges, bridge], 1), 12)


@pytest.fixture
def mesh() -> Iterator[ProcessMesh]:
    yield start_mesh(device="cpu")
    dist.destroy_process_group()


def test_nodes_in_order_are_divided_evenly():
    part = partition(propagation("sym", 11).pattern, 4)
    assert part.tolist() == sorted(part.tolist())
    assert sorted(torch.bincount(part).tolist()) == [2, 3, 3, 3]


def test_metis_finds_the_parts_with_the_fewest_edges_between_them():
    pytest.importorskip("pymetis", reason="pymetis is optional")
    part = partition(two_cliques().pattern, 2, "metis")
    assert part.tolist() in ([*CLIQUES.tolist()], [*(1 - CLIQUES).tolist()])


def test_without_pymetis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MgnniError, match=r"pip install 'mgnni\[metis\]'"):
        partition(two_cliques().pattern, 2, "metis")


def test_every_node_belongs_to_one_process():
    layout = Layout(torch.tensor([2, 0, 2, 2, 0, 2, 2]), rows=3, columns=2)
    nodes = [layout.nodes(row, column).tolist() for row in range(3) for column in range(2)]
    assert nodes == [[1], [4], [], [], [0, 2], [3, 5, 6]]


@pytest.mark.parametrize("part", [[0, 1, 3], [-1, 0, 0], [0.0, 1.0, 1.0]])
def test_a_partition_with_other_parts_is_refused(part):
    with pytest.raises(ArgumentError, match="'partition' must hold"):
        Layout(torch.tensor(part), rows=3, columns=1)


def test_a_mesh_of_one_process_solves_as_without(mesh):
    whole, g = propagation("out"), generator(1)
    bias = torch.randn(12, 3, generator=g, dtype=whole.dtype)
    weight = torch.randn(3, 3, generator=g, dtype=whole.dtype) / 6
    for options in ({}, {"solver": "gmres"}):
        one, other = (
            solve_equilibrium(operator, weight, bias, 2, **options)
            for operator in (whole, shard(whole, mesh))
        )
        torch.testing.assert_close(one.value, other.value)
        assert one.solver == other.solver
        assert one.error_bound == pytest.approx(other.error_bound, rel=0.1)


def test_fit_takes_a_mesh(mesh, tmp_path):
    options = {"hidden_channels": 4, "epochs": 3, "device": "cpu", "model": "mgnni"}
    one, other = (
        fit(node_task(1), output=tmp_path / name, **more, **options)
        for name, more in (("without", {}), ("with", {"mesh": mesh}))
    )
    torch.testing.assert_close(one.weights, other.weights)
    assert other.report is not None
    assert other.report["mesh"] == {"rows": 1, "columns": 1, "batch": 1}


def test_a_shared_batch_keeps_small_deviations_from_a_large_mean(mesh):
    g = generator(2)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [Data(x=torch.randn(3, 4, generator=g), edge_index=edges) for _ in range(20)]
    for graph in graphs:
        graph.y = 1e9 + graph.x.sum().double().view(1, 1)
    options = {"task": "regression", "epochs": 3, "device": "cpu", "model": "mgnni"}
    one, other = (fit(graphs, **more, **options) for more in ({}, {"mesh": mesh}))
    assert one.val[0]["mae"] == pytest.approx(other.val[0]["mae"], rel=1e-5)


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_with_and_without_a_gpu_say_that_one_is_missing(monkeypatch, rank):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ArgumentError, match="got 2 processes and 1 GPUs"):
        start_mesh(batch=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "gcn"}, "is for the model mgnni"),
        ({"head": "residual"}, "'head' must be auto or linear or mlp over several"),
        ({"model": "auto"}, "choose a model"),
    ],
)
def test_models_that_look_at_all_nodes_are_refused(mesh, changes, message):
    with pytest.raises(ArgumentError, match=message):
        fit(node_task(1), mesh=mesh, epochs=1, device="cpu", **changes)


def test_what_needs_the_whole_graph_is_refused(mesh):
    whole = two_cliques()
    sharded, x = shard(whole, mesh), torch.randn(12, 4)
    with pytest.raises(ArgumentError, match="'solver' must be one of"):
        solve_equilibrium(sharded, torch.eye(4), x, solver="dense")
    with pytest.raises(ArgumentError, match="must hold the whole graph"):
        make_model("gat", 4, 4, 2)(x, sharded)
    with pytest.raises(ArgumentError, match="must hold the whole graph"):
        MGNNI(4, 4, 2, input_map="graph", num_nodes=12)(x, sharded)
    with pytest.raises(ArgumentError, match="must hold the whole graph"):
        MGNNI(4, 4, 2, level="graph")(x, sharded)
    with pytest.raises(ArgumentError, match="must hold the whole graph"):
        make_model("ignn", 4, 4, 2)(x, sharded)
    with pytest.raises(ArgumentError, match=r"for a model with torch\.nn\.BatchNorm1d"):
        MGNNI(4, 4, 2, head="residual")(x, sharded)


def test_batches_learnable_weights_and_wrong_sizes_are_refused(mesh):
    edges = torch.tensor([[0, 1], [1, 0]])
    batch = Propagation.from_edge_index(edges, 3, batch=torch.tensor([0, 0, 1]))
    weight = torch.ones(2, requires_grad=True)
    for one in (batch, Propagation.from_edge_index(edges, 2, weight)):
        with pytest.raises(ArgumentError, match="must be a single graph"):
            shard(one, mesh)
    with pytest.raises(ArgumentError, match="one number for each of the 12 nodes"):
        shard(two_cliques(), mesh, torch.zeros(5, dtype=torch.long))
    with pytest.raises(ArgumentError, match="must be the number of processes, 1"):
        start_mesh(rows=2, device="cpu")
    with pytest.raises(ArgumentError, match="'batch' must be 1"):
        start_mesh(rows=2, batch=2, device="cpu")
