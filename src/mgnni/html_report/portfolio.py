"""How the model of a result was chosen: the models that were compared on validation data."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from mgnni.data.metric_names import unit
from mgnni.html_report.results import Result
from mgnni.html_report.text import DASH, Html, duration, metric_name, score, table


def portfolio_part(result: Result, level: int) -> Iterator[str]:
    """Yield a table of the compared models, the best first, and the notes on the choice.

    Args:
        result (Result): The training; nothing is yielded if its model was given.
        level (int): Level of the heading.
    """
    record = result.report.get("portfolio")
    if record is None:
        return
    splits, metric = record["splits"], metric_name(record["metric"])
    where = f"split{'s' * (len(splits) > 1)} {', '.join(map(str, splits))}"
    yield f'<h{level} id="{result.anchor}-portfolio">Choice of the model</h{level}>'
    yield (
        f"<p>{len(record['candidates'])} models were compared by {escape(metric)} on the "
        f"validation set of {where}, in {duration(record['seconds'])}. The best one, "
        f"{escape(record['chosen'])}, was then trained. Test labels were not used.</p>"
    )
    yield _comparison(result)
    failed = [one for one in record["candidates"] if one["error"] is not None]
    notes = [f"{one['name']} failed: {one['error']}" for one in failed]
    notes += [f"{name} was left out: {reason}" for name, reason in record["left_out"].items()]
    for note in (*record["notes"], *notes):
        yield f'<p class="note">Note: {escape(note)}</p>'


def _comparison(result: Result) -> Html:
    record = result.report["portfolio"]
    head = ["Model", "Choice", f"Validation{unit(record['metric'])}", "Epochs", "Seconds per epoch"]
    rows = []
    for one in record["candidates"]:
        failed = one["validation"] is None
        chosen = one["name"] == record["chosen"]
        pace = one["seconds_per_epoch"]
        rows.append(
            [
                one["name"],
                "failed" if failed else "chosen" if chosen else DASH,
                score(record["metric"], one["validation"]),
                str(one["epochs"]),
                DASH if pace is None else f"{pace:.3g}",
            ]
        )
    return table(f"Models compared for {result.dataset}", head, rows, words=(0, 1))
