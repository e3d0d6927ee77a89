import pytest
import torch
from torch.func import functional_call, vmap

from kernels import reference
from mgnni.layers import dropout as dropout_module
from mgnni.layers.dropout import Dropout, keep_mask

SIZE = 100_000


def key(number: int) -> torch.Tensor:
    return torch.tensor(number * 6364136223846793005 % 2**63, dtype=torch.long)


def mask(number: int, p: float = 0.5) -> torch.Tensor:
    return keep_mask(key(number), torch.arange(SIZE, dtype=torch.int32), p)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_the_rate_is_the_one_asked_for(p):
    kept = torch.stack([mask(number, p) for number in range(20)]).double()
    assert abs(float(kept.mean()) - (1 - p)) < 4 * (p * (1 - p) / kept.numel()) ** 0.5 + 1e-12


def test_masks_of_different_keys_places_and_neighbours_are_uncorrelated():
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


def test_a_key_decides_the_mask_and_leaves_the_generator_alone(device):
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


def test_the_mask_is_the_same_on_every_device(device):
    here = keep_mask(key(3).to(device), torch.arange(SIZE, dtype=torch.int32, device=device), 0.3)
    assert torch.equal(here.cpu(), mask(3, 0.3))


def test_runs_together_have_the_masks_they_have_alone(device):
    layer = Dropout(0.4).to(device)
    layer.keyed = True
    x = torch.rand(5, 6, device=device)
    keys = torch.stack([key(number) for number in range(4)]).to(device)
    together = vmap(lambda k: functional_call(layer, {"key": k}, (x,)))(keys)
    for one, alone in zip(together, keys, strict=True):
        layer.key = alone
        assert torch.equal(one, layer(x))


def test_without_a_key_it_is_torchs_own(device):
    x = torch.ones(50, 50, device=device)
    torch.manual_seed(0)
    ours = Dropout(0.3).to(device)(x)
    torch.manual_seed(0)
    torch.testing.assert_close(ours, torch.nn.Dropout(0.3)(x), rtol=0, atol=0)


def test_it_adds_nothing_to_a_state_dict():
    assert not Dropout().state_dict()


def fused(x: torch.Tensor, key: torch.Tensor, place: torch.Tensor | None, p: float) -> torch.Tensor:
    return dropout_module._Drop.apply(x, key, place, p)


@pytest.fixture
def kernel(device, monkeypatch):
    """The kernel, or on a CPU what it does."""
    if device.type == "cpu":
        monkeypatch.setattr(dropout_module, "dropped", reference.dropped)


@pytest.mark.parametrize("placed", [False, True])
def test_the_fused_way_is_the_plain_one(kernel, placed, device):
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
def test_the_fused_way_of_several_runs_and_its_gradient(kernel, dims, device):
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
