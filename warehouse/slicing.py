"""The same test by tag: where a loss lies. Slices never decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from warehouse.compared_runs import ComparedRuns
from warehouse.comparisons import MeasureComparison, Verdict
from warehouse.paired import PairedStatistics, paired_statistics, smallest_detectable
from warehouse.randomisation import benjamini_hochberg
from warehouse.testing import UNGATED_ALPHA, Pairs, Settings, number

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.pairing import Flags, Floats

LEAST_PAIRS = 6
"""A smaller slice is not tested: of five signs, no two-sided p value is below 2/32 = 0.0625."""
MOST_TAGS = 100
"""The largest are looked at: tags that name single queries are no slices."""


def compare_slices(
    connection: DuckDBPyConnection,
    runs: ComparedRuns,
    pairs: Pairs,
    settings: Settings,
    measures: Sequence[str],
) -> tuple[MeasureComparison, ...]:
    """Some measures over the queries of each tag, two-sided, Benjamini-Hochberg over all of them.

    Returns:
        Those with ``LEAST_PAIRS`` pairs or more: by measure, the largest loss first.
    """
    tags = _read_tags(connection, runs, pairs.values.query_ids)
    ours, theirs = pairs.sides()
    keys: list[tuple[str, str]] = []
    rows: list[tuple[Floats, Floats]] = []
    for name in measures:
        row = pairs.measures.index(name)
        for tag, has_tag in tags.items():
            run, baseline = (np.where(has_tag, side[row], np.nan) for side in (ours, theirs))
            if np.count_nonzero(~np.isnan(run - baseline)) >= LEAST_PAIRS:
                keys.append((name, tag))
                rows.append((run, baseline))
    if not rows:
        return ()
    alphas = np.full(len(rows), UNGATED_ALPHA / 2)
    statistics = paired_statistics(
        np.array([run for run, _ in rows]),
        np.array([baseline for _, baseline in rows]),
        alphas=alphas,
        n_resamples=settings.n_resamples,
        seed=settings.seed,
    )
    detectable = smallest_detectable(statistics.deviation, statistics.n_pairs, alphas)
    adjusted = benjamini_hochberg(statistics.p["two-sided"])
    found = [
        _slice(statistics, row, key, float(adjusted[row]), float(detectable[row]), runs, settings)
        for row, key in enumerate(keys)
    ]
    return tuple(
        sorted(
            found,
            key=lambda item: (
                measures.index(item.measure),
                settings.sign(item.measure) * (item.difference or 0.0),
                item.tag or "",
            ),
        )
    )


def _slice(
    statistics: PairedStatistics,
    row: int,
    key: tuple[str, str],
    p_adjusted: float,
    detectable: float,
    runs: ComparedRuns,
    settings: Settings,
) -> MeasureComparison:
    name, tag = key
    s = statistics
    sign = settings.sign(name)
    n_up, n_down, n_pairs = int(s.n_better[row]), int(s.n_worse[row]), int(s.n_pairs[row])
    return MeasureComparison(
        measure=name,
        contract_version=runs.contract_version(name),
        verdict=_verdict(sign * float(s.difference[row]), p_adjusted, n_moved=n_up + n_down),
        tag=tag,
        baseline_run_ids=runs.comparable_ids(name),
        n_pairs=n_pairs,
        n_better=n_up if sign > 0 else n_down,
        n_worse=n_down if sign > 0 else n_up,
        n_unchanged=n_pairs - n_up - n_down,
        mean=number(s.mean[row]),
        baseline_mean=number(s.baseline_mean[row]),
        difference=number(s.difference[row]),
        low=number(s.low[row]),
        high=number(s.high[row]),
        p_value=float(s.p["two-sided"][row]),
        p_adjusted=p_adjusted,
        effect_size=number(s.effect_size[row]),
        smallest_detectable=number(detectable) or None,
        alpha=UNGATED_ALPHA,
    )


def _verdict(gain: float, p_adjusted: float, *, n_moved: int) -> Verdict:
    if p_adjusted <= UNGATED_ALPHA:
        return "worse" if gain < 0 else "better"
    return "same" if n_moved == 0 else "not enough evidence"


def _read_tags(
    connection: DuckDBPyConnection, runs: ComparedRuns, query_ids: Sequence[str]
) -> dict[str, Flags]:
    """Tag to (n_queries,) which queries carry it; the largest, by name."""
    rows = connection.execute(
        "SELECT tag, list(query_id) FROM ("
        "SELECT DISTINCT query_id, unnest(tags) AS tag FROM queries "
        "WHERE benchmark_digest = $benchmark AND list_contains($queries, query_id)"
        ") GROUP BY tag ORDER BY count(*) DESC, tag LIMIT $limit",
        {
            "benchmark": runs.run.benchmark_digest,
            "queries": list(query_ids),
            "limit": MOST_TAGS,
        },
    ).fetchall()
    place = {query_id: index for index, query_id in enumerate(query_ids)}
    tags: dict[str, Flags] = {}
    for tag, members in sorted(rows):
        has_tag = np.zeros(len(query_ids), dtype=np.bool_)
        has_tag[[place[query_id] for query_id in members]] = True
        tags[tag] = has_tag
    return tags
