"""``rankhouse serve``: a suite's nights on this machine, with Prefect's UI."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=4200,
    show_default=True,
    help="Where the Prefect server and its UI listen, on 127.0.0.1.",
)
def command(suite: Path, port: int) -> None:
    """Start a Prefect server with its UI, and each night of a suite when it is due.

    SUITE is a TOML file whose [schedule] says when: cron = "30 2 * * *", timezone =
    "Europe/Berlin". One night runs at a time. When nights were missed, the newest of them is run
    at once. Ctrl-C or SIGTERM stops everything that was started; a night that is stopped goes on
    where it was when its date is run again.

    A server that is named by PREFECT_API_URL or a Prefect profile is used in place of an own one.

    Example: rankhouse serve deployments/nightly/suite.toml
    """
    from flows.serving_suites import serve_suite
    from schemas.home import find_home
    from schemas.suites import read_suite

    serve_suite(read_suite(suite), find_home(), port=port)
