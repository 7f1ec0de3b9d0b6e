"""``rankhouse recover``: before a worker starts, free what a killed one held."""

from __future__ import annotations

import click


@click.command()
@click.argument("deployment", default="nightly")
def command(deployment: str) -> None:
    """Set nights whose worker was killed to Crashed, and free their slot.

    DEPLOYMENT is the name in prefect.yaml; PREFECT_API_URL names the server. Run it on the machine,
    or in the container, of the deployment's worker before the worker starts: a night without a
    process there counts as dead. Of several nights that wait only the newest is kept. Without this
    command the slot is free again five minutes after the kill. `rankhouse serve` does all this by
    itself.

    Example: rankhouse recover nightly
    """
    from flows.printing import say
    from flows.recovering import recover
    from schemas.home import find_home

    n_stale = recover(deployment, find_home())
    say(f"{n_stale} crashed" if n_stale else "nothing was left behind")
