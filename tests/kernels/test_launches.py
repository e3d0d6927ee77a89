"""The kernels against plain torch, and both against known answers."""

import ctypes

import pytest
import torch
from torch.func import vmap

from kernels import reference
from kernels.reference import use_kernels
from mgnni.kernels import dropout, launches, nvrtc
from mgnni.kernels.rows import Rows, share_out
from mgnni.layers.regularization import Dropout
from problems import generator


def weights(kind: str, count: int, h: int) -> torch.Tensor:
    factor = torch.randn(count, h, h, generator=generator(h))
    if kind == "rank-one":
        factor = factor[:, :1]
    if kind == "identity":
        factor = torch.eye(h).repeat(count, 1, 1)
    gram = factor.mT @ factor
    return (
        torch.zeros(count, h, h) if kind == "zero" else gram / gram.norm(dim=(1, 2)).view(-1, 1, 1)
    )


def assert_eigenpairs(weight: torch.Tensor, values: torch.Tensor, vectors: torch.Tensor) -> None:
    h = weight.size(-1)
    wanted = torch.linalg.eigvalsh(weight.cpu().double()).flip(-1)
    assert values.dtype is torch.float64
    torch.testing.assert_close(values[:, :h].cpu(), wanted, rtol=0, atol=3e-7)
    assert not values[:, h:].any()
    assert not vectors[..., h:].any()
    v = vectors[..., :h].cpu().double()
    eye = torch.eye(h, dtype=torch.float64).expand_as(v)
    torch.testing.assert_close(v.mT @ v, eye, rtol=0, atol=2e-6)
    again = v * values[:, None, :h].cpu() @ v.mT
    torch.testing.assert_close(again, weight.cpu().double(), rtol=0, atol=1e-6)


def needs_room(device: torch.device, h: int) -> None:
    if h > launches.widest(device):
        pytest.skip(f"the blocks of this device have no room for {h} channels")


@pytest.mark.parametrize("h", [1, 2, 7, 8, 33, 64, 115, 116, 117, 127, 128])
@pytest.mark.parametrize("kind", ["random", "rank-one", "identity", "zero"])
def test_eigenpairs_are_those_of_lapack(cuda, kind, h):
    needs_room(cuda, h)
    weight = weights(kind, 3, h).to(cuda)
    assert_eigenpairs(weight, *launches.eigenpairs(weight))


def test_every_matrix_of_a_stack_has_its_own_eigenpairs(cuda):
    weight = weights("random", 20, 13).to(cuda)
    weight[3] = 0
    assert_eigenpairs(weight, *launches.eigenpairs(weight))


@pytest.mark.parametrize("h", [21, 105, 125])
def test_eigenpairs_start_from_those_of_a_similar_matrix(cuda, h):
    needs_room(cuda, h)
    weight = weights("random", 2, h).to(cuda)
    basis = launches.basis_for(weight)
    for step in range(12):
        assert_eigenpairs(weight, *launches.eigenpairs(weight, basis))
        near = weight + (0.02 if step % 4 else 2.0) * weights("random", 2, h).to(cuda).roll(step)
        near = near @ near.mT
        weight = near / near.norm(dim=(1, 2)).view(-1, 1, 1)
    launches.eigenpairs(torch.full_like(weight, float("nan")), basis)  # must not spoil the basis
    assert_eigenpairs(weight, *launches.eigenpairs(weight, basis))


@pytest.mark.parametrize("kind", ["random", "rank-one", "identity"])
@pytest.mark.parametrize("h", [7, 64, 125])
def test_the_same_matrix_has_the_same_eigenpairs_to_the_last_bit(cuda, h, kind):
    needs_room(cuda, h)
    weight = weights(kind, 2, h).to(cuda)
    basis = launches.basis_for(weight)
    first = launches.eigenpairs(weight, basis)
    for _ in range(3):
        again = launches.eigenpairs(weight, basis)
        assert all(map(torch.equal, first, again))


def test_the_widest_matrix_fits_into_shared_memory(cuda):
    h = launches.widest(cuda)
    assert 64 <= h <= launches.MOST_CHANNELS
    weight = weights("random", 1, h).to(cuda)
    assert_eigenpairs(weight, *launches.eigenpairs(weight))


TABLES = [(True, (1, 2, 5)), (False, (1, 2, 5)), (True, (3,)), (False, (1,)), (True, (16,))]


def eigenvalues(count: int, padded: int) -> torch.Tensor:
    values = torch.rand(count, padded, dtype=torch.float64, generator=generator(1))
    values = values.sort(1, descending=True).values
    values[0, 0] = 1.0
    values[:, -3:] = 0.0
    return values


@pytest.mark.parametrize("bound", [1.0, 0.7, 0.0])
@pytest.mark.parametrize(("chebyshev", "scales"), TABLES)
def test_polynomials_are_the_resolvent_up_to_the_tolerance(
    device, monkeypatch, chebyshev, scales, bound
):
    use_kernels(device, monkeypatch)
    gamma, tol, count, padded = 0.8, 1e-6, len(scales), 16
    values = eigenvalues(count, padded)
    made = launches.table(
        values.to(device),
        torch.tensor(scales, dtype=torch.int32, device=device),
        400,
        chebyshev=chebyshev,
        gamma=gamma,
        bound=bound,
        tol=tol,
    )
    coefficient = made.coefficient.cpu().double().view(400, padded, count)
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    s = x * (bound or 1.0)
    k = torch.arange(400, dtype=torch.float64).view(-1, 1)
    basis = torch.cos(k * torch.acos(x)) if chebyshev else s**k
    degree = made.degree.cpu().repeat_interleave(launches.COLUMNS).view(padded, count)
    for i, m in enumerate(scales):
        assert int(made.needed[i]) <= int(degree[:, i].max())
        for j in range(padded):
            mu = gamma * float(values[i, j])
            found = coefficient[:, j, i] @ basis
            reach = s if bound else torch.zeros_like(s)
            residual = 1 - (1 - mu * reach**m) * (found if bound else coefficient[0, j, i])
            if bound == 0 and not chebyshev:
                residual = residual[:1]
            assert float(residual.abs().max()) < tol + 2e-6  # coefficients are in float32
            assert not coefficient[int(degree[j, i]) + 1 :, j, i].any()
    if bound:
        assert 5 < int(made.needed.max()) < 399
        assert int(made.degree.min()) < int(made.degree.max())  # some columns leave early


@pytest.mark.parametrize(("chebyshev", "scales"), TABLES)
def test_tables_are_those_of_plain_torch(cuda, chebyshev, scales):
    options = {"chebyshev": chebyshev, "gamma": 0.9, "bound": 0.95, "tol": 1e-6}
    values = eigenvalues(len(scales), 24)
    scale = torch.tensor(scales, dtype=torch.int32)
    ours = launches.table(values.to(cuda), scale.to(cuda), 300, **options)
    wanted = reference.table(values, scale, 300, **options)
    torch.testing.assert_close(ours.coefficient.cpu(), wanted.coefficient, rtol=1e-5, atol=2e-6)
    most = 1 if chebyshev else max(scales)  # logarithms differ in their last digit
    assert int((ours.degree.cpu() - wanted.degree).abs().max()) <= most
    assert int((ours.needed.cpu() - wanted.needed).abs().max()) <= most


def sparse(lengths: list[int], n: int, scale: bool = True) -> tuple[torch.Tensor, ...]:
    """Rows with the given numbers of entries at random columns; absolute sums are at most one."""
    g = generator(2)
    count = torch.tensor(lengths)
    col = torch.cat([torch.randperm(n, generator=g)[:length] for length in lengths]).int()
    value = torch.rand(len(col), generator=g) * 2 - 1
    if scale:
        value = value / count.repeat_interleave(count)
    return count, col, value


def on(rows: Rows, device: torch.device) -> Rows:
    tensors = (rows.row_of, rows.entry_of, rows.part, rows.first)
    return Rows(*(one.to(device) for one in tensors), rows.parts, rows.entries, rows.rows)


SHAPES = {
    "one node": ([1], 1),
    "hub": ([300, *[2] * 299], 132),
    "empty rows": ([0, 0, 5, 40, 0, *[1] * 90, 0], 132),
    "many blocks": ([(7 * i) % 23 for i in range(2500)], 132),
    "one block": ([(7 * i) % 23 for i in range(300)], 1),
    "not resident": ([600] * 70 + [1] * 600, 1),
    "many parts": ([65] * 400 + [0] * 100, 1),
}


@pytest.mark.parametrize("chebyshev", [False, True])
@pytest.mark.parametrize("groups", [1, 3, 4, 5, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_sweeps_are_those_of_plain_torch(cuda, shape, groups, chebyshev):
    lengths, processors = SHAPES[shape]
    n, terms, width = len(lengths), 12, groups * launches.COLUMNS
    count, col, value = sparse(lengths, n)
    rows = share_out(count, min(processors, launches.processors(cuda)), torch.device("cpu"))
    if shape == "not resident":
        assert 8 * rows.entries > nvrtc.shared_memory(cuda)
    if shape == "many parts" and groups == 40:  # some groups have to wait
        assert 32 * rows.parts[1] * groups > nvrtc.shared_memory(cuda)
    columns, coefficient = torch.randn(n, width), torch.randn(terms, width)
    degree = torch.arange(groups, dtype=torch.int32) * 5 % terms  # one of them has none
    degree[-1] = terms - 1
    options = {"chebyshev": chebyshev, "bound": 0.9 if chebyshev else 1.0}
    wanted = reference.sweep(rows, col, value, columns, coefficient, degree, **options)
    numbers = [one.to(cuda) for one in (col, value, columns, coefficient, degree)]
    first, second = (
        launches.sweep(on(rows, cuda), *(one.clone() for one in numbers), **options)
        for _ in range(2)
    )
    assert torch.equal(first, second)  # deterministic
    gap = (first.cpu().double() - wanted.double()).norm(dim=0)
    assert float(gap.max()) < 1e-5 * float(wanted.double().norm(dim=0).max())


def test_a_sweep_of_degree_zero_is_a_product_with_a_number(cuda):
    count, col, value = sparse([3, 0, 2, 1], 4)
    rows = share_out(count, 4, cuda)
    columns, coefficient = torch.randn(4, 8, device=cuda), torch.randn(2, 8, device=cuda)
    degree = torch.zeros(1, dtype=torch.int32, device=cuda)
    found = launches.sweep(rows, col.to(cuda), value.to(cuda), columns.clone(), coefficient, degree)
    assert torch.equal(found, columns * coefficient[0])


def test_rows_must_leave_room_for_their_sums(device, monkeypatch):
    """One block has 32 bytes per row, and a few kilobytes besides."""
    monkeypatch.setattr(launches, "shared_memory", lambda device: 100_000)  # of one known size
    for count, fits in ((3000, True), (3100, False)):
        rows = share_out(torch.ones(count, dtype=torch.int32), 1, device)
        assert launches.has_room(rows, 16, device) == fits
    assert launches.has_room(share_out(torch.ones(3100, dtype=torch.int32), 7, device), 16, device)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("norm", ["frobenius", "max", "sum"])
@pytest.mark.parametrize("graphs", [None, 1, 4])
@pytest.mark.parametrize(("nodes", "h"), [(1, 1), (37, 5), (130, 24), (64, 130)])
def test_certificates_are_those_of_plain_torch(cuda, nodes, h, graphs, norm, shared):
    g = generator(nodes)
    residual, z = torch.randn(2, 3, nodes, h, generator=g)
    bias = torch.randn(1 if shared else 3, nodes, h, generator=g) * 1e-15
    batch = None
    if graphs is not None:
        batch = (torch.rand(nodes, generator=g) * graphs).long().sort().values
        batch[batch == 2] = 3  # one graph has no nodes
    num_graphs = graphs or 1
    weight = None if norm == "frobenius" else torch.rand(nodes, generator=g).double() + 0.1
    parts = {
        "batch": batch,
        "weight": weight,
        "to_frobenius": None if weight is None else torch.rand(num_graphs, generator=g).double(),
        "steps": torch.tensor([0.5, 0.7, 0.8]).double(),
        "factors": torch.tensor([9.0, 1e6, 4.0]).double(),
    }
    given = [residual, z, bias, eigenvalues(3, 8), torch.tensor([3, 5, 7], dtype=torch.int32)]
    others = {"num_graphs": num_graphs, "largest": norm == "max"}
    wanted = reference.certificates(*given, **others, **parts)
    there = {key: None if part is None else part.to(cuda) for key, part in parts.items()}
    found = launches.certificates(*(one.to(cuda) for one in given), **others, **there)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("norm", ["frobenius", "max", "sum"])
def test_numbers_that_are_not_finite_reach_the_certificate(cuda, norm):
    weight = None if norm == "frobenius" else torch.ones(9, dtype=torch.float64, device=cuda)
    residual = torch.ones(1, 9, 4, device=cuda)
    for place in range(9):
        broken = residual.clone()
        broken[0, place, 1] = float("nan")
        found = launches.certificates(
            broken,
            residual,
            residual,
            torch.ones(1, 8, dtype=torch.float64, device=cuda),
            torch.ones(1, dtype=torch.int32, device=cuda),
            batch=None,
            num_graphs=1,
            weight=weight,
            largest=norm == "max",
            to_frobenius=None,
            steps=torch.full((1,), 0.5, dtype=torch.float64, device=cuda),
            factors=torch.ones(1, dtype=torch.float64, device=cuda),
        )
        assert found[0].isnan().all()
        assert found[2].isnan().all()


KEYS = torch.tensor([0, -1, 1, 2**40 + 12345, -(2**63), 2**63 - 1])


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1,), (7, 11), (300, 257), (0, 4)])
def test_masks_are_those_of_plain_torch_bit_for_bit(cuda, shape, p):
    x = torch.randn(len(KEYS), *shape)
    found = dropout.dropped(x.to(cuda), KEYS.to(cuda), None, p).cpu()
    assert torch.equal(found, reference.dropped(x, KEYS, None, p))


def test_masks_depend_on_the_given_counters(cuda):
    place = torch.randint(-(2**31), 2**31, (500,)).int()
    x = torch.randn(len(KEYS), 500)
    found = dropout.dropped(x.to(cuda), KEYS.to(cuda), place.to(cuda), 0.4).cpu()
    assert torch.equal(found, reference.dropped(x, KEYS, place, 0.4))


def test_the_gradient_of_dropout_has_the_same_mask(cuda):
    layer = Dropout(0.3).to(cuda)
    layer.keyed, layer.key = True, KEYS[3].to(cuda)
    x = torch.randn(50, 40, device=cuda, requires_grad=True)
    y = layer(x)
    assert type(y.grad_fn).__name__.startswith("_Drop")
    cotangent = torch.randn(50, 40, device=cuda)
    (grad,) = torch.autograd.grad(y, x, cotangent)
    wanted = reference.dropped(cotangent.cpu().unsqueeze(0), KEYS[3:4], None, 0.3)[0]
    assert torch.equal(grad.cpu(), wanted)


@pytest.mark.parametrize("own_x", [True, False])
def test_dropout_under_vmap_has_one_mask_per_run(cuda, own_x):
    x = torch.randn(len(KEYS), 9, 5)
    x = (x if own_x else x[:1].expand_as(x)).to(cuda)
    leaf = (x if own_x else x[0]).clone().requires_grad_()
    layer = Dropout(0.3).to(cuda)
    layer.keyed = True

    def one(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"key": key}, (x,))

    y = vmap(one, in_dims=(0 if own_x else None, 0))(leaf, KEYS.to(cuda))
    assert torch.equal(y.cpu(), reference.dropped(x.cpu(), KEYS, None, 0.3))
    cotangent = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, leaf, cotangent)
    wanted = reference.dropped(cotangent.cpu(), KEYS, None, 0.3)
    torch.testing.assert_close(grad.cpu(), wanted if own_x else wanted.sum(0))


def test_a_launch_that_fails_raises_an_error(cuda):
    x = torch.zeros(8, device=cuda)
    none = ctypes.c_longlong(0)
    with pytest.raises(nvrtc.KernelError, match="launching dropout failed with CUDA error"):
        nvrtc.launch("dropout", 1, 4096, x, x, x, x, none, none, 0, ctypes.c_float(1))
