"""Names of metrics, which direction is better, and how values are shown."""

from __future__ import annotations

OF_CLASSES = ("accuracy", "micro_f1", "macro_f1", "balanced_accuracy", "roc_auc")
OF_NUMBERS = ("r2", "mae")
METRICS = (*OF_CLASSES, *OF_NUMBERS)
ONE_LABEL = ("balanced_accuracy", "roc_auc")  # metrics of tasks with one label per row
LOWER_IS_BETTER = ("mae",)


def metrics_of(regression: bool) -> tuple[str, ...]:
    """Returns the metrics of tasks with numbers, or with classes."""
    return OF_NUMBERS if regression else OF_CLASSES


def default_metric(multilabel: bool, regression: bool = False) -> str:
    """Returns the default metric of a task."""
    if regression:
        return "r2"
    return "micro_f1" if multilabel else "accuracy"


def gain(metric: str, value: float) -> float:
    """Returns a number that is larger the better a value of the metric is.

    Args:
        metric (str): Name of the metric.
        value (float): Its value.
    """
    return -value if metric in LOWER_IS_BETTER else value


def unit(metric: str) -> str:
    """Returns what follows a value of the metric: `` %``, or nothing for those of numbers."""
    return "" if metric in OF_NUMBERS else " %"


def readable(value: float, digits: int = 4) -> str:
    """Returns a number with some digits; large ones in full, with commas.

    Args:
        value (float): The number.
        digits (int, optional): Number of significant digits. (default: :obj:`4`)
    """
    large = 10**digits <= abs(value) < 1e15
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"


def shown(metric: str, value: float, std: float | None = None, digits: int = 2) -> str:
    """Returns a value as text, without its unit: in percent, or four digits for numbers.

    Args:
        metric (str): Name of the metric.
        value (float): Its value.
        std (float, optional): A standard deviation to show with it. (default: :obj:`None`)
        digits (int, optional): Decimals of a percentage. (default: :obj:`2`)
    """
    if metric == "r2":
        return f"{value:.4f}" + ("" if std is None else f" ± {std:.4f}")
    if metric in OF_NUMBERS:
        return readable(value) + ("" if std is None else f" ± {readable(std, 2)}")
    return f"{100 * value:.{digits}f}" + ("" if std is None else f" ± {100 * std:.{digits}f}")
