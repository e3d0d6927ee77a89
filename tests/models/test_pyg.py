"""MGNNI with PyG's tools: loaders, batches and total influence."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import total_influence

from models.cases import CLASSES, FEATURES, by_hand, make_model, normal
from problems import chain, generator

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}


def dataset():
    """Random undirected graphs of 1 to 6 nodes, some without edges."""
    graphs = []
    for index in range(10):
        size = 1 + index % 6
        g = generator(index)
        upper = torch.triu(torch.rand(size, size, generator=g) < 0.5, 1).nonzero().T
        edge_index = torch.cat([upper, upper.flip(0)], dim=1)
        x = torch.randn(size, FEATURES, dtype=torch.float64, generator=g)
        graphs.append(Data(x=x, edge_index=edge_index, y=torch.tensor([index % CLASSES])))
    return graphs


@pytest.mark.parametrize("head", ["linear", "graph"])
def test_batches_of_a_loader_give_one_row_per_graph(head, device):
    model = make_model(device, head=head, level="graph")
    graphs = dataset()
    alone = [
        by_hand(
            model,
            data.x.to(device),
            data.edge_index,
            batch=torch.zeros(data.num_nodes, dtype=torch.long, device=device),
        )[0]
        for data in graphs
    ]
    rows = []
    for batch in DataLoader(graphs, batch_size=4):
        batch = batch.to(device)
        logits = model(batch.x, batch.edge_index, batch=batch.batch)
        assert logits.shape == (batch.num_graphs, CLASSES)
        rows.append(logits)
    torch.testing.assert_close(torch.cat(rows), torch.cat(alone), **TOLERANCE)


def test_gradients_of_a_batch_are_the_sum_over_its_graphs(device):
    model = make_model(device, head="graph")
    graphs = dataset()
    batch = Batch.from_data_list(graphs).to(device)
    parameters = list(model.parameters())
    logits = model(batch.x, batch.edge_index, batch=batch.batch)
    ours = torch.autograd.grad(logits.pow(2).sum(), parameters)
    total = [torch.zeros_like(p) for p in parameters]
    for data in graphs:
        own = torch.zeros(data.num_nodes, dtype=torch.long, device=device)
        want, _ = by_hand(model, data.x.to(device), data.edge_index, batch=own)
        for sum_, grad in zip(
            total, torch.autograd.grad(want.pow(2).sum(), parameters), strict=True
        ):
            sum_ += grad
    for got, want in zip(ours, total, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("vectorize", [False, True])
def test_total_influence_sees_the_whole_range(vectorize, device):
    # On a chain no longer than max_hops, total_influence cuts nothing off. It wants float32.
    size = 7
    exact = make_model(device)
    model = make_model(device, tol=1e-6)
    model.load_state_dict(exact.state_dict())
    x = normal(size, FEATURES, device=device)
    data = Data(x=x.float(), edge_index=chain(size).to(device))
    influence, breadth = total_influence(
        model.float(),
        data,
        max_hops=size - 1,
        normalize=False,
        device=device,
        vectorize=vectorize,
    )
    jacobian = torch.autograd.functional.jacobian(
        lambda x: by_hand(exact, x, chain(size))[0], x
    )  # shape: (nodes, classes, nodes, features)
    table = jacobian.abs().sum(dim=(1, 3)).cpu()
    node = torch.arange(size)
    distance = (node[:, None] - node[None, :]).abs()
    per_hop = torch.stack([(table * (distance == hop)).sum(1) for hop in range(size)], dim=1)
    torch.testing.assert_close(influence.double(), per_hop.mean(0), rtol=1e-4, atol=1e-6)
    shares = per_hop / per_hop.sum(1, keepdim=True)
    want = (shares @ node.double()).mean().item()
    assert breadth == pytest.approx(want, rel=1e-4)
    assert want > 0.3  # hops; a model that cuts its graph has none
    assert (per_hop.mean(0) > 1e-4).all()
