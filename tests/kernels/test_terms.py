"""Terms of an expansion by one kernel, against dense products in float64."""

import pytest
import torch

from kernels.test_launches import sparse
from mgnni.kernels import terms
from mgnni.solve.equation import Equations
from mgnni.solve.sweep import Series
from mgnni.solve.weights import Weights
from problems import dense_solution, generator, propagation

SHAPES = {
    "one node": [1],
    "no entries": [0, 0, 0],
    "hub": [1500, *[2] * 1499],
    "two hubs": [3, 1100, 1025, *[1024] * 2, *[0] * 1200],
    "empty rows": [0, 0, 5, 40, 0, *[1] * 90, 0],
    "many rows": [(7 * i) % 75 for i in range(2500)],
}


def lines_of(crow: torch.Tensor, col: torch.Tensor) -> terms.Lines:
    return terms.Lines(crow, col, crow.diff().cpu())


def matrix_of(lengths: list[int], device: torch.device) -> tuple[tuple, torch.Tensor]:
    """A matrix in CSR on the device, and dense on the CPU."""
    count, col, value = sparse(lengths, len(lengths))
    crow = torch.cat([torch.zeros(1, dtype=torch.long), count.cumsum(0)]).int()
    row = torch.arange(len(lengths)).repeat_interleave(count)
    dense = torch.zeros(len(lengths), len(lengths), dtype=torch.float64)
    dense[row, col.long()] = value.double()
    return (lines_of(crow.to(device), col.to(device)), value.to(device)), dense


def test_long_rows_and_hubs_are_found():
    crow = torch.tensor([0, terms.LONG, 2 * terms.LONG + 1, 2 * terms.LONG + 1])
    lines = lines_of(crow, torch.zeros(int(crow[-1])))
    assert lines.long.tolist() == [1]
    assert not lines.even
    assert lines_of(crow[:2], torch.zeros(terms.LONG)).even
    long = terms.LONG + 1
    assert lines_of(torch.arange(terms.HUB + 1) * long, torch.zeros(terms.HUB * long)).even
    assert lines_of(torch.zeros(1, dtype=torch.int32), torch.zeros(0)).even  # no rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 12, 36, 50, 64, 128, 129, 132, 256])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_term_is_a_product_a_recurrence_and_a_sum(cuda, shape, columns, dtype):
    (lines, values), dense = matrix_of(SHAPES[shape], cuda)
    matrix = lines, values.to(dtype)
    n = len(SHAPES[shape])
    now, before, total = torch.randn(3, n, columns, dtype=dtype)
    coefficient = torch.randn(columns, dtype=dtype)
    near = {"rtol": 0, "atol": 2e-5 if dtype is torch.float32 else 1e-13}
    for keep in (0.0, -1.0):
        following = 1.5 * dense @ now.double() + keep * before.double()
        summed = total.double() + coefficient.double() * following
        found = []
        for _ in range(2):
            new, sums = before.to(cuda), total.to(cuda)
            if not keep:
                new.fill_(torch.nan)  # must not be read
            options = {"factor": 1.5, "keep": keep}
            given = terms.add_term(
                *matrix, now.to(cuda), new, sums, coefficient.to(cuda), **options
            )
            assert given is new
            found.append((new.cpu(), sums.cpu()))
        assert torch.equal(found[0][0], found[1][0])  # deterministic
        torch.testing.assert_close(found[0][0].double(), following, **near)
        torch.testing.assert_close(found[0][1].double(), summed, **near)
    alone = terms.add_term(*matrix, now.to(cuda), torch.empty_like(now, device=cuda))
    torch.testing.assert_close(alone.cpu().double(), dense @ now.double(), **near)


def test_unaligned_memory_is_read_correctly(cuda):
    matrix, dense = matrix_of(SHAPES["empty rows"], cuda)
    n = len(SHAPES["empty rows"])
    memory = torch.randn(n * 8 + 3, device=cuda)
    for start in range(4):
        now = memory[start : start + n * 8].view(n, 8)
        found = terms.add_term(*matrix, now, torch.empty(n, 8, device=cuda))
        wanted = dense @ now.cpu().double()
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=0, atol=5e-6)


@pytest.mark.parametrize("columns", [1, 3, 8])
def test_a_row_does_not_depend_on_others(cuda, columns):
    """Not even in the last digit, however large the other numbers are."""
    (lines, values), _ = matrix_of(SHAPES["many rows"], cuda)
    n = len(SHAPES["many rows"])
    now = torch.randn(n, columns, device=cuda)
    first = terms.add_term(lines, values, now, torch.empty_like(now))
    row = 1234
    mine = lines.col[int(lines.crow[row]) : int(lines.crow[row + 1])].long()
    others = torch.full((n, 1), 1e20, device=cuda)
    others[mine] = 1
    again = terms.add_term(lines, values, now * others, torch.empty_like(now))
    assert torch.equal(first[row], again[row])


@pytest.mark.parametrize("width", [1, 4, 9, 63, 64])
def test_only_the_first_columns_are_touched(cuda, width):
    matrix, dense = matrix_of(SHAPES["two hubs"], cuda)
    n = len(SHAPES["two hubs"])
    now, before, total = torch.randn(3, n, 64)
    new, sums = before.to(cuda), total.to(cuda)
    terms.add_term(*matrix, now.to(cuda), new, sums, torch.ones(64, device=cuda), width=width)
    end = -(-width // 4) * 4
    wanted = dense @ now.double()
    torch.testing.assert_close(new[:, :width].cpu().double(), wanted[:, :width], rtol=0, atol=5e-6)
    assert torch.equal(new[:, end:].cpu(), before[:, end:])
    assert torch.equal(sums[:, end:].cpu(), total[:, end:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize(
    ("columns", "left"), [(21, [5, 5, 3, 3, 1]), (18, [7] * 5), (9, [3] * 5), (24, [24, 11, 2, 2])]
)
def test_columns_that_are_moved_read_no_uninitialised_memory(cuda, columns, left, dtype):
    shape = SHAPES["many rows"]
    (lines, values), dense = matrix_of(shape, cuda)
    size = float(dense.abs().sum(1).max())
    dense, values = dense / size, (values / size).to(dtype)
    t, widths = torch.randn(len(shape), columns, dtype=dtype), [columns, *left]
    # Rows of the table of coefficients are unaligned.
    table = torch.randn(len(widths), columns, dtype=dtype)
    for k, width in enumerate(widths):
        table[k, width:] = 0
    total = (table[0] * t).to(cuda)
    steps = {1: (1.0, 0.0)}
    terms.add_terms(
        lines,
        values,
        t.to(cuda),
        torch.full_like(t, torch.nan, device=cuda),
        total,
        widths,
        table.to(cuda).__getitem__,
        lambda k: steps.get(k, (2.0, -1.0)),
    )
    now, before = dense @ t.double(), t.double()
    wanted = table[0] * before + table[1] * now
    for k in range(2, len(widths)):
        now, before = 2 * dense @ now - before, now
        wanted += table[k] * now
    torch.testing.assert_close(total.cpu().double(), wanted.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["sym", "out"])
def test_a_series_by_terms_is_that_of_plain_torch_and_of_a_dense_solve(cuda, kind, monkeypatch):
    n, h, scales = 40, 6, (1, 2)
    operator = propagation(kind, n, dtype=torch.float32).to(cuda)
    factor = torch.randn(2, h, h, generator=generator(3))
    gram = factor.mT @ factor
    weight = (gram / gram.norm(dim=(1, 2), keepdim=True)).to(cuda)
    bias = torch.randn(2, n, h, generator=generator(4)).to(cuda)
    equations = Equations(operator, scales, 0.9, Weights(weight))
    assert operator.pattern.lines.fit(operator.values, bias[0])
    ours = Series(equations).propose(bias, 1e-6, 1000)
    monkeypatch.setattr(terms.Lines, "fit", lambda *_: False)
    plain = Series(equations).propose(bias, 1e-6, 1000)
    torch.testing.assert_close(ours.z, plain.z, rtol=1e-5, atol=1e-5)
    assert torch.equal(ours.iterations, plain.iterations)
    for i, scale in enumerate(scales):
        wanted = dense_solution(operator, weight[i], bias[i], scale, 0.9)
        torch.testing.assert_close(ours.z[i].double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 3, 4, 64])
@pytest.mark.parametrize("kind", ["sym", "out"])
def test_products_of_an_operator_are_those_of_its_dense_matrix(cuda, kind, columns):
    operator = propagation(kind, 40, dtype=torch.float32).to(cuda)
    x, out = torch.randn(2, 40, columns, device=cuda)
    wanted = operator.double().to_dense() @ x.double()
    torch.testing.assert_close(operator.multiply(x).double(), wanted, rtol=1e-5, atol=1e-6)
    wide = torch.randn(40, 2 * columns, device=cuda)[:, ::2].copy_(x)  # with gaps
    torch.testing.assert_close(operator.multiply(wide).double(), wanted, rtol=1e-5, atol=1e-6)
    summed = 2 * wanted - 0.5 * out.double()
    given = operator.multiply_into(out, x, 2.0, -0.5)
    assert given is out
    torch.testing.assert_close(out.double(), summed, rtol=1e-5, atol=1e-6)


def test_unsuitable_columns_do_not_fit_the_kernel(device):
    operator = propagation("out", 12, dtype=torch.float32).to(device)
    lines, values = operator.pattern.lines, operator.values
    x = torch.zeros(12, 8, device=device)
    assert lines.fit(values, x) == (device.type == "cuda")
    for other in (x.double(), x[:, :3], x[:, :7], x.T[:8].T[:, ::2], x.view(-1), x.cpu()):
        assert not lines.fit(values, other)
    assert not lines.fit(values.double(), x)
    assert not lines_of(lines.crow.long(), lines.col).fit(values, x)
