"""``rankhouse demo``: the demo's experiment in a home of its own."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flows.printing import format_option, say

DEMO = Path(__file__).resolve().parents[2] / "deployments" / "demo"
DEMO_HOME = ".rankhouse-demo"


@click.command()
@format_option
def command(format: str) -> int:
    """Run the demo evaluation: 45 handbook pages, 65 queries, a small model on this machine.

    Its results stay in .rankhouse-demo/ here; run it twice to see what is reused.

    Example: rankhouse demo
    """
    from flows.evaluating import evaluate_and_print
    from schemas.errors import StorageError
    from schemas.experiment import read_experiment
    from schemas.home import HOME_VARIABLE, Home

    file = DEMO / "experiment.toml"
    if not file.exists():
        raise StorageError(
            f"{file}: the demo is part of a source checkout; install it with pip install -e ."
        )
    home = Home(Path.cwd() / DEMO_HOME)
    os.environ[HOME_VARIABLE] = str(home.path)  # what this command starts uses it too
    say(f"experiment {os.path.relpath(file)}")
    return evaluate_and_print(
        read_experiment(file), home, logical_date=None, format=format, home_prefix=DEMO_HOME
    )
