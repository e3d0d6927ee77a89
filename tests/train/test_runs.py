from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mgnni.train.config import Config
from mgnni.train.runs import (
    DROPOUT,
    INITIAL,
    ORDER,
    EarlyStopping,
    Run,
    dropout_keys,
    dropout_offset,
    graph_batches,
    graph_order,
    mix,
)

CPU = torch.device("cpu")
INF = float("inf")


def test_numbers_have_63_bits_and_half_of_them_are_set():
    numbers = [mix(a, b) for a in range(60) for b in range(60)]
    assert all(0 <= number < 2**63 for number in numbers)
    assert len(set(numbers)) == len(numbers)
    for bit in range(63):
        share = sum(number >> bit & 1 for number in numbers) / len(numbers)
        assert abs(share - 0.5) < 5 * 0.5 / len(numbers) ** 0.5, bit


def test_one_bit_of_any_number_changes_half_of_the_bits():
    changes = [
        bin(mix(3, 5) ^ other).count("1")
        for bit in range(32)
        for other in (mix(3 ^ 1 << bit, 5), mix(3, 5 ^ 1 << bit))
    ]
    assert 28 < sum(changes) / len(changes) < 35  # 31.5 of 63
    assert min(changes) > 12


def test_the_order_and_the_count_of_numbers_matter():
    assert len({mix(1, 2), mix(2, 1), mix(1, 2, 0), mix(0, 1, 2), mix(12)}) == 5


def test_runs_and_purposes_have_numbers_of_their_own():
    numbers = [
        Run(split, seed).seed_for(purpose)
        for split in range(12)
        for seed in range(12)
        for purpose in (INITIAL, DROPOUT, ORDER)
    ]
    assert len(set(numbers)) == len(numbers)


def test_keys_differ_between_runs_layers_and_steps():
    runs = [Run(split, seed) for split in range(5) for seed in range(3)]
    keys = dropout_keys(runs, 4, CPU)
    assert keys.shape == (15, 4)
    every = torch.stack([keys + dropout_offset(step) for step in range(200)])
    assert every.unique().numel() == every.numel()
    for row, run in zip(keys, runs, strict=True):
        assert torch.equal(row, dropout_keys([run], 4, CPU)[0])  # whoever else is there


@pytest.mark.parametrize("step", [0, 1, 10**6, 2**40])
def test_steps_wrap_around(step):
    keys = torch.tensor([[2**63 - 1, -(2**63), 0]])
    wanted = [(key + 0x9E3779B97F4A7C15 * step + 2**63) % 2**64 - 2**63 for key in keys[0].tolist()]
    assert (keys + dropout_offset(step))[0].tolist() == wanted


def test_no_dropout_layer_is_no_key():
    assert dropout_keys([Run(0, 0), Run(1, 0)], 0, CPU).shape == (2, 0)


def test_the_order_of_graphs_depends_on_run_and_epoch_alone():
    before = torch.random.get_rng_state()
    first = graph_order(Run(0, 0), 1, 50)
    torch.manual_seed(1234)
    assert torch.equal(first, graph_order(Run(0, 0), 1, 50))
    assert sorted(first.tolist()) == list(range(50))
    others = [
        graph_order(Run(0, 0), 2, 50),
        graph_order(Run(0, 1), 1, 50),
        graph_order(Run(1, 0), 1, 50),
    ]
    assert not any(torch.equal(first, other) for other in others)
    torch.random.set_rng_state(before)
    graph_order(Run(0, 0), 3, 50)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batches_of_a_number_are_each_drawn_from_all_graphs():
    drawn = graph_batches(Run(0, 0), 1, 20, batch_size=8, batches=50)
    assert [len(set(batch.tolist())) for batch in drawn] == [8] * 50  # none is in one twice
    seen = torch.cat(drawn).bincount(minlength=20)
    assert seen.sum() == 400
    assert seen.min() > 5  # 20 are expected, with a deviation of 3.5
    again = graph_batches(Run(0, 0), 1, 20, batch_size=8, batches=50)
    assert all(map(torch.equal, drawn, again))
    for other in (Run(0, 0), 2), (Run(0, 1), 1), (Run(1, 0), 1):
        assert not torch.equal(graph_batches(*other, 20, 8, 50)[0], drawn[0])
    assert [len(batch) for batch in graph_batches(Run(0, 0), 1, 5, batch_size=8, batches=2)] == [
        5,
        5,
    ]
    whole = graph_batches(Run(0, 0), 1, 20, batch_size=8)
    assert torch.equal(torch.cat(whole), graph_order(Run(0, 0), 1, 20))
    assert [len(batch) for batch in whole] == [8, 8, 4]


def follow(stopping, sequence, patience=None):
    """Feed (loss, metric) pairs; return the epochs kept, and after which it was done."""
    stopper = EarlyStopping.from_config(Config(stopping=stopping, patience=patience))
    kept = []
    for epoch, (loss, metric) in enumerate(sequence, start=1):
        if stopper.update(epoch, loss, metric):
            kept.append(epoch)
            assert stopper.best_epoch == epoch
        if stopper.done:
            return kept, epoch
    return kept, None


# loss, metric, and the epochs that each way of choosing keeps
SEQUENCE = [
    (1.0, 0.5),  # 1: the first, kept by all
    (0.9, 0.5),  # 2: as good a metric at a lower loss, kept by all
    (1.2, 0.6),  # 3: a better metric at a higher loss: not by loss
    (1.1, 0.6),  # 4: ties at a lower loss than 3, but 2 was lower: by metric alone
    (0.8, 0.4),  # 5: the lowest loss, a worse metric: by loss alone
    (0.8, 0.6),  # 6: ties with the best metric, and with the lowest loss
    (0.8, 0.6),  # 7: the same once more: authors alone, which take the last of equals
    (0.7, 0.6),  # 8: better
]


@pytest.mark.parametrize(
    ("stopping", "kept"),
    [
        ("metric", [1, 2, 3, 4, 6, 8]),
        ("loss", [1, 2, 5, 8]),
        ("authors", [1, 2, 3, 6, 7, 8]),
    ],
)
def test_what_is_kept_by_hand(stopping, kept):
    assert follow(stopping, SEQUENCE) == (kept, None)


@pytest.mark.parametrize(
    ("stopping", "end"),
    [
        ("metric", 5),  # the best metric is that of epoch 2
        ("loss", 6),  # the lowest loss is that of epoch 3
        ("authors", 7),  # epoch 4 still has the best metric, if only as good
    ],
)
def test_patience_by_hand(stopping, end):
    sequence = [(1.0, 0.5), (0.9, 0.6), (0.8, 0.5), (0.9, 0.6), *[(0.95, 0.5)] * 9]
    assert follow(stopping, sequence, patience=3)[1] == end


def test_a_patience_of_one_stops_at_the_first_epoch_that_is_no_better():
    assert follow("metric", [(1.0, 0.5), (0.9, 0.5), (0.9, 0.5)], patience=1)[1] == 3


def test_without_patience_nothing_stops():
    assert follow("metric", [(1.0, 0.5)] * 50)[1] is None


levels = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.sampled_from([0.0, 0.5, 0.6, 1.0])),
    min_size=1,
    max_size=25,
)


@given(levels, st.integers(1, 4))
def test_the_authors_rule_is_theirs(sequence, patience):
    # Their loop: the counter starts again if the loss is at most, or the accuracy at least, the
    # best so far; weights are saved if both hold, or if the accuracy is strictly above it.
    best_loss, best_accuracy, counter = INF, -INF, 0
    saved, end = [], None
    for epoch, (loss, accuracy) in enumerate(sequence, start=1):
        low, high = loss <= best_loss, accuracy >= best_accuracy
        if (low and high) or accuracy > best_accuracy:
            saved.append(epoch)
        counter = 0 if low or high else counter + 1
        best_loss, best_accuracy = min(best_loss, loss), max(best_accuracy, accuracy)
        if counter == patience:
            end = epoch
            break
    assert follow("authors", sequence, patience) == (saved, end)


@given(levels)
def test_the_epoch_kept_is_the_best_one(sequence):
    kept, _ = follow("metric", sequence)
    best = max((metric, -loss) for loss, metric in sequence)
    assert kept[-1] == 1 + [(metric, -loss) for loss, metric in sequence].index(best)
    kept, _ = follow("loss", sequence)
    assert kept[-1] == 1 + [loss for loss, _ in sequence].index(min(loss for loss, _ in sequence))


@given(levels, levels, st.sampled_from(["metric", "loss", "authors"]))
def test_early_stopping_goes_on_from_plain_data(before, after, stopping):
    one = EarlyStopping(stopping, 3)
    for epoch, pair in enumerate(before, start=1):
        one.update(epoch, *pair)
    other = EarlyStopping(**asdict(one))
    for epoch, pair in enumerate(after, start=len(before) + 1):
        assert one.update(epoch, *pair) == other.update(epoch, *pair)
    assert one == other
