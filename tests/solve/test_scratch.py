"""Scratch memory: never shared between two users, reused, and bounded."""

import threading

import pytest
import torch

from mgnni.solve import scratch as module
from mgnni.solve.scratch import scratch


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    """A separate pool for every test."""
    fresh = module._Pool()
    monkeypatch.setattr(module, "_pool", fresh)
    return fresh


def test_tensors_have_the_requested_shape_and_dtype(device):
    for dtype in (torch.float32, torch.float64):
        like = torch.zeros((), dtype=dtype, device=device)
        with scratch(like) as take:
            for shape in ((3, 4), (0, 5), (7,), ()):
                block = take(*shape)
                assert block.shape == shape
                assert block.dtype is dtype
                assert block.device == like.device
                assert block.is_contiguous()


def test_no_two_users_share_memory(device):
    like = torch.zeros((), dtype=torch.float64, device=device)
    for _ in range(2):  # the second round finds blocks in the pool
        with scratch(like) as take:
            blocks = [take(10).fill_(i) for i in range(4)]
            with scratch(like) as inner:
                blocks += [inner(size).fill_(4 + i) for i, size in enumerate((3, 10, 50))]
                for i, block in enumerate(blocks):
                    assert bool((block == i).all())
            late = take(10).fill_(-1)
            assert all(bool((block == i).all()) for i, block in enumerate(blocks[:4]))
            assert bool((late == -1).all())


def test_memory_is_used_again_on_the_cpu(pool):
    like = torch.zeros((), dtype=torch.float64)
    with scratch(like) as take:
        first = take(100).data_ptr()
    with scratch(like) as take:
        assert take(10, 10).data_ptr() == first
    assert [block.numel() for block in pool.free[torch.float64]] == [100]


def test_memory_is_returned_after_an_error(pool):
    def borrow_and_fail():
        with scratch(torch.zeros((), dtype=torch.float64)) as take:
            take(100)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        borrow_and_fail()
    assert [block.numel() for block in pool.free[torch.float64]] == [100]


def test_the_pool_is_bounded(pool, monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 8 * 150)
    like = torch.zeros((), dtype=torch.float64)
    with scratch(like) as take:
        for size in (100, 40, 30, 1000):
            take(size)
    assert sum(block.numel() for block in pool.free[torch.float64]) <= 150


def test_every_thread_has_its_own_pool(pool):
    like = torch.zeros((), dtype=torch.float64)
    pointers = []
    with scratch(like) as take:
        pointers.append(take(100).data_ptr())

    def borrow():
        with scratch(like) as take:
            block = take(100).fill_(1.0)
            pointers.append(block.data_ptr())

    with scratch(like) as take:
        mine = take(100).fill_(2.0)
        thread = threading.Thread(target=borrow)
        thread.start()
        thread.join()
        assert bool((mine == 2).all())
    assert pointers[0] != pointers[1]
