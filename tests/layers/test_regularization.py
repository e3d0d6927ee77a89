import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call, stack_module_state, vmap

from kernels import reference
from mgnni.layers import regularization
from mgnni.layers.heads import GraphHead
from mgnni.layers.regularization import BatchNorm, Dropout, keep_mask, number_rows

SIZE = 100_000


def key(number: int) -> torch.Tensor:
    return torch.tensor(number * 6364136223846793005 % 2**63, dtype=torch.long)


def mask(number: int, p: float = 0.5) -> torch.Tensor:
    return keep_mask(key(number), torch.arange(SIZE, dtype=torch.int32), p)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_masks_have_the_requested_rate(p):
    kept = torch.stack([mask(number, p) for number in range(20)]).double()
    assert abs(float(kept.mean()) - (1 - p)) < 4 * (p * (1 - p) / kept.numel()) ** 0.5 + 1e-12


def test_masks_are_uncorrelated_over_keys_and_places():
    masks = torch.stack([mask(number) for number in range(30)]).double() * 2 - 1
    correlation = masks @ masks.T / SIZE
    off = correlation - torch.diag(torch.diagonal(correlation))
    assert float(off.abs().max()) < 5.5 / SIZE**0.5  # 435 pairs; 5.5 standard deviations
    for lag in (1, 2, 64, 183, 1703, 2325, 4096):  # neighbours, and rows of feature matrices
        shifted = (masks[:, lag:] * masks[:, :-lag]).mean(1)
        assert float(shifted.abs().max()) < 5.5 / (SIZE - lag) ** 0.5


@pytest.mark.parametrize("step", [1, 2, 2**32, 2**40])
def test_keys_that_differ_in_few_bits_give_unrelated_masks(step):
    a, b = (mask_of_raw(raw) for raw in (12345, 12345 + step))
    assert abs(float((a == b).double().mean()) - 0.5) < 5 * 0.5 / SIZE**0.5


def mask_of_raw(raw: int) -> torch.Tensor:
    return keep_mask(torch.tensor(raw), torch.arange(SIZE, dtype=torch.int32), 0.5)


def test_two_processes_drop_what_one_does_in_graphs_of_one_node(device):
    head = GraphHead(16, 16, num_layers=1, dropout=0.5).to(device, torch.float64)
    for number, part in enumerate(head.modules()):
        if isinstance(part, Dropout):
            part.keyed, part.key = True, key(number + 1).to(device)
    z = torch.arange(80.0, dtype=torch.float64, device=device).sin().view(5, 16)
    graph = torch.tensor([0, 0, 0, 1, 2], device=device)
    whole = head(z, None, graph, 3)
    nodes = torch.arange(5, device=device)
    parts = []
    for first, last in ((0, 0), (1, 2)):  # graphs; the second process has as many as nodes
        mine = (graph >= first) & (graph <= last)
        number_rows(head, nodes=nodes[mine], graphs=torch.arange(first, last + 1, device=device))
        parts.append(head(z[mine], None, graph[mine] - first, last - first + 1))
    torch.testing.assert_close(torch.cat(parts), whole)


def test_keyed_dropout_does_not_use_the_global_generator(device):
    layer = Dropout(0.5).to(device)
    layer.keyed = True
    x = torch.ones(7, 11, device=device)
    state = torch.random.get_rng_state()
    first, second = layer(x), layer(x)
    assert torch.equal(first, second)
    assert set(first.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(torch.random.get_rng_state(), state)
    layer.key = layer.key + 1
    assert not torch.equal(layer(x), first)
    assert layer.eval()(x) is x


def test_masks_are_the_same_on_every_device(device):
    here = keep_mask(key(3).to(device), torch.arange(SIZE, dtype=torch.int32, device=device), 0.3)
    assert torch.equal(here.cpu(), mask(3, 0.3))


def test_vmapped_runs_have_the_masks_of_single_runs(device):
    layer = Dropout(0.4).to(device)
    layer.keyed = True
    x = torch.rand(5, 6, device=device)
    keys = torch.stack([key(number) for number in range(4)]).to(device)
    together = vmap(lambda k: functional_call(layer, {"key": k}, (x,)))(keys)
    for one, alone in zip(together, keys, strict=True):
        layer.key = alone
        assert torch.equal(one, layer(x))


def test_dropout_without_a_key_is_that_of_torch(device):
    x = torch.ones(50, 50, device=device)
    torch.manual_seed(0)
    ours = Dropout(0.3).to(device)(x)
    torch.manual_seed(0)
    torch.testing.assert_close(ours, torch.nn.Dropout(0.3)(x), rtol=0, atol=0)


def test_dropout_adds_nothing_to_a_state_dict():
    assert not Dropout().state_dict()


def fused(x: torch.Tensor, key: torch.Tensor, place: torch.Tensor | None, p: float) -> torch.Tensor:
    return regularization._Drop.apply(x, key, place, p)


@pytest.fixture
def kernel(device, monkeypatch):
    """The kernel, or its reference implementation on a CPU."""
    if device.type == "cpu":
        monkeypatch.setattr(regularization, "dropped", reference.dropped)


@pytest.mark.parametrize("placed", [False, True])
def test_fused_dropout_equals_the_unfused_one(kernel, placed, device):
    x = torch.randn(6, 9, device=device, requires_grad=True)
    number = key(5).to(device)
    count = torch.arange(x.numel(), dtype=torch.int32, device=device).view(x.shape)
    place = count * 977 if placed else None
    plain = x * keep_mask(number, count if place is None else place, 0.3) / 0.7
    found = fused(x, number, place, 0.3)
    torch.testing.assert_close(found, plain)
    assert 0 < int((found == 0).sum()) < x.numel()
    cotangent = torch.randn_like(x)
    ours, theirs = (torch.autograd.grad(y, x, cotangent)[0] for y in (found, plain))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (1, 0), (0, None)], ids=str)
def test_fused_dropout_supports_vmap_and_gradients(kernel, dims, device):
    x = torch.randn(4, 4, 5, device=device, requires_grad=True)
    shared = x if dims[0] is not None else x[0]
    keys = torch.stack([key(number) for number in range(4)]).to(device)
    keys = keys if dims[1] is not None else keys[2]

    def plain(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        count = torch.arange(x.numel(), dtype=torch.int32, device=device).view(x.shape)
        return x * keep_mask(number, count, 0.3) / 0.7

    def one(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return fused(x, number, None, 0.3)

    found, wanted = (vmap(way, in_dims=dims)(shared, keys) for way in (one, plain))
    torch.testing.assert_close(found, wanted)
    cotangent = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad(y, x, cotangent)[0] for y in (found, wanted))
    torch.testing.assert_close(ours, theirs)


def batch_norms(device, dtype=torch.float64):
    ours, theirs = BatchNorm(5).to(device, dtype), torch.nn.BatchNorm1d(5).to(device, dtype)
    with torch.no_grad():
        for parameter in (ours.weight, ours.bias):
            parameter.uniform_(0.5, 2)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def test_batch_norm_is_that_of_torch_in_training_and_evaluation(device):
    ours, theirs = batch_norms(device)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(7, 5, dtype=torch.float64, device=device) * 3 + seed
        torch.testing.assert_close(ours(x), theirs(x))
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_batch_norm_has_correct_gradients(device):
    ours, _ = batch_norms(device)
    x = torch.randn(6, 5, dtype=torch.float64, device=device, requires_grad=True)
    assert gradcheck(ours, (x,))


def test_batch_norm_refuses_a_single_row_like_torch(device):
    ours, _ = batch_norms(device)
    with pytest.raises(ValueError, match="more than 1 value"):
        ours(torch.zeros(1, 5, dtype=torch.float64, device=device))


def test_batch_norm_of_vmapped_runs_is_bitwise_that_of_each_run():
    models = [batch_norms("cpu", torch.float32)[0] for _ in range(6)]
    x = torch.randn(6, 183, 5)

    def passes(chosen):
        parameters, buffers = stack_module_state([models[i] for i in chosen])
        rows = x[chosen].requires_grad_()

        def one(p, b, row):
            return functional_call(models[0], (p, b), (row,))

        y = vmap(one)(parameters, buffers, rows)
        (grad,) = torch.autograd.grad((y * y.detach().cos()).sum(), rows)
        return y, grad, buffers["running_var"]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for together, alone in zip(passes([0, 1, 2, 3, 4, 5]), passes([4]), strict=True):
            assert torch.equal(together[4], alone[0])
    finally:
        torch.set_num_threads(threads)
