"""Which run somebody means: an id, a unique prefix, ``latest`` or ``latest~1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schemas.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LATEST = re.compile(r"latest(~(?P<back>\d{1,6}))?")
SHOWN = 5  # candidates named in a message


def resolve_run(connection: DuckDBPyConnection, text: str, *, experiment: str | None = None) -> str:
    """Find a run's id.

    Args:
        connection: the published copy.
        text: an id, the beginning of one, ``latest`` (the newest run), or ``latest~N`` (the N-th
            run before it, of the same experiment).
        experiment: only runs of this experiment.

    Raises:
        UsageError: no such run, or several begin so; the nearest are named.
    """
    rows: list[tuple[str, str]] = connection.execute(
        "SELECT run_id, experiment FROM runs ORDER BY run_id DESC"
    ).fetchall()
    runs = [(run_id, name) for run_id, name in rows if experiment in (None, name)]
    if not runs:
        raise UsageError(_nothing(experiment, sorted({name for _, name in rows})))
    match = _LATEST.fullmatch(text)
    if match is not None:
        return _count_back(runs, int(match["back"] or 0), text)
    found = [run_id for run_id, _ in runs if run_id.startswith(text.lower())] if text else []
    if text.lower() in found:
        return text.lower()
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"run {text!r}: {len(found)} runs begin so: {', '.join(found[:SHOWN])}"
            f"{', …' if len(found) > SHOWN else ''}; write more of the id"
        )
    raise UsageError(f"run {text!r}: there is no such run; {_nearest(text, runs)}")


def _count_back(runs: list[tuple[str, str]], n_back: int, text: str) -> str:
    _, experiment = runs[0]
    same = [run_id for run_id, name in runs if name == experiment]
    if n_back >= len(same):
        raise UsageError(
            f"run {text!r}: there are only {len(same)} runs of {experiment!r}; "
            f"the first is latest~{len(same) - 1}"
        )
    return same[n_back]


def _nothing(experiment: str | None, names: list[str]) -> str:
    if not names:
        return "no run has landed yet; try: rankhouse demo"
    return f"experiment {experiment!r} has no runs; {nearest_names(str(experiment), names)}"


def _nearest(text: str, runs: list[tuple[str, str]]) -> str:
    from difflib import get_close_matches

    ids = [run_id for run_id, _ in runs]
    near = get_close_matches(text.lower(), ids, n=3, cutoff=0.6)
    return f"the nearest: {', '.join(near)}" if near else f"the newest: {', '.join(ids[:3])}"


def nearest_names(name: str, known: list[str]) -> str:
    """Name what was probably meant, or what there is."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(repr(candidate) for candidate in near)}?"
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    return f"known: {shown}" if known else "there is none yet"
