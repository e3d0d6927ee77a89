"""The core of a directed graph against the zeros of the dense matrix."""

import pickle

import pytest
import torch

from mgnni import Propagation
from mgnni.graph import core as module
from problems import chain, generator, lopsided_edges, state_norm


def layered(num_nodes: int = 14, normalization: str = "out", seed: int = 0) -> Propagation:
    """A directed graph whose first three nodes read no other and whose last four are not read.

    One node neither reads nor is read.
    """
    edge_index, weight = lopsided_edges(num_nodes, seed)
    reads = (edge_index[0] >= 3) & (edge_index[0] != 6)
    is_read = (edge_index[1] < num_nodes - 4) & (edge_index[1] != 6)
    kept = reads & is_read
    return Propagation.from_edge_index(
        edge_index[:, kept],
        num_nodes,
        weight[kept],
        normalization,
        self_loops=False,
        flow="target_to_source",
        dtype=torch.float64,
    )


@pytest.fixture
def eager(monkeypatch):
    """Use the core however small it is."""
    monkeypatch.setattr(module, "SAVED", 1)
    monkeypatch.setattr(module, "WORTH", 1.0)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("normalization", ["out", "row", "dir"])
def test_the_core_follows_from_the_zeros_of_the_matrix(normalization, adjoint, eager):
    for seed in range(5):
        operator = layered(normalization=normalization, seed=seed)
        operator = operator.adjoint() if adjoint else operator
        core, dense = operator.core, operator.to_dense()
        reads, is_read = (dense != 0).any(1), (dense != 0).any(0)
        assert core.nodes.tolist() == (reads & is_read).nonzero().flatten().tolist()
        assert core.given.tolist() == (~reads).nonzero().flatten().tolist()
        same = {"rtol": 0, "atol": 0}
        inner = core.inner.to_dense()
        torch.testing.assert_close(inner, dense[core.nodes][:, core.nodes], **same)
        torch.testing.assert_close(core.outward.to_dense(), dense[:, core.nodes], **same)
        torch.testing.assert_close(core.from_given.to_dense(), dense[:, core.given], **same)
        x = torch.randn(len(core.nodes), 2, dtype=torch.float64, generator=generator(seed))
        after = state_norm(core.inner, core.inner.multiply(x))
        assert after <= operator.norm_bound * state_norm(core.inner, x) * (1 + 1e-13)
        assert operator.core is core


def test_there_is_no_core_if_it_saves_nothing(eager):
    assert Propagation.from_edge_index(chain(9), 9).core is None
    cycle = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    ring = Propagation.from_edge_index(cycle, 9, normalization="out", self_loops=False)
    assert not ring.symmetric
    assert ring.core is None


def test_a_small_graph_and_a_batch_have_no_core():
    assert layered().core is None
    edge_index, _ = lopsided_edges(12)
    batch = torch.zeros(12, dtype=torch.long)
    both = Propagation.from_edge_index(
        edge_index, 12, normalization="out", self_loops=False, batch=batch
    )
    assert both.core is None


def test_learnable_entries_have_no_core(eager):
    edge_index, weight = lopsided_edges(12)
    weight.requires_grad_()
    learned = Propagation.from_edge_index(
        edge_index, 12, weight, "out", self_loops=False, dtype=torch.float64
    )
    assert learned.values.requires_grad
    assert learned.core is None


def test_a_copy_computes_its_own_core(eager):
    operator = layered()
    assert operator.core is not None
    copy = pickle.loads(pickle.dumps(operator))
    assert copy.core.nodes.tolist() == operator.core.nodes.tolist()
