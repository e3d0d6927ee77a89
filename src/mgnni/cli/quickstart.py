"""``mgnni quickstart``: what several scales are good for, on a task made in code."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from mgnni.cli.errors import UsageError
from mgnni.cli.files import writable_folder
from mgnni.files import atomic_write

COLORED = 10  # nodes at the beginning of every chain that carry a colour
LONGEST, MOST = 100_000, 2_000_000  # nodes of a chain, and of all: more is a typing mistake


@dataclass(frozen=True)
class Quickstart:
    """See in a minute what several scales are good for.

    Trains MGNNI with scale 1, and with scales 1, 4 and 8, to count colours at one end of a chain
    from every node of it. Shows how accurate each is at every distance, how exactly its
    equilibrium equations were solved, and saves a picture and a report.

    Example: mgnni quickstart --length 80 --output longer-chains
    """

    length: int = 50
    """Nodes of a chain; the first 10 are coloured."""
    chains: int = 60
    """Chains of each of the two classes, drawn anew for every run."""
    epochs: int = 100
    """Epochs of training, the same for both models; the best on validation chains counts."""
    runs: int = 5
    """Repetitions, each with other chains and other initial weights."""
    seed: int = 1000
    """Seed of the first run; the next ones count up from it. The settings were chosen on others."""
    output: Path = Path("mgnni-quickstart")
    """Folder for the picture and the report."""
    json: bool = False
    """Print the report as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        """Refuse what cannot work before any work is done."""
        for option, value, least, most in (
            ("length", self.length, COLORED + 1, LONGEST),
            ("chains", self.chains, 5, MOST),
            ("epochs", self.epochs, 1, MOST),
            ("runs", self.runs, 1, MOST),
            ("seed", self.seed, 0, 2**62),
        ):
            if not least <= value <= most:
                raise UsageError(
                    f"--{option} must be between {least} and {most} (got {value}); "
                    f"leave it out for {getattr(Quickstart, option)}"
                )
        if 2 * self.chains * self.length > MOST:
            raise UsageError(
                f"--chains and --length must make at most {MOST} nodes (got 2 x {self.chains} x "
                f"{self.length}); lower one of them"
            )

    def run(self) -> None:
        """Train, evaluate, show and save."""
        start = time.perf_counter()
        self.check()
        folder = writable_folder(self.output)
        # Slow to import, and not needed to say what the options are or that one is wrong.
        from mgnni.cli.figure import draw
        from mgnni.cli.progress import follow
        from mgnni.cli.report import make_report
        from mgnni.cli.screen import show_result, show_task
        from mgnni.cli.study import Settings, study
        from mgnni.train.report import to_json

        settings = Settings(
            length=self.length,
            chains_per_class=self.chains,
            colored=COLORED,
            epochs=self.epochs,
            runs=self.runs,
            seed=self.seed,
        )
        if not self.json:
            show_task(settings)
        with follow(settings) as on_epoch:
            outcomes = study(settings, on_epoch)
        files = {"picture": folder / "accuracy.png", "report": folder / "report.json"}
        report = make_report(settings, outcomes, files, time.perf_counter() - start)
        with atomic_write(files["picture"]) as file:
            draw(report, file)
        with atomic_write(files["report"]) as file:
            file.write(to_json(report).encode())
        show_result(report, as_json=self.json)
