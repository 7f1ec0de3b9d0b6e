"""From a run that landed, or waits to, to what is said of it."""

from __future__ import annotations

from typing import Any

from flows.night_reports import Outcome
from schemas.home import Home
from warehouse.comparisons import LOCKED
from warehouse.connect import open_to_read
from warehouse.faults import WarehouseLockedError
from warehouse.load import LoadReport
from warehouse.night_verdicts import NightVerdict, read_verdict


def outcome_of(home: Home, report: dict[str, Any], loaded: LoadReport) -> Outcome:
    """What one experiment's run came to.

    Args:
        home: whose warehouse.
        report: of the run (``flows.reporting.Report``, as JSON).
        loaded: of the last load of the night.
    """
    run_id, status = report["run_id"], report["status"]
    about = {"experiment": report["experiment"], "run_id": run_id, "status": status}
    try:
        found = _read(home, run_id) if loaded.has_landed(run_id) else None
    except WarehouseLockedError:
        found = None
    if found is not None:
        return Outcome(
            **about,
            verdict=found.verdict,
            reason=found.reason,
            is_first_night=found.is_first_night,
            comparisons=found.comparisons,
            losses=found.losses,
        )
    if loaded.problem or any(reason.startswith(run_id) for reason in loaded.refused):
        reason = loaded.problem or "; ".join(loaded.refused)
        return Outcome(**about, reason=f"evaluated, but not compared: {reason}")
    return Outcome(
        **about,
        verdict="not enough evidence",
        reason=LOCKED,
        spooled_because=f"the warehouse is held by {loaded.holder or 'another process'}",
    )


def _read(home: Home, run_id: str) -> NightVerdict | None:
    with open_to_read(home.warehouse) as connection:
        return read_verdict(connection, run_id)
