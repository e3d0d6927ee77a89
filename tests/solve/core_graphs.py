"""Directed graphs that have a core."""

import torch

from mgnni import Propagation
from problems import generator

NODES = 260  # with so many edges that leaving out the rest of the graph pays off


def graph(kind: str) -> Propagation:
    """A dense directed graph; an edge means that its source reads the state of its target."""
    g = generator(1)
    source, target = (torch.rand(NODES, NODES, generator=g) < 0.6).nonzero().T
    first, last = source >= 80, target < 180
    kept = {
        "some nodes read nobody": source >= 130,
        "nobody reads some nodes": target < 130,
        "both": first & last,
        "an acyclic core": first & last & ((source >= 180) | (target < 80) | (source > target)),
        "no core": (source >= 130) & (target < 130),
    }[kind]
    edge_weight = 0.1 + torch.rand(source.numel(), dtype=torch.float64, generator=g)
    operator = Propagation.from_edge_index(
        torch.stack([source, target])[:, kept],
        NODES,
        edge_weight[kept],
        "out",
        self_loops=False,
        flow="target_to_source",
    )
    core = operator.core
    assert core is not None
    assert (core.nodes.numel() == 0) == (kind == "no core")
    return operator


KINDS = [
    "some nodes read nobody",
    "nobody reads some nodes",
    "both",
    "an acyclic core",
    "no core",
]
