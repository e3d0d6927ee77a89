import pytest
import torch

from mgnni.kernels.nvrtc import SWITCH, why_not


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
