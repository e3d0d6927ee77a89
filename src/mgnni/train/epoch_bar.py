"""A progress bar over epochs for trainings in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from mgnni.data.metric_names import shown, unit
from mgnni.train.runs import Epoch


@contextmanager
def epoch_bar(
    epochs: int, show: bool | None, then: Callable[[Epoch], None] | None = None
) -> Iterator[Callable[[Epoch], None]]:
    """Yield a callback for every epoch that draws a bar on standard error.

    Args:
        epochs (int): Largest number of epochs.
        show (bool, optional): Whether to draw it; ``None`` draws it on a terminal only.
        then (Callable[[Epoch], None], optional): Called after the bar. (default: :obj:`None`)
    """
    from tqdm import tqdm  # type: ignore[import-untyped]  # comes with PyG

    disable = None if show is None else not show
    with tqdm(total=epochs, unit="epoch", disable=disable, leave=False) as bar:

        def on_epoch(epoch: Epoch) -> None:
            if not bar.disable:
                bar.set_description(_runs(epoch), refresh=False)
                if epoch.best_metric:
                    best = shown(epoch.metric, fmean(epoch.best_metric), digits=1)
                    text = f"best val {best}{unit(epoch.metric)}"
                    bar.set_postfix_str(text, refresh=False)
                bar.update(epoch.epoch - bar.n)
            if then is not None:
                then(epoch)

        yield on_epoch


def _runs(epoch: Epoch) -> str:
    """Return which runs are in training."""
    first = epoch.runs[0]
    if len(epoch.runs) == 1:
        return f"split {first.split}, seed {first.seed}"
    return f"{len(epoch.runs)} runs"
