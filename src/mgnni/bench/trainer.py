"""An epoch of training and validation: through the library's learner, and in a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mgnni.train.config import Config
from mgnni.train.learner import Learner, row_losses

Example = tuple[tuple[Any, ...], Tensor, Tensor]  # inputs; labels and weight of each row
BETA = 0.9  # Adam's first: what it keeps of the mean of gradients


class Trainer(Protocol):
    """Whatever can train for an epoch, and tell what it computed in the first."""

    def train(self, number: int) -> None:
        """Train for an epoch of this number."""

    def validate(self) -> None:
        """Look at loss and metric on validation."""

    def scores(self) -> Tensor:
        """Return the logits of validation."""

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch, as the optimiser met them."""


def outcome(trainer: Trainer) -> list[Tensor]:
    """Train for an epoch and return the logits after it and, behind them, the gradients of it.

    These are read off the optimiser and the validation, so whatever an epoch is, recorded or
    not, it is what is measured.
    """
    trainer.train(1)
    trainer.validate()
    return [trainer.scores(), *trainer.gradients()]


class LearnerTrainer:
    """The library's own training, as ``mgnni train`` runs it; several runs are together.

    Args:
        learner: the runs.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def train(self, number: int) -> None:
        """Train for an epoch of this number."""
        self.learner.train_epoch(number)

    def validate(self) -> None:
        """Look at loss and metric on validation."""
        self.learner.validate()

    def scores(self) -> Tensor:
        """Return the logits of validation of the first run."""
        return self.learner.scores("val")[0]

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch of the first run."""
        state = self.learner.optimizer.state
        return [state[stack]["exp_avg"][0] / (1 - BETA) for stack in self.learner.ensemble.stacks]


class PlainTrainer:
    """A loop as one writes it by hand around a module.

    Args:
        model: the module.
        train: the examples of an epoch.
        val: the examples to validate on.
        config: rate and decay of Adam.
        rows: of validation, where the examples hold others too.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Sequence[Example],
        val: Sequence[Example],
        config: Config,
        rows: Tensor | None = None,
    ) -> None:
        self.model, self.examples, self.val, self.rows = model, train, val, rows
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
        )

    def train(self, number: int) -> None:
        """Train for an epoch."""
        self.model.train()
        for inputs, labels, weight in self.examples:
            self.optimizer.zero_grad()
            loss = (row_losses(self.model(*inputs), labels) * weight).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> None:
        """Look at loss and accuracy on validation."""
        self.model.eval()
        for inputs, labels, weight in self.val:
            logits = self.model(*inputs)
            loss = (row_losses(logits, labels) * weight).sum()
            hit = (logits > 0) == labels if labels.dim() > 1 else logits.argmax(-1) == labels
            right = (hit.view(len(hit), -1).float().mean(1) * weight).sum()
            torch.stack([loss, right]).tolist()  # as whoever looks at them would

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Return the logits of validation."""
        self.model.eval()
        logits = torch.cat([self.model(*inputs) for inputs, _, _ in self.val])
        return logits if self.rows is None else logits[self.rows]

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch."""
        state = self.optimizer.state
        return [state[one]["exp_avg"] / (1 - BETA) for one in self.model.parameters()]
