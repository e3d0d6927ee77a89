"""The kernels in plain torch and float64, to compare with and to replace them on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mgnni.graph import csr
from mgnni.kernels import launches, terms
from mgnni.kernels.rows import Rows
from mgnni.kernels.terms import Lines
from mgnni.layers.regularization import keep_mask
from mgnni.solve import device as device_module
from mgnni.solve import weights
from mgnni.solve.expansion import resolvent


def eigenpairs(weight: Tensor, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
    h = weight.size(-1)
    finite = weight.isfinite().all(-1).all(-1)
    exact = torch.where(finite.view(-1, 1, 1), weight, 0).double()
    values, vectors = torch.linalg.eigh(exact)
    values[~finite] = float("nan")
    wide = (0, launches.padded(h) - h)
    pad = torch.nn.functional.pad
    return pad(values.flip(-1), wide), pad(vectors.flip(-1), wide).float()


def table(
    values: Tensor,
    scales: Tensor,
    terms: int,
    *,
    chebyshev: bool,
    gamma: float,
    bound: float,
    tol: float,
) -> launches.Table:
    values = values.cpu()
    k = torch.arange(terms, dtype=torch.float64).view(-1, 1)
    coefficients, degrees = [], []
    for m, row in zip(scales.tolist(), gamma * values, strict=True):
        rate = row * bound**m
        if chebyshev:
            front, rho = resolvent(rate, m)
            size = rho.abs().clamp(max=1 - 1e-12)
            tail = (front.abs() / (1 - size)).sum(-1)
            degree = torch.log(tol / 2 / tail) / torch.log(size.amax(-1)) - 1
            power = rho ** k.unsqueeze(-1)
            power[0] = 1  # also of zero
            coefficient = (front * power).real.sum(-1)
            coefficient[0] /= 2
            degree = degree.ceil().clamp(0, terms - 1)
        else:
            degree = m * torch.log(tol * torch.ones_like(rate)).div(torch.log(rate.abs())).ceil()
            degree = degree.clamp(0, (terms - 1) // m * m)
            coefficient = torch.where(k % m == 0, row ** (k // m), 0.0)
        degree = torch.where(rate == 0, 0.0, degree).nan_to_num(terms - 1)
        coefficients.append(torch.where(k > degree, 0.0, coefficient))
        degrees.append(degree.int())
    degree = torch.stack(degrees)
    by_rank = torch.stack(coefficients, -1).flatten(1)  # equations side by side
    columns = degree.T.flatten()
    groups = columns.view(-1, launches.COLUMNS).amax(1)
    return launches.Table(by_rank.float(), groups, columns, degree.amax(1))


def matrix(rows: Rows, col: Tensor, value: Tensor, way: int) -> Tensor:
    """The matrix, from the parts into which its rows were split."""
    n = rows.first.size(1) - 1
    count = int(rows.first[way, -1])
    row_of_part = torch.arange(n).repeat_interleave(rows.first[way].long().diff())
    starts = rows.part[way, : count + 1].long()
    row = row_of_part.repeat_interleave(starts.diff())
    dense = torch.zeros(n, n, dtype=torch.float64)
    return dense.index_put_((row, col.long()), value.double(), accumulate=True)


def sweep(
    rows: Rows,
    col: Tensor,
    value: Tensor,
    columns: Tensor,
    coefficient: Tensor,
    degree: Tensor,
    *,
    chebyshev: bool = False,
    bound: float = 1.0,
) -> Tensor:
    p = matrix(rows, col, value, 0)
    if chebyshev:
        p = p / bound
    degree = degree.repeat_interleave(launches.COLUMNS)
    now, before = columns.double(), None
    total = coefficient[0] * now
    for k in range(1, int(degree.max()) + 1):
        new = p @ now if before is None or not chebyshev else 2 * p @ now - before
        now, before = new, now
        total = total + torch.where(degree >= k, coefficient[k].double(), 0.0) * now
    return total.to(columns.dtype)


def add_term(
    lines: Lines,
    values: Tensor,
    now: Tensor,
    following: Tensor,
    total: Tensor | None = None,
    coefficient: Tensor | None = None,
    *,
    width: int | None = None,
    factor: float = 1.0,
    keep: float = 0.0,
) -> Tensor:
    shape = following.size(0), now.size(0)
    p = torch.sparse_csr_tensor(lines.crow.long(), lines.col.long(), values.double(), shape)
    some = slice(width)
    product = factor * (p @ now[:, some].double())
    following[:, some] = product + (keep * following[:, some] if keep else 0)
    if total is not None and coefficient is not None:
        total[:, some] += coefficient[some] * following[:, some]
    return following


def certificates(
    residual: Tensor,
    z: Tensor,
    bias: Tensor,
    values: Tensor,
    needed: Tensor,
    *,
    batch: Tensor | None,
    num_graphs: int,
    weight: Tensor | None,
    largest: bool,
    to_frobenius: Tensor | None,
    steps: Tensor,
    factors: Tensor,
) -> Tensor:
    numbers = torch.zeros(5, len(residual), num_graphs, dtype=torch.float64)
    batch = torch.zeros(residual.size(1), dtype=torch.long) if batch is None else batch
    unit = torch.finfo(torch.float32).eps / 2
    for i in range(len(residual)):
        for graph in range(num_graphs):
            mine = batch == graph
            plain, own = [], []
            for x in (residual[i], z[i], bias[i % len(bias)]):
                rows = x[mine].double().norm(dim=-1)
                plain.append(rows.norm())
                if weight is None:
                    own.append(plain[-1])
                elif largest:
                    own.append((rows / weight[mine]).amax() if len(rows) else plain[-1])
                else:
                    own.append((rows * weight[mine]).sum())
            contraction = steps[i] * (values[i, 0] + 1e-8 * values.size(1))
            rounding = unit * (factors[i] * own[1] + 2 * (own[1] + own[2]))
            error = (own[0] + rounding) / (1 - contraction)
            error = error if to_frobenius is None else error * to_frobenius[graph]
            found = plain[0], torch.maximum(plain[1], plain[2]), error, contraction, needed[i]
            numbers[:, i, graph] = torch.stack([number.double() for number in found])
    return numbers


def dropped(x: Tensor, key: Tensor, place: Tensor | None, p: float) -> Tensor:
    if place is None:
        place = torch.arange(x[0].numel(), dtype=torch.int32)
    masks = [keep_mask(one, place.flatten(), p).view(x.shape[1:]) for one in key]
    return torch.where(torch.stack(masks), x / (1 - p), 0.0)


def use_kernels(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves on the device with its kernels, and on the CPU with the functions above."""
    if device.type == "cuda":
        return
    for function in (table, sweep, certificates):
        monkeypatch.setattr(launches, function.__name__, function)
    monkeypatch.setattr(launches, "has_room", lambda rows, width, device: True)
    monkeypatch.setattr(csr, "processors", lambda device: 7)
    monkeypatch.setattr(weights, "eigenpairs", eigenpairs)
    set_widest(116, monkeypatch)
    monkeypatch.setattr(device_module, "kernels_available", lambda device: True)


def set_widest(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the number of channels up to which a kernel finds eigenpairs."""
    for module in (launches, weights):
        monkeypatch.setattr(module, "widest", lambda device: channels)


def as_if_large(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As :func:`use_kernels`, but term by term, as large graphs are solved.

    Graphs too large for one launch have no dense solution to compare with.
    """
    use_kernels(device, monkeypatch)
    monkeypatch.setattr(device_module, "LARGEST", 0)
    if device.type == "cpu":
        monkeypatch.setattr(Lines, "usable", True)
        monkeypatch.setattr(Lines, "fit", lambda *_: False)  # other products use torch
        monkeypatch.setattr(terms, "add_term", add_term)


def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves without kernels, on any device."""
    monkeypatch.setattr(device_module, "kernels_available", lambda device: False)
