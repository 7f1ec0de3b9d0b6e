"""Which queries lost most, and which questions got another answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schemas.gates import Gate
from warehouse.compared_runs import ComparedRuns
from warehouse.comparisons import N_LOSERS, QueryLoss, QuestionFlip
from warehouse.testing import Pairs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Losses:
    """What one measure lost, the worst first; equal losses by query id."""

    worst: tuple[QueryLoss, ...] = ()
    query_ids: tuple[str, ...] = ()


def find_losses(
    connection: DuckDBPyConnection,
    runs: ComparedRuns,
    pairs: Pairs,
    measure: str | None,
    gates: Sequence[Gate] = (),
) -> Losses:
    """The queries that lost on a measure, and the ``N_LOSERS`` worst with their texts."""
    if measure not in pairs.measures:
        return Losses()
    is_lower_better = any(gate.measure == measure and gate.direction == "lower" for gate in gates)
    row = pairs.measures.index(measure)
    ours, theirs = (side[row] for side in pairs.sides())
    difference = ours - theirs
    gain = -difference if is_lower_better else difference
    lost = np.flatnonzero(gain < 0)  # NaN is not below 0
    order = lost[np.argsort(gain[lost], kind="stable")]  # query ids are sorted
    query_ids = [pairs.values.query_ids[index] for index in order]
    about = _read_queries(connection, runs.run.benchmark_digest, query_ids[:N_LOSERS])
    worst = tuple(
        QueryLoss(
            query_id,
            float(ours[index]),
            float(theirs[index]),
            float(difference[index]),
            *about.get(query_id, (None, ())),
        )
        for index, query_id in zip(order[:N_LOSERS], query_ids, strict=False)
    )
    return Losses(worst, tuple(query_ids))


def read_flips(connection: DuckDBPyConnection, runs: ComparedRuns) -> tuple[QuestionFlip, ...]:
    """Questions that the run's summaries answer otherwise than the newest baseline run's.

    From yes to no first.
    """
    ids = runs.comparable_ids("qa")
    if not ids:
        return ()
    rows = connection.execute(
        "SELECT query_id, question, answer, baseline_answer FROM question_flips "
        "WHERE run_id = ? AND baseline_run_id = ? "
        "ORDER BY baseline_answer = '1' DESC NULLS LAST, query_id, question_index",
        [runs.run_id, max(ids)],
    ).fetchall()
    return tuple(QuestionFlip(*row) for row in rows)


def _read_queries(
    connection: DuckDBPyConnection, benchmark_digest: str | None, query_ids: Sequence[str]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = connection.execute(
        "SELECT query_id, text, tags FROM queries "
        "WHERE benchmark_digest = ? AND list_contains(?, query_id)",
        [benchmark_digest, list(query_ids)],
    ).fetchall()
    return {query_id: (text, tuple(tags or ())) for query_id, text, tags in rows}
