"""Random graphs of the size of the benchmarks, and weights with the spectrum of trained ones."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.catalog import find_entry
from mgnni.data.registry import load_task
from mgnni.data.split import Split
from mgnni.data.storage import data_root
from mgnni.data.task import Task

# nodes, edges, features, classes
SHAPES = {
    "chameleon": (2277, 36101, 2325, 5),
    "squirrel": (5201, 217073, 2089, 5),
    "cornell": (183, 298, 1703, 5),
}
FALL = 6.0  # ranks over which the eigenvalues of a trained weight fall by a factor of e
QUICK = (60, 400, 40, 5)
WORDS = 0.01  # fraction of non-zero features


def web_graph(nodes: int, edges: int, generator: torch.Generator) -> Tensor:
    """Return a directed graph with heavy-tailed degrees; repeated edges are removed.

    Args:
        nodes (int): Number of nodes.
        edges (int): Number of edges to draw.
        generator (torch.Generator): Random number generator.

    Shapes:
        - **output:** edge indices ``(2, num_edges)`` with at most ``edges`` edges
    """
    popularity = torch.rand(nodes, generator=generator).pow(-0.6)
    ends = [torch.multinomial(popularity, edges, True, generator=generator) for _ in range(2)]
    found: Tensor = torch.unique(torch.stack(ends), dim=1)
    return found


def uniform_graph(nodes: int, edges: int, device: torch.device) -> Tensor:
    """Return a random undirected graph with this number of directed edges.

    Args:
        nodes (int): Number of nodes.
        edges (int): Number of directed edges; even.
        device (torch.device): Where to create the graph.

    Shapes:
        - **output:** edge indices ``(2, edges)``
    """
    generator = torch.Generator(device).manual_seed(0)
    half = torch.randint(nodes, (2, edges // 2), generator=generator, device=device)
    return torch.cat([half, half.flip(0)], 1)


def spread_weights(count: int, channels: int, generator: torch.Generator) -> Tensor:
    """Return :math:`g(F)` at Xavier initialisation, in float64.

    Args:
        count (int): Number of scales.
        channels (int): Number of channels.
        generator (torch.Generator): Random number generator.

    Shapes:
        - **output:** ``(count, channels, channels)``
    """
    factor = torch.empty(count, channels, channels, dtype=torch.float64)
    bound = (6 / (2 * channels)) ** 0.5
    factor.uniform_(-bound, bound, generator=generator)
    gram = factor.mT @ factor
    weight: Tensor = gram / torch.linalg.matrix_norm(gram, keepdim=True)
    return weight


def trained_factor(
    count: int, channels: int, largest: float | None, generator: torch.Generator
) -> Tensor:
    """Return factors for which :math:`g(F)` has this largest eigenvalue, as after training.

    The others fall by a factor of e every six ranks. After 300 epochs on Squirrel with the
    authors' configuration (including weight decay) they were, for one scale of split 0, 0.957,
    0.218, 0.155, and 0.027 at rank 9, 0.011 at rank 17, 0.002 at rank 33.

    Args:
        count (int): Number of scales.
        channels (int): Number of channels.
        largest (float, optional): Largest eigenvalue, near one after training; :obj:`None` for
            the spectrum at initialisation.
        generator (torch.Generator): Random number generator.

    Shapes:
        - **output:** ``(count, channels, channels)``, float32
    """
    values, vectors = torch.linalg.eigh(spread_weights(count, channels, generator))
    values = values.clamp(min=0)
    if largest is not None and channels > 1:
        rank = torch.arange(channels - 1, -1, -1, dtype=values.dtype)
        values = (-rank / FALL).exp().expand(count, -1).clone()
        values[:, -1] = 0
        values *= (1 - largest**2) ** 0.5 / values.norm(dim=-1, keepdim=True)
        values[:, -1] = largest
    # F = Q sqrt(D) Q^T, because F^T F = Q D Q^T already has Frobenius norm one.
    factor: Tensor = vectors * values.sqrt().unsqueeze(-2) @ vectors.mT
    return factor.float()


def node_problem(name: str, quick: bool) -> Task:
    """Return Chameleon, Squirrel or Cornell from disk, or else a random graph of its size."""
    if not quick and find_entry(name).on_disk(data_root()):
        return load_task(name)
    generator = torch.Generator().manual_seed(0)
    nodes, edges, features, classes = QUICK if quick else SHAPES[name]
    words = (torch.rand(nodes, features, generator=generator) < WORDS).float()
    words[:, 0] = 1  # no node without features
    graph = Data(
        x=words / words.sum(1, keepdim=True),
        edge_index=web_graph(nodes, edges, generator),
        num_nodes=nodes,
    )
    labels = torch.randint(classes, (nodes,), generator=generator)
    parts = [int(0.48 * nodes), int(0.8 * nodes)]
    orders = [torch.randperm(nodes, generator=generator) for _ in range(10)]
    splits = [Split.of(*order.tensor_split(parts)) for order in orders]
    return Task(f"{name}-like", [graph], labels, splits, [str(c) for c in range(classes)])


def ppi_problem(quick: bool) -> Task:
    """Return graphs of the size of PPI: 20 for training, 2 for validation, 2 for testing."""
    generator = torch.Generator().manual_seed(0)
    nodes, edges, features, labels = (30, 200, 8, 5) if quick else (2245, 61318, 50, 121)
    train, count = (4, 6) if quick else (20, 24)
    graphs = []
    for _ in range(count):
        size = int(nodes * (0.5 + torch.rand(1, generator=generator).item()))
        half = web_graph(size, edges * size // nodes // 2, generator)
        graphs.append(
            Data(
                x=torch.rand(size, features, generator=generator),
                edge_index=to_undirected(half, num_nodes=size),
                num_nodes=size,
            )
        )
    rows = sum(int(graph.num_nodes) for graph in graphs)
    targets = (torch.rand(rows, labels, generator=generator) < 0.3).float()
    split = Split.of(*torch.arange(count).tensor_split([train, count - (count - train) // 2]))
    return Task("ppi-like", graphs, targets, [split], [str(c) for c in range(labels)])


def small_problem(quick: bool) -> Task:
    """Return graphs of 18 nodes, like molecules: one batch for training, a few for validation."""
    generator = torch.Generator().manual_seed(0)
    train, nodes = (8, 6) if quick else (128, 18)
    count = train + train // 4
    graphs = []
    for _ in range(count):
        order = torch.arange(1, nodes)
        parent = (order * torch.rand(nodes - 1, generator=generator)).long()
        ring = torch.tensor([[0, nodes // 3], [nodes // 2, nodes - 1]])
        bonds = torch.cat([torch.stack([parent, order]), ring], 1)
        kind = torch.randint(7, (nodes,), generator=generator)
        graphs.append(
            Data(
                x=torch.nn.functional.one_hot(kind, 7).float(),
                edge_index=to_undirected(bonds, num_nodes=nodes),
                num_nodes=nodes,
            )
        )
    labels = torch.randint(2, (count,), generator=generator)
    split = Split.of(*torch.arange(count).tensor_split([train, train + train // 8]))
    return Task("mutag-like", graphs, labels, [split], ["0", "1"], level="graph")
