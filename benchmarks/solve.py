"""Time to a measured relative error of 1e-6, forward and backward, for every solver.

Each row solves the equilibria of all scales and their adjoint equations in float32, from scratch,
as one training step does. A solver is run with the loosest tolerance, from a ladder, whose states
and bias gradients *measure* 1e-6 or better against a float64 reference; one that reaches it at no
tolerance is printed without a time. The textbook loop is Picard's iteration with the operator in
CSR and the weight computed once, stopped by the relative change of the states, as a careful reader
of the paper would write it. Solvers take turns, so that a busy machine slows all of them alike.

    python benchmarks/solve.py                   the table
    python benchmarks/solve.py --json out.json   the same, stored
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

import mgnni
from mgnni.implicit.linear import equilibria
from mgnni.solve.solve import Options
from mgnni.solve.solver import SOLVERS

TARGET = 1e-6
LADDER = [b * 10.0**-e for e in range(2, 8) for b in (5, 2, 1)]
CHANNELS, GAMMA = 64, 0.8
SIZES = {"chameleon-like": (2277, 36101), "squirrel-like": (5201, 217073)}
NEEDS_SYMMETRY = ("cg", "chebyshev", "spectral")
Pass = Callable[[float], tuple[Tensor, Tensor, Tensor]]  # tol -> states, dB, dW


@dataclass(frozen=True)
class Case:
    """One equation to solve."""

    graph: str
    directed: bool
    scales: tuple[int, ...]
    weights: str


@dataclass(frozen=True)
class Row:
    """What one solver needed for one case; ``seconds`` is None if it never reached the target."""

    case: Case
    solver: str
    tol: float | None
    error: float | None
    seconds: float | None
    speedup: float | None


def graph(nodes: int, edges: int, generator: torch.Generator) -> Tensor:
    """A directed graph of the given size with the heavy-tailed degrees of a web graph."""
    popularity = torch.rand(nodes, generator=generator).pow(-0.6)
    ends = [torch.multinomial(popularity, edges, True, generator=generator) for _ in range(2)]
    return torch.stack(ends).unique(dim=1)


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
    prop: mgnni.Propagation, weight: Tensor, bias: Tensor, grad: Tensor, scales: tuple[int, ...]
) -> Pass:
    """Picard's iteration, one scale after another, forward and backward."""
    forward, backward = prop.matrix, prop.adjoint().matrix

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
            z = fixed_point(forward, weight[i], bias, scale, tol)
            u = fixed_point(backward, weight[i].T.contiguous(), grad[i], scale, tol)
            hop = z
            for _ in range(scale):
                hop = forward @ hop
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
    """The library's solve and its gradients, as the layer calls it."""
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()

    def run(tol: float) -> tuple[Tensor, Tensor, Tensor]:
        z, _ = equilibria(prop, w, b, scales, GAMMA, options=Options(solver, tol))
        dw, db = torch.autograd.grad(z, [w, b], grad)
        return z.detach(), db, dw

    return run


def error(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> float:
    """The larger relative error of the two solves: of the states, and of the bias gradient."""
    pairs = zip(got[:2], want[:2], strict=True)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in pairs)


def reach(run: Pass, reference: tuple[Tensor, ...]) -> tuple[float, float] | None:
    """The loosest tolerance that measures the target, and the error it measures."""
    for tol in LADDER:
        try:
            measured = error(run(tol), reference)
        except mgnni.ConvergenceError:
            continue
        if measured <= TARGET:
            return tol, measured
    return None


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Time of one run."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(case: Case, prop: mgnni.Propagation, repeats: int) -> list[Row]:
    """Measure one case; one row a solver, the textbook loop first."""
    device, scales = prop.device, case.scales
    generator = torch.Generator().manual_seed(len(scales))
    weight = weights(case.weights, len(scales), generator).to(device)
    bias = torch.randn(prop.num_nodes, CHANNELS, generator=generator).to(device)
    grad = torch.randn(len(scales), *bias.shape, generator=generator).to(device)
    exact = (weight.double(), bias.double(), grad.double())
    reference = ours(prop.double(), *exact, scales, "auto")(1e-12)
    runs = {"textbook": textbook(prop, weight, bias, grad, scales)}
    for solver in ("auto", *SOLVERS):
        if not (case.directed and solver in NEEDS_SYMMETRY):
            runs[solver] = ours(prop, weight, bias, grad, scales, solver)
    reached = {name: reach(run, reference) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name, found in reached.items() if found}
    for _ in range(repeats):
        for name, spent in times.items():
            tol = reached[name][0]  # type: ignore[index]
            spent.append(seconds(lambda run=runs[name], tol=tol: run(tol), device))
    median = {name: statistics.median(spent) for name, spent in times.items()}
    rows = []
    for name, found in reached.items():
        tol, measured = found or (None, None)
        ratio = None
        if "textbook" in median and name in median:
            ratio = median["textbook"] / median[name]
        rows.append(Row(case, name, tol, measured, median.get(name), ratio))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path, help="store the rows here")
    args = parser.parse_args()
    device = torch.device(args.device)
    where = f"{torch.get_num_threads()} CPU threads"
    if device.type == "cuda":
        where = torch.cuda.get_device_name()
    print(f"mgnni {mgnni.__version__}, torch {torch.__version__}, {where}")
    print(f"h = {CHANNELS}, gamma = {GAMMA}, float32, forward + backward, error {TARGET:g}")
    found: list[Row] = []
    for name, (nodes, edges) in SIZES.items():
        for directed in (False, True):
            index = graph(nodes, edges, torch.Generator().manual_seed(0))
            index = index if directed else to_undirected(index)
            prop = mgnni.Propagation.from_edge_index(
                index.to(device), nodes, normalization="dir" if directed else "sym"
            )
            for scales in ((1, 2), (1, 2, 3)):
                for kind in ("initial", "trained"):
                    case = Case(name, directed, scales, kind)
                    arrow = "directed" if directed else "undirected"
                    top = "lambda_max 0.93" if kind == "trained" else "lambda_max ~ 0.34"
                    print(f"\n{name}, {arrow}, scales {scales}, {kind} weights ({top})")
                    for row in measure(case, prop, args.repeats):
                        found.append(row)
                        if row.seconds is None:
                            print(f"  {row.solver:<10} did not reach {TARGET:g}", flush=True)
                            continue
                        line = f"  {row.solver:<10} {1e3 * row.seconds:9.2f} ms"
                        line += f"   error {row.error:.1e} at tol {row.tol:.0e}"
                        ratio = f"{row.speedup:6.2f} x" if row.speedup else "     -"
                        print(f"{line}   {ratio} textbook", flush=True)
    auto = [row for row in found if row.solver == "auto" and row.speedup]
    if auto:
        worst = min(auto, key=lambda row: row.speedup or 0)
        print(f"\nauto against the textbook loop: at worst {worst.speedup:.2f} x ({worst.case})")
    if args.json:
        stored = {"device": where, "torch": torch.__version__, "mgnni": mgnni.__version__}
        stored["rows"] = [asdict(row) for row in found]  # type: ignore[assignment]
        args.json.write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
