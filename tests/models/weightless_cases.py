"""Dense reference implementations of the models that do not use edge weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import elu, leaky_relu

from mgnni.graph.geometry import RELATIONS, structure
from mgnni.models.base import EncoderModel
from mgnni.models.gat import GAT
from mgnni.models.geom_gcn import GeomGCN
from mgnni.models.h2gcn import H2GCN
from models.cases import CLASSES, FEATURES, HIDDEN, normal

CASES: dict[str, tuple[type[EncoderModel], dict[str, Any]]] = {
    "gat": (GAT, {"heads": 2}),
    "gat, one layer": (GAT, {"heads": 2, "num_layers": 1, "out_heads": 3}),
    "gat, three layers": (GAT, {"heads": 2, "num_layers": 3, "out_heads": 2, "residual": True}),
    "geom-gcn": (GeomGCN, {}),
    "geom-gcn, one layer": (GeomGCN, {"num_layers": 1}),
    "geom-gcn, three layers": (GeomGCN, {"num_layers": 3}),
    "h2gcn": (H2GCN, {}),
    "h2gcn, linear": (H2GCN, {"num_layers": 1, "relu": False}),
    "h2gcn, no round": (H2GCN, {"num_layers": 0}),
    "h2gcn, three rounds": (H2GCN, {"num_layers": 3, "relu": False}),
}


def make(name: str, device: torch.device, **changes: object) -> EncoderModel:
    """A small float64 model in evaluation mode."""
    cls, options = CASES[name]
    model = cls(FEATURES, HIDDEN, CLASSES, **{**options, **changes})
    model = model.to(device, torch.float64).eval()
    with torch.no_grad():  # PyG starts these at zero, where a lost one goes unseen
        for conv in model.convs if isinstance(model, GAT) else ():
            conv.bias.copy_(normal(*conv.bias.shape, device=device, seed=4))
    return model


def densely(model: EncoderModel, x: Tensor, edge_index: Tensor) -> Tensor:
    """Rows of the nodes, before any readout; differentiable by autograd."""
    return _ROWS[type(model)](model, x, edge_index)


def _gat(model: Any, x: Tensor, edge_index: Tensor) -> Tensor:
    near = torch.eye(len(x), dtype=torch.bool, device=x.device)
    near[edge_index[1], edge_index[0]] = True
    for index, conv in enumerate(model.convs):
        heads = []
        for k in range(conv.heads):
            weight = conv.lin.weight.view(conv.heads, conv.out_channels, -1)[k]
            h = x @ weight.T
            score = (h @ conv.att_dst[0, k])[:, None] + (h @ conv.att_src[0, k])[None, :]
            score = leaky_relu(score, 0.2).exp() * near
            heads.append(score / score.sum(1, keepdim=True) @ h)
        out = torch.cat(heads, 1) if conv.concat else sum(heads) / conv.heads
        if conv.res is not None:
            out = out + x @ conv.res.weight.T
        x = out + conv.bias
        x = elu(x) if index + 1 < len(model.convs) or model.level == "graph" else x
    return x


def _geom_gcn(model: Any, x: Tensor, edge_index: Tensor) -> Tensor:
    """For given positions of the nodes."""
    operator = model.propagation(x, edge_index)
    a = torch.zeros(RELATIONS, len(x), len(x), dtype=torch.float64, device=x.device)
    for v, u, r in zip(*(part.tolist() for part in structure(operator)), strict=True):
        a[r, v, u] = 1
    degree = a.sum((0, 2))
    p = a / torch.outer(degree, degree).sqrt()
    last = len(model.stack.convs) - 1
    for index, conv in enumerate(model.stack.convs):
        weights = conv.linear.weight.chunk(RELATIONS)
        relations = [p[r] @ x @ w.T for r, w in enumerate(weights)]
        x = sum(relations) / RELATIONS if index == last else torch.cat(relations, 1).clamp(min=0)
    return x


def _h2gcn(model: Any, x: Tensor, edge_index: Tensor) -> Tensor:
    size = len(x)
    one = torch.zeros(size, size, dtype=torch.bool, device=x.device)
    one[edge_index[1], edge_index[0]] = True
    own = torch.eye(size, dtype=torch.bool, device=x.device)
    one = one & ~own
    through = (one[:, :, None] & one[None, :, :]).any(1)
    hops = _hop(one), _hop(through & ~one & ~own)
    h = x @ model.embed.weight.T
    parts = [h.clamp(min=0) if model.relu else h]
    for _ in range(model.num_layers):
        parts.append(torch.cat([p @ parts[-1] for p in hops], 1))
    return torch.cat(parts, 1) @ model.last.weight.T


def _hop(reached: Tensor) -> Tensor:
    """Normalise a matrix of ones by the square roots of the degrees."""
    a = reached.double()
    d, e = a.sum(1), a.sum(0)
    return a / torch.outer(d.clamp(min=1), e.clamp(min=1)).sqrt()


_ROWS: dict[type, Callable[[Any, Tensor, Tensor], Tensor]] = {
    GAT: _gat,
    GeomGCN: _geom_gcn,
    H2GCN: _h2gcn,
}
