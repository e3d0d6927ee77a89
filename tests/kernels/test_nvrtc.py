import threading
import warnings

import pytest
import torch

from mgnni.kernels.nvrtc import SWITCH, enter, why_not


@pytest.fixture
def fresh_check():
    why_not.cache_clear()
    yield
    why_not.cache_clear()


def test_kernels_can_be_switched_off(fresh_check, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    assert why_not() == "MGNNI_KERNELS=0 is set"


def test_kernels_are_available_with_a_gpu_only(fresh_check, monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    wanted = None if torch.cuda.is_available() else "torch sees no CUDA device"
    assert why_not() == wanted


def test_a_new_thread_can_use_the_device(cuda):
    x = torch.ones(64, 64, device=cuda)
    said, found = [], []

    def work() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            enter(cuda)
            found.append(float((x @ x).sum()))
        said.extend(caught)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [64.0**3]
    assert not said


def test_entering_a_cpu_does_nothing():
    enter(torch.device("cpu"))
