"""Solve, differentiate and train in one process and in several; see test_sharded.py."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

import mgnni.solve.sharded as sharded
from distributed.several import together
from mgnni import MGNNI, Propagation, normalized_gram, solve_equilibrium
from mgnni.distributed.mesh import ProcessMesh, start_mesh
from mgnni.distributed.propagation import ShardedPropagation
from mgnni.distributed.shard import shard
from problems import generator

NODES, FEATURES, CLASSES, STEPS = 41, 5, 3, 10
MESHES = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
CASES = ("sym-32", "dir-32", "sym-64", "out-64")
SOLVERS = ("series", "chebyshev", "picard", "cg", "gmres")


def graph(kind: str, dtype: torch.dtype) -> Propagation:
    """Node 0 has more neighbours than a short sum has terms; the last node has none."""
    g = generator(3)
    edges = torch.randint(0, NODES - 1, (2, 60), generator=g)
    hub = torch.stack([torch.arange(1, NODES - 1), torch.zeros(NODES - 2, dtype=torch.long)])
    edges = torch.cat([edges, hub], 1)
    if kind == "sym":
        edges = torch.cat([edges, edges.flip(0)], 1)
    return Propagation.from_edge_index(edges, NODES, normalization=kind, dtype=dtype)


def parts(kind: str, rows: int) -> Tensor:
    """Directed graphs are divided unevenly, and so that the second part of several is empty."""
    node = torch.arange(NODES)
    if kind == "sym":
        return node * rows // NODES
    return torch.where(node % 7 < 2, 0, rows - 1)


def data(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels, and the weight of each node in the loss, zero for some."""
    g = generator(4)
    x = torch.randn(NODES, FEATURES, generator=g, dtype=dtype)
    y = torch.randint(0, CLASSES, (NODES,), generator=g)
    w = (torch.arange(NODES) % 3 > 0).to(dtype)
    return x, y, w / w.sum()


def train(kind: str, dtype: torch.dtype, mesh: ProcessMesh | None) -> dict[str, Any]:
    """Ten steps; logits and gradients of the first one, and the parameters after the last."""
    torch.manual_seed(0)
    tol = 1e-6 if dtype is torch.float32 else 1e-10
    options: dict[str, Any] = {
        "scales": (1, 2),
        "gamma": 0.3,
        "dropout": 0.0,
        "tol": tol,
        "skip": True,
    }
    directions = "both" if kind == "dir" else "in"
    options |= {"directions": directions, "batch_norm": kind == "out"}
    model = MGNNI(FEATURES, 6, CLASSES, **options).to(dtype)
    operator, (x, y, w) = graph(kind, dtype), data(dtype)
    if mesh is not None:
        operator = shard(operator, mesh, parts(kind, mesh.rows))
        x, y, w = (operator.local(one) for one in (x, y, w))
    # In float32, Adam would magnify the rounding of gradients that are nearly zero.
    single = dtype is torch.float32
    optimizer = (torch.optim.SGD if single else torch.optim.Adam)(model.parameters(), lr=0.05)
    found: dict[str, Any] = {"loss": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(x, operator)
        loss = (cross_entropy(logits, y, reduction="none") * w).sum()
        loss.backward()
        if mesh is not None:
            mesh.sum_gradients(model.parameters())
            loss = mesh.sum(loss)
        if step == 0:
            whole = isinstance(operator, ShardedPropagation)
            found["logits"] = operator.gather(logits.detach()) if whole else logits.detach()
            found["gradients"] = [one.grad.clone() for one in model.parameters()]
            log = model.solve_log
            found["bounds"] = [one.error_bound for one in (*log.forward, *log.backward)]
        optimizer.step()
        found["loss"].append(loss.item())
    found["parameters"] = [one.detach().clone() for one in model.parameters()]
    return found


@contextmanager
def recorded() -> Iterator[list[tuple[str, int, bool]]]:
    """Record the name and size of every collective, and whether it is inside of a sweep."""
    calls: list[tuple[str, int, bool]] = []
    inside = False
    names = ("all_to_all_single", "all_reduce", "broadcast", "all_gather", "barrier")
    honest = {name: getattr(dist, name) for name in names}
    evaluate = sharded.evaluate

    def noted(name: str, *args: Any, **options: Any) -> Any:
        calls.append((name, args[0].numel(), inside))
        return honest[name](*args, **options)

    def watched(*args: Any) -> int:
        nonlocal inside
        inside = True
        found = evaluate(*args)
        inside = False
        return found

    try:
        for name in names:
            setattr(dist, name, partial(noted, name))
        sharded.evaluate = watched
        yield calls
    finally:
        sharded.evaluate = evaluate
        for name in names:
            setattr(dist, name, honest[name])


def solve(solver: str, gamma: float, operator: Propagation) -> Any:
    """One equation at scale 2, in float64."""
    g = generator(5)
    factor = torch.randn(6, 6, generator=g, dtype=torch.float64)
    bias = torch.randn(NODES, 6, generator=g, dtype=torch.float64)
    if isinstance(operator, ShardedPropagation):
        bias = operator.local(bias)
    weight = normalized_gram(factor, norm="spectral")
    return solve_equilibrium(operator, weight, bias, 2, gamma, solver=solver, tol=1e-10)


def solves(mesh: ProcessMesh | None) -> dict[str, Any]:
    """States and certificates of every solver, and what they communicate."""
    found: dict[str, Any] = {}
    whole = graph("sym", torch.float64)
    operator = whole if mesh is None else shard(whole, mesh, parts("uneven", mesh.rows))
    for solver in SOLVERS if mesh is None or mesh.rows == mesh.columns else ():
        result = solve(solver, 0.4, operator)
        value = result.value if mesh is None else operator.gather(result.value)
        found[solver] = (value, result.error_bound, result.iterations)
    if mesh is not None:
        solve("chebyshev", 0.5, operator)  # which derives what is kept with the operator
        for gamma in (0.5, 0.95):
            with recorded() as calls:
                result = solve("chebyshev", gamma, operator)
            found[f"calls-{gamma}"] = (calls, result.iterations)
        found["columns"] = operator.columns.own(torch.arange(6)).numel()
    return found


def work(folder: Path, shape: tuple[int, int] | None, rank: int) -> None:
    torch.set_num_threads(1)
    mesh = None if shape is None else start_mesh(*shape, device="cpu")
    found: dict[str, Any] = {}
    for case in CASES:
        kind, bits = case.split("-")
        found[case] = train(kind, torch.float32 if bits == "32" else torch.float64, mesh)
    found["solves"] = solves(mesh)
    name = "alone" if shape is None else f"{shape[0]}x{shape[1]}-{rank}"
    torch.save(found, folder / f"{name}.pt")


def main(folder: Path) -> None:
    together(1, partial(work, folder, None))
    for shape in MESHES:
        together(shape[0] * shape[1], partial(work, folder, shape))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
