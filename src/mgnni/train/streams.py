"""Random numbers that depend on the run alone: not on other runs, on the device, or on restarts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def mixed(*numbers: int) -> int:
    """Mix some numbers into one of 63 bits, each bit depending on all of them."""
    state = 0
    for number in numbers:
        state = (state + number + _GOLDEN) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


@dataclass(frozen=True)
class Run:
    """One training: which split, and with which seed."""

    split: int
    seed: int

    def number(self, *purpose: int) -> int:
        """A random number of this run, another for every purpose."""
        return mixed(self.seed, self.split, *purpose)


INITIAL, DROPOUT, ORDER = 1, 2, 3  # what a number is drawn for


def dropout_keys(runs: list[Run], layers: int, device: torch.device) -> Tensor:
    """Keys of all dropout layers before the first step, shape ``(runs, layers)``."""
    rows = [[run.number(DROPOUT, layer) for layer in range(layers)] for run in runs]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(runs), layers)


def offset(step: int) -> int:
    """What is added to the keys in a step: multiples of an odd number, so that none comes again."""
    return (_GOLDEN * step + 2**63) % 2**64 - 2**63  # as a signed number


def order(run: Run, epoch: int, count: int) -> Tensor:
    """The order of the training graphs in an epoch."""
    generator = torch.Generator().manual_seed(run.number(ORDER, epoch))
    return torch.randperm(count, generator=generator)
