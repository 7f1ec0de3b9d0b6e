"""What ``rankhouse serve`` does before its first night: server, deployment, what is left over."""

from __future__ import annotations

import os
import sys
import urllib.parse

import click

from flows.lasting_servers import LastingServer
from flows.prefect_settings import active_profile
from flows.printing import clean, say
from flows.scheduling import Timetable
from schemas.errors import ConfigurationError
from schemas.home import Home
from schemas.suites import Suite


def serve_suite(suite: Suite, home: Home, *, port: int) -> None:
    """Serve a suite until a signal comes.

    Raises:
        ConfigurationError: the suite has no schedule, or one that never fires; another suite of
            this home has its name.
        UsageError: the port is taken.
        StorageError: the home cannot be written, or is served already.
        FailedError: the Prefect server does not start.
    """
    from flows.cli import serving_environment
    from flows.planning_nights import check_name

    if suite.schedule.cron is None:
        raise ConfigurationError(
            f"{suite.path}: the suite has no schedule; add one\n  [schedule]\n"
            '  cron = "30 2 * * *"\n  timezone = "Europe/Berlin"'
        )
    home.prepare()
    check_name(suite, home)
    with serving_environment(home, port) as server:
        timetable = Timetable(suite.schedule.cron, suite.schedule.timezone)
        timetable.check(suite.path)
        say(f"home {home.path}")
        if server is not None:
            say("starting the Prefect server (the first time it prepares its database) …")
            server.keep()
        _serve(suite, home, timetable, server)


def _serve(suite: Suite, home: Home, timetable: Timetable, server: LastingServer | None) -> None:
    from prefect.client.orchestration import get_client

    from flows.deploying import deploy
    from flows.flow_runs import crash_stale, make_up
    from flows.serving import Serving

    ui = _ui(server)
    say(f"Prefect UI: {ui}")
    with get_client(sync_client=True) as client:
        deployment_id, since = deploy(client, suite, home)
        for run in crash_stale(client, deployment_id):
            say(f"{run.name} of {run.expected_start_time:%Y-%m-%d} was left behind: now Crashed")
        fire = make_up(client, deployment_id, timetable, since)
        if fire is not None:
            say(f"{suite.name}: the night of {timetable.logical_date(fire)} was missed; running it")
        log = home.prefect / f"night-{suite.name}.log"
        serving = Serving(suite.name, client, deployment_id, timetable, log, ui, _print_line)
        try:
            serving.run(server)
        finally:
            serving.stop()


def _ui(server: LastingServer | None) -> str:
    """Where the UI is, without what a URL may hold of a password."""
    if server is not None:
        return server.ui
    url = os.environ.get("PREFECT_API_URL") or active_profile()["PREFECT_API_URL"]
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path.removesuffix('/').removesuffix('/api')}"


def _print_line(line: str) -> None:
    click.echo(clean(line))
    sys.stdout.flush()
