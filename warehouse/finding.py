"""Which run somebody means: an id, its beginning or end, ``latest`` or ``latest~1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schemas.counting import counted
from schemas.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LATEST = re.compile(r"latest(~(?P<back>\d{1,6}))?")
SHOWN = 5  # candidates named in a message
SHORT = 8  # characters of an id's end that are shown where the whole is too wide
FIRST_RUN = (
    "run `rankhouse evaluate EXPERIMENT.toml`, or set RANKHOUSE_HOME to the home that has them "
    "(the demo's is .rankhouse-demo)"
)


def resolve_run(connection: DuckDBPyConnection, text: str, *, experiment: str | None = None) -> str:
    """Find a run's id.

    Args:
        connection: the published copy.
        text: an id, the beginning or the end of one, ``latest`` (the newest run), or ``latest~N``
            (the N-th run before it, of the same experiment).
        experiment: only runs of this experiment.

    Raises:
        UsageError: no such run, or several begin or end so; the nearest are named.
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
    part = text.lower()
    found = [run_id for run_id, _ in runs if part and _is_part(part, run_id)]
    if part in found:
        return part
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"run {text!r}: {len(found)} runs begin or end so: {', '.join(found[:SHOWN])}"
            f"{', …' if len(found) > SHOWN else ''}; write more of the id"
        )
    raise UsageError(f"run {text!r}: there is no such run; {_nearest(text, runs)}")


def run_before(connection: DuckDBPyConnection, run_id: str) -> str:
    """The run before a run, of the same experiment.

    Raises:
        UsageError: it is the first.
    """
    row = connection.execute(
        "SELECT max(earlier.run_id), any_value(run.experiment) FROM runs AS run "
        "LEFT JOIN runs AS earlier ON earlier.experiment = run.experiment "
        "AND earlier.run_id < run.run_id WHERE run.run_id = ?",
        [run_id],
    ).fetchone()
    if row is None or row[0] is None:
        raise UsageError(f"run {run_id} is the first of its experiment: name another to compare")
    return str(row[0])


def resolve_grid(connection: DuckDBPyConnection, text: str) -> str:
    """Find a grid's id: the whole, the beginning or the end of one, or ``latest``.

    Raises:
        UsageError: no such grid, or several begin or end so.
    """
    ids: list[str] = [
        grid_id
        for (grid_id,) in connection.execute(
            "SELECT DISTINCT grid_id FROM runs WHERE grid_id IS NOT NULL ORDER BY grid_id DESC"
        ).fetchall()
    ]
    if not ids:
        raise UsageError("no grids in this home yet: run `rankhouse experiment GRID.toml`")
    part = text.lower()
    found = [grid_id for grid_id in ids if part and _is_part(part, grid_id)]
    if part == "latest":
        return ids[0]
    if len(found) == 1:
        return found[0]
    shown = ", ".join((found or ids)[:SHOWN])
    problem = (
        f"{len(found)} grids begin or end so" if found else "there is no such grid; the newest"
    )
    raise UsageError(f"grid {text!r}: {problem}: {shown}")


def short_ids(connection: DuckDBPyConnection) -> dict[str, str]:
    """Each run's id as its last characters: ``SHORT``, or as many as tell all runs apart.

    The beginning is the time, which runs of one day share.
    """
    ids = [
        run_id
        for (run_id,) in connection.execute(
            "SELECT run_id FROM runs UNION SELECT run_id FROM events WHERE run_id IS NOT NULL"
        ).fetchall()
    ]
    length = SHORT
    while len({run_id[-length:] for run_id in ids}) < len(ids):
        length += 4
    return {run_id: run_id[-length:] for run_id in ids}


def _is_part(text: str, run_id: str) -> bool:
    return run_id.startswith(text) or run_id.endswith(text)


def _count_back(runs: list[tuple[str, str]], n_back: int, text: str) -> str:
    _, experiment = runs[0]
    same = [run_id for run_id, name in runs if name == experiment]
    if n_back >= len(same):
        raise UsageError(
            f"run {text!r}: there {'is' if len(same) == 1 else 'are'} only "
            f"{counted(len(same), 'run')} of {experiment!r}; the first is latest~{len(same) - 1}"
        )
    return same[n_back]


def _nothing(experiment: str | None, names: list[str]) -> str:
    if not names:
        return f"no runs in this home yet: {FIRST_RUN}"
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
