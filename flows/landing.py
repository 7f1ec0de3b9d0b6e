"""Loading what a command has left in the spool, and saying what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.printing import say
from schemas.errors import StorageError
from schemas.home import Home

if TYPE_CHECKING:
    from warehouse.load import LoadReport

_LATER = "take it in with: rankhouse warehouse load"


def load_and_say(home: Home, *part_ids: str) -> None:
    """Load every part that waits; say where ours stay when they do, and what went wrong.

    Raises:
        StorageError: the warehouse cannot be used; the parts stay in the spool.
    """
    from warehouse.load import load_parts

    try:
        report = load_parts(home)
    except StorageError:
        for part_id in part_ids:
            say(f"spooled: {home.spool / part_id} waits; do not repeat the command, {_LATER}")
        raise
    waiting = [part_id for part_id in part_ids if part_id in report.waiting]
    if waiting and not report.problem:
        holder = report.holder or "another process"
        say(f"spooled: the warehouse is in use, held by {holder}; {_LATER}")
    if report.problem:
        say(f"problem: {report.problem}")
        for part_id in waiting:
            say(f"spooled: {part_id} waits; {_LATER}")
    for reason in report.refused:
        if reason.partition(":")[0] in part_ids:
            say(f"refused: {reason}")


def why_spooled(loaded: LoadReport, run_id: str) -> str | None:
    """Why a finished run waits in the spool; None: it is in the warehouse."""
    if loaded.has_landed(run_id):
        return None
    refused = [reason for reason in loaded.refused if reason.startswith(f"{run_id}:")]
    held = f"the warehouse is held by {loaded.holder or 'another process'}"
    return loaded.problem or (refused[0] if refused else held)
