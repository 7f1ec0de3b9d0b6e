"""From a run that landed, or waits to, to what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.differing import find_differences
from flows.explaining import Why, explain_comparison
from flows.night_reports import Outcome
from schemas.home import Home
from warehouse.comparisons import LOCKED
from warehouse.connect import open_to_read
from warehouse.faults import WarehouseLockedError
from warehouse.load import LoadReport
from warehouse.night_verdicts import NightVerdict, read_verdict

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
        found, why = _read(home, run_id) if loaded.has_landed(run_id) else (None, None)
    except WarehouseLockedError:
        found, why = None, None
    if found is not None:
        return Outcome(
            **about,
            verdict=found.verdict,
            reason=found.reason,
            is_first_night=found.is_first_night,
            comparisons=found.comparisons,
            losses=found.losses,
            alarms=() if why is None else tuple(why.alarms),
            why=() if why is None else tuple(why.lines),
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


def _read(home: Home, run_id: str) -> tuple[NightVerdict | None, Why | None]:
    """The verdict, and why it differs from the baseline that decided."""
    with open_to_read(home.warehouse) as connection:
        found = read_verdict(connection, run_id)
        if found is None:
            return None, None
        why = explain_comparison(connection, found.comparisons[0], home)
        if found.verdict == "not comparable" and not found.is_first_night:
            found = replace(found, reason=_what_differs(connection, found))
        return found, why


def _what_differs(connection: DuckDBPyConnection, found: NightVerdict) -> str:
    """The reason, with what makes the values mean different things."""
    decided = found.comparisons[0]
    measure = decided.lead or decided.gated[0].measure
    if not decided.baseline.run_ids:
        return found.reason
    differs = find_differences(connection, decided.run_id, decided.baseline.run_ids[-1], measure)
    return f"{found.reason} ({', '.join(differs)})" if differs else found.reason
