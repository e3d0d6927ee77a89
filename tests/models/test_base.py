"""The base class of models: pooling, readout, and errors about features."""

import pytest
import torch

from mgnni.errors import ArgumentError
from mgnni.models.base import EncoderModel
from mgnni.models.cgs import CGS
from mgnni.models.dgcnn import DGCNN
from mgnni.models.eignn import EIGNN
from mgnni.models.fdgnn import FDGNN
from mgnni.models.gin import GIN
from mgnni.models.gind import GIND
from mgnni.models.linear import Linear
from mgnni.models.mignn import MIGNN
from mgnni.models.sse import SSE
from models.cases import CLASSES, FEATURES, NODES, batch_of_graphs, graph, normal


class Features(EncoderModel):
    """A model that returns the first features of each node."""

    def encode(self, x, propagation):
        return x[:, : self.node_channels]


class Largest(Features):
    """A model with max pooling."""

    own_readout = True

    def pool(self, rows, batch, num_graphs):
        if batch is None:
            return rows
        return torch.stack([rows[batch == number].amax(0) for number in range(num_graphs)])


def test_nodes_are_summed_per_graph_and_read_out_by_an_mlp(device):
    x, edge_index, batch, _ = batch_of_graphs(device)
    model = Features(FEATURES, 4, CLASSES, level="graph").to(device, torch.float64)
    sums = torch.zeros(int(batch.max()) + 1, 4, dtype=x.dtype, device=device)
    sums.index_add_(0, batch, x[:, :4])
    first, last = model.readout.first, model.readout.last
    hidden = (sums @ first.weight.T + first.bias).clamp(min=0)
    want = hidden @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, edge_index, batch=batch), want)
    assert model.layer_widths(3) == (FEATURES, 4, 4, 4)
    assert Features(FEATURES, 4, CLASSES).layer_widths(1) == (FEATURES, CLASSES)


def test_a_model_may_have_its_own_pooling_and_readout(device):
    x, edge_index, batch, _ = batch_of_graphs(device)
    model = Largest(FEATURES, 4, CLASSES, level="graph").to(device)
    assert not list(model.parameters())
    parts = [x[batch == number, :CLASSES].max(0).values for number in range(int(batch.max()) + 1)]
    torch.testing.assert_close(model(x, edge_index, batch=batch), torch.stack(parts))


@pytest.mark.parametrize("cls", [CGS, DGCNN, FDGNN, GIN, SSE, Linear])
def test_models_with_their_own_readout_initialise_no_unused_parameters(cls):
    states = []
    for level in ("auto", "graph"):
        torch.manual_seed(0)
        states.append(cls(FEATURES, 4, CLASSES, level=level).state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("cls", [CGS, EIGNN, FDGNN, GIND, MIGNN, SSE])
def test_features_that_are_not_finite_are_named(cls, device):
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    x[4, 2] = float("nan")
    model = cls(FEATURES, FEATURES, CLASSES).to(device, torch.float64)
    with pytest.raises(ArgumentError, match=r"'x' must be finite \(got nan at row 4, column 2\)"):
        model(x, edge_index)
