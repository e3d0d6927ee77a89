"""Time to a measured relative error of 1e-6, forward and backward, for every solver.

Each row solves the equilibria of all scales and their adjoint equations in float32, from scratch,
as one training step does. A solver is run with the loosest tolerance, from a ladder, whose states
and bias gradients *measure* 1e-6 or better against a float64 reference; one that reaches it at no
tolerance is printed without a time. The textbook loop is Picard's iteration with the operator in
CSR and the weight computed once, stopped by the relative change of the states, as a careful
reader of the paper would write it.

    python benchmarks/solve.py                 the table
    python benchmarks/solve.py --json out.json the same, stored
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

import mgnni
from mgnni.implicit.solve import solve_equilibria
from mgnni.solve.solver import SOLVERS

TARGET = 1e-6
LADDER = [1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6, 5e-7, 2e-7, 1e-7]
CHANNELS, GAMMA = 64, 0.8
SIZES = {"chameleon-like": (2277, 36101), "squirrel-like": (5201, 217073)}
Pass = Callable[[float], tuple[Tensor, Tensor, Tensor]]  # tol -> states, dB, dW


def graph(nodes: int, edges: int, generator: torch.Generator) -> Tensor:
    """A directed graph of the given size with the heavy-tailed degrees of a web graph."""
    popularity = torch.rand(nodes, generator=generator).pow(-0.6)
    draw = lambda: torch.multinomial(popularity, edges, True, generator=generator)  # noqa: E731
    return torch.stack([draw(), draw()]).unique(dim=1)


def weights(kind: str, count: int, generator: torch.Generator) -> Tensor:
    """g(F) at Xavier initialisation, or as training leaves it: one eigenvalue near one."""
    factor = torch.empty(count, CHANNELS, CHANNELS)
    bound = (6 / (2 * CHANNELS)) ** 0.5
    factor.uniform_(-bound, bound, generator=generator)
    gram = factor.mT @ factor
    gram = gram / torch.linalg.matrix_norm(gram)[:, None, None]
    if kind == "initial":
        return gram
    values, vectors = torch.linalg.eigh(gram.double())
    values[:, -1] = 0
    values *= (1 - 0.93**2) ** 0.5 / values.norm(dim=-1, keepdim=True)
    values[:, -1] = 0.93
    return (vectors * values.unsqueeze(-2) @ vectors.mT).float()


def textbook(
    p: Tensor, pt: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, scales: tuple[int, ...]
) -> Pass:
    """Picard's iteration, one scale after another, forward and backward."""

    def fixed_point(matrix: Tensor, w: Tensor, b: Tensor, scale: int, tol: float) -> Tensor:
        z = b
        for _ in range(2000):
            x = z
            for _ in range(scale):
                x = matrix @ x
            new = torch.addmm(b, x, w, alpha=GAMMA)
            change = (new - z).norm() / new.norm()
            z = new
            if change <= tol:
                break
        return z

    def run(tol: float) -> tuple[Tensor, Tensor, Tensor]:
        states, db, dw = [], torch.zeros_like(bias), []
        for i, scale in enumerate(scales):
            z = fixed_point(p, weight[i], bias, scale, tol)
            u = fixed_point(pt, weight[i].T.contiguous(), grad[i], scale, tol)
            hop = z
            for _ in range(scale):
                hop = p @ hop
            states.append(z)
            db += u
            dw.append(GAMMA * hop.T @ u)
        return torch.stack(states), db, torch.stack(dw)

    return run


def ours(
    prop: mgnni.Propagation,
    weight: Tensor,
    bias: Tensor,
    grad: Tensor,
    scales: tuple[int, ...],
    solver: str,
) -> Pass:
    """The library's solve and its gradients."""

    def run(tol: float) -> tuple[Tensor, Tensor, Tensor]:
        w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
        results = solve_equilibria(prop, w, b, scales, GAMMA, solver=solver, tol=tol)
        z = torch.stack([result.value for result in results])
        dw, db = torch.autograd.grad(z, [w, b], grad)
        return z.detach(), db, dw

    return run


def error(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> float:
    """The largest relative error of the two solves: the states, and the gradient of the bias."""
    pairs = zip(got[:2], want[:2], strict=True)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in pairs)


def seconds(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median time of one run."""
    times = []
    for _ in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def rows(device: torch.device, repeats: int, quick: bool) -> Iterator[dict[str, object]]:
    """Measure every case; one row a solver."""
    for name, (nodes, edges) in SIZES.items():
        if quick and name != "chameleon-like":
            continue
        for directed in (False, True):
            generator = torch.Generator().manual_seed(0)
            index = graph(nodes, edges, generator)
            index = (index if directed else to_undirected(index)).to(device)
            prop = mgnni.Propagation.from_edge_index(
                index, nodes, normalization="dir" if directed else "sym"
            )
            prop.adjoint()
            for scales in ((1, 2), (1, 2, 3)):
                for kind in ("initial", "trained"):
                    weight = weights(kind, len(scales), generator).to(device)
                    bias = torch.randn(nodes, CHANNELS, generator=generator).to(device)
                    grad = torch.randn(len(scales), nodes, CHANNELS, generator=generator).to(device)
                    double = (weight.double(), bias.double(), grad.double())
                    reference = ours(prop.double(), *double, scales, "auto")(1e-12)
                    case = {
                        "graph": name,
                        "directed": directed,
                        "scales": list(scales),
                        "weights": kind,
                        "lambda_max": float(torch.linalg.matrix_norm(weight, 2).max()),
                    }
                    loop = textbook(prop.matrix, prop.adjoint().matrix, weight, bias, grad, scales)
                    base = None
                    for solver in ("textbook", "auto", *SOLVERS):
                        if not directed and solver == "spectral" and quick:
                            continue
                        if directed and solver in ("cg", "chebyshev", "spectral"):
                            continue
                        run = (
                            loop
                            if solver == "textbook"
                            else ours(prop, weight, bias, grad, scales, solver)
                        )
                        row: dict[str, object] = {**case, "solver": solver, "seconds": None}
                        for tol in LADDER:
                            try:
                                measured = error(run(tol), reference)
                            except mgnni.ConvergenceError:
                                continue
                            if measured <= TARGET:
                                row |= {"tol": tol, "error": measured}
                                row["seconds"] = seconds(lambda t=tol, r=run: r(t), device, repeats)
                                break
                        if solver == "textbook":
                            base = row["seconds"]
                        if base and row["seconds"]:
                            row["speedup"] = base / row["seconds"]
                        yield row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="the smaller graph only")
    parser.add_argument("--json", type=Path, help="store the rows here")
    args = parser.parse_args()
    device = torch.device(args.device)
    what = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{torch.get_num_threads()} CPU threads"
    )
    print(f"mgnni {mgnni.__version__}, torch {torch.__version__}, {what}")
    print(
        f"h = {CHANNELS}, gamma = {GAMMA}, float32, forward + backward to a measured error of {TARGET:g}"
    )
    found, last = [], None
    for row in rows(device, args.repeats, args.quick):
        found.append(row)
        case = (row["graph"], row["directed"], tuple(row["scales"]), row["weights"])  # type: ignore[arg-type]
        if case != last:
            arrow = "directed" if row["directed"] else "undirected"
            print(
                f"\n{row['graph']}, {arrow}, scales {case[2]}, weights {case[3]} (lambda_max {row['lambda_max']:.2f})"
            )
            last = case
        if row["seconds"] is None:
            print(f"  {row['solver']:<10}   did not reach {TARGET:g}")
        else:
            print(
                f"  {row['solver']:<10} {1e3 * row['seconds']:9.2f} ms   error {row['error']:.1e}   tol {row['tol']:.1e}   {row['speedup']:6.2f} x textbook",
                flush=True,
            )
    if args.json:
        args.json.write_text(
            json.dumps({"device": what, "torch": torch.__version__, "rows": found}, indent=1)
        )


if __name__ == "__main__":
    main()
