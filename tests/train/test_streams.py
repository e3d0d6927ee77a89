import pytest
import torch

from mgnni.train.streams import DROPOUT, INITIAL, ORDER, Run, dropout_keys, mixed, offset, order

CPU = torch.device("cpu")


def test_numbers_have_63_bits_and_half_of_them_are_set():
    numbers = [mixed(a, b) for a in range(60) for b in range(60)]
    assert all(0 <= number < 2**63 for number in numbers)
    assert len(set(numbers)) == len(numbers)
    for bit in range(63):
        share = sum(number >> bit & 1 for number in numbers) / len(numbers)
        assert abs(share - 0.5) < 5 * 0.5 / len(numbers) ** 0.5, bit


def test_one_bit_of_any_number_changes_half_of_the_bits():
    changes = [
        bin(mixed(3, 5) ^ other).count("1")
        for bit in range(32)
        for other in (mixed(3 ^ 1 << bit, 5), mixed(3, 5 ^ 1 << bit))
    ]
    assert 28 < sum(changes) / len(changes) < 35  # 31.5 of 63
    assert min(changes) > 12


def test_the_order_and_the_count_of_numbers_matter():
    assert len({mixed(1, 2), mixed(2, 1), mixed(1, 2, 0), mixed(0, 1, 2), mixed(12)}) == 5


def test_runs_and_purposes_have_numbers_of_their_own():
    numbers = [
        Run(split, seed).number(purpose)
        for split in range(12)
        for seed in range(12)
        for purpose in (INITIAL, DROPOUT, ORDER)
    ]
    assert len(set(numbers)) == len(numbers)


def test_keys_differ_between_runs_layers_and_steps():
    runs = [Run(split, seed) for split in range(5) for seed in range(3)]
    keys = dropout_keys(runs, 4, CPU)
    assert keys.shape == (15, 4)
    every = torch.stack([keys + offset(step) for step in range(200)])
    assert every.unique().numel() == every.numel()
    for row, run in zip(keys, runs, strict=True):
        assert torch.equal(row, dropout_keys([run], 4, CPU)[0])  # whoever else is there


@pytest.mark.parametrize("step", [0, 1, 10**6, 2**40])
def test_steps_wrap_around(step):
    keys = torch.tensor([[2**63 - 1, -(2**63), 0]])
    wanted = [(key + 0x9E3779B97F4A7C15 * step + 2**63) % 2**64 - 2**63 for key in keys[0].tolist()]
    assert (keys + offset(step))[0].tolist() == wanted


def test_no_dropout_layer_is_no_key():
    assert dropout_keys([Run(0, 0), Run(1, 0)], 0, CPU).shape == (2, 0)


def test_the_order_of_graphs_depends_on_run_and_epoch_alone():
    before = torch.random.get_rng_state()
    first = order(Run(0, 0), 1, 50)
    torch.manual_seed(1234)
    assert torch.equal(first, order(Run(0, 0), 1, 50))
    assert sorted(first.tolist()) == list(range(50))
    others = [order(Run(0, 0), 2, 50), order(Run(0, 1), 1, 50), order(Run(1, 0), 1, 50)]
    assert not any(torch.equal(first, other) for other in others)
    torch.random.set_rng_state(before)
    order(Run(0, 0), 3, 50)
    assert torch.equal(torch.random.get_rng_state(), before)
