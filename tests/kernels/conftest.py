"""Fixtures of the kernel tests."""

import pytest
import torch


@pytest.fixture
def cuda(device: torch.device) -> torch.device:
    """A GPU."""
    if device.type != "cuda":
        pytest.skip("the kernels run on a GPU alone; set MGNNI_TEST_DEVICE=cuda")
    return device
