"""What every test shares: a device, a seed, and how Hypothesis searches."""

import os

import pytest
import torch
from hypothesis import settings

# Solves take as long as they take, and a red test must be red again tomorrow.
settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device under test: MGNNI_TEST_DEVICE, or the CPU."""
    name = os.environ.get("MGNNI_TEST_DEVICE", "cpu")
    chosen = torch.device(name)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        pytest.fail(
            f"MGNNI_TEST_DEVICE={name} asks for a GPU, but torch {torch.__version__} sees none. "
            "Install a CUDA build of torch on a machine with a GPU, or unset MGNNI_TEST_DEVICE.",
            pytrace=False,
        )
    return chosen


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start every test from the same random state, whatever ran before it."""
    torch.manual_seed(0)
