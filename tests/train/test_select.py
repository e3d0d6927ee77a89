from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgnni.train.config import Config
from mgnni.train.select import Selector

INF = float("inf")


def follow(stopping, sequence, patience=None):
    """Feed (loss, metric) pairs; return the epochs kept, and after which it was done."""
    selector = Selector.of(Config(stopping=stopping, patience=patience))
    kept = []
    for epoch, (loss, metric) in enumerate(sequence, start=1):
        if selector.update(epoch, loss, metric):
            kept.append(epoch)
            assert selector.best_epoch == epoch
        if selector.done:
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
def test_a_selector_goes_on_from_plain_data(before, after, stopping):
    one = Selector(stopping, 3)
    for epoch, pair in enumerate(before, start=1):
        one.update(epoch, *pair)
    other = Selector(**asdict(one))
    for epoch, pair in enumerate(after, start=len(before) + 1):
        assert one.update(epoch, *pair) == other.update(epoch, *pair)
    assert one == other
