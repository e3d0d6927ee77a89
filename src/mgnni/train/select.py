"""Which epoch of a run counts, and when to stop looking for a better one."""

from __future__ import annotations

from dataclasses import dataclass

from mgnni.train.config import Config


@dataclass
class Selector:
    """Follows one run on its validation part.

    ``metric``: the highest metric, ties by loss; ``loss``: the lowest loss; either restarts the
    count of patience. ``authors``: an epoch is kept if its metric is the best so far, or ties
    with it at the lowest loss so far; patience restarts whenever either is at least as good as
    its best.
    """

    stopping: str
    patience: int | None
    best_epoch: int = 0
    best_metric: float = float("-inf")
    best_loss: float = float("inf")
    kept_loss: float = float("inf")  # at the best epoch
    waited: int = 0

    @classmethod
    def of(cls, config: Config) -> Selector:
        """A selector at the beginning of a run."""
        return cls(config.stopping, config.patience)

    @property
    def done(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience

    def update(self, epoch: int, loss: float, metric: float) -> bool:
        """Take in an epoch; return whether it is the one to keep so far."""
        if self.stopping == "authors":
            better = metric > self.best_metric or (
                metric == self.best_metric and loss <= self.best_loss
            )
            alive = loss <= self.best_loss or metric >= self.best_metric
        elif self.stopping == "loss":
            better = alive = loss < self.best_loss
        else:
            better = alive = (metric, -loss) > (self.best_metric, -self.kept_loss)
        self.best_metric = max(self.best_metric, metric)
        self.best_loss = min(self.best_loss, loss)
        self.waited = 0 if alive else self.waited + 1
        if better:
            self.best_epoch, self.kept_loss = epoch, loss
        return better
