import threading
import warnings

import pytest
import torch

from mgnni.kernels.nvrtc import SWITCH, enter, why_not


@pytest.fixture
def asked_anew():
    why_not.cache_clear()
    yield
    why_not.cache_clear()


def test_kernels_can_be_switched_off(asked_anew, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    assert why_not() == "MGNNI_KERNELS=0 is set"


def test_kernels_are_there_with_a_gpu_and_not_without(asked_anew, monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    wanted = None if torch.cuda.is_available() else "torch sees no CUDA device"
    assert why_not() == wanted


def test_a_thread_meets_the_device(cuda):
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


def test_a_cpu_is_met_by_every_thread():
    enter(torch.device("cpu"))
