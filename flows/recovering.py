"""What ``rankhouse recover`` does: nights of a killed worker crashed, before a worker starts."""

from __future__ import annotations

from flows.prefect_settings import has_configured_server
from flows.printing import say
from schemas.errors import FailedError, UsageError
from schemas.home import Home

FLOW = "run_nightly"


def recover(deployment: str, home: Home) -> int:
    """Crash flow runs that have no process here, free their slot, keep the newest that waits.

    Returns:
        How many there were.

    Raises:
        UsageError: the name is none, or no server is configured.
        FailedError: the server does not answer.
    """
    from flows.cli import prefect_environment

    if "/" in deployment or not deployment.isprintable() or not deployment.strip():
        raise UsageError(
            f"deployment {deployment!r}: expected the name that stands in prefect.yaml, such as "
            f"nightly, without the flow's name {FLOW}/"
        )
    if not has_configured_server():
        raise UsageError(
            "no Prefect server is configured: set PREFECT_API_URL to the one that the worker "
            "uses. `rankhouse serve` recovers its own nights when it starts."
        )
    with prefect_environment(home):
        import httpx
        from prefect.client.orchestration import get_client
        from prefect.exceptions import ObjectNotFound

        from flows.flow_runs import crash_stale, keep_newest

        try:
            with get_client(sync_client=True) as client:
                known = client.read_deployment_by_name(f"{FLOW}/{deployment}")
                stale = crash_stale(client, known.id)
                keep_newest(client, known.id)
        except ObjectNotFound:
            say(f"the server has no deployment {FLOW}/{deployment} yet: nothing to recover")
            return 0
        except httpx.TransportError as error:
            raise FailedError(
                f"the Prefect server does not answer ({type(error).__name__}); is PREFECT_API_URL "
                "right, and is it running?"
            ) from None
    for run in stale:
        say(f"{run.name} of {run.expected_start_time:%Y-%m-%d %H:%M} UTC is now Crashed")
    return len(stale)
