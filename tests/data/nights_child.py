"""Nights in a process of their own, each at a time of its own.

``python -m tests.data.nights_child HOME SUITE`` reads lines such as
``{"at": "2024-01-05T02:00:00+00:00", "date": null}`` and prints what each night came to.
"""

from __future__ import annotations

import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

from schemas.home import Home


def run_night(home: Home, suite: Path, asked: dict[str, Any]) -> dict[str, Any]:
    from flows import nights
    from flows.run_nightly import run_nightly

    at = datetime.fromisoformat(asked["at"])
    nights.now = lambda: at  # the clock is at the edge
    night = date.fromisoformat(asked["date"]) if asked.get("date") else None
    state = run_nightly(suite, home=str(home.path), logical_date=night, return_state=True)
    result = state.result(raise_on_failure=False)
    if not isinstance(result, dict):
        return {"state": state.name, "type": state.type.value, "error": repr(result)}
    return {"state": state.name, "type": state.type.value, **result}


def main() -> None:
    from flows.cli import prefect_environment

    home, suite = Home(Path(sys.argv[1])).prepare(), Path(sys.argv[2])
    with prefect_environment(home) as server:
        server.wait_until_ready()
        for line in sys.stdin:
            print(json.dumps(run_night(home, suite, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
