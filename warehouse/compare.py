"""Compare a run with a baseline: every measure in common, over the queries that both scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schemas.comparability import SUMMARY_MEASURES
from schemas.gates import Gate
from schemas.measures import Measure
from warehouse.anchors import read_noise
from warehouse.compared_runs import ComparedRuns, read_runs
from warehouse.comparisons import (
    FIRST_NIGHT,
    Baseline,
    Comparison,
    MeasureComparison,
    Verdict,
)
from warehouse.losing import find_losses, read_flips
from warehouse.pairing import has_equal_banks, read_values
from warehouse.randomisation import N_RESAMPLES
from warehouse.slicing import compare_slices
from warehouse.spool import new_run_id
from warehouse.testing import Pairs, Settings, compare_measures
from warehouse.verdicts import decide_together

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIN_COVERAGE = 0.95
SEED = 0


def compare_runs(
    connection: DuckDBPyConnection,
    run_id: str,
    baseline: Baseline,
    *,
    gates: Sequence[Gate] = (),
    measures: Sequence[str] | None = None,
    min_coverage: float = MIN_COVERAGE,
    n_resamples: int = N_RESAMPLES,
    seed: int = SEED,
    noise: Mapping[str, float] | None = None,
    refused: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare a run with one run, or with the per-query mean of several.

    A baseline run that cannot be compared on a measure is left out for that measure; a query
    counts when the run and all that are left have a value for it. Summary scores are compared over
    queries whose questions were the same on both sides.

    Args:
        connection: a warehouse, or the published copy.
        run_id: the run.
        baseline: what it is compared with; without run ids this is the first night.
        gates: what decides, in order.
        measures: further measures; None: all that the run has.
        min_coverage: least share of scores that did not fail, on either side.
        n_resamples: of the randomisation and of the bootstrap.
        seed: of both.
        noise: summary measure to the standard deviation, per query, of judging one thing again; it
            widens the bounds, and a verdict has to hold beyond it. None: as the run measured it.
        refused: measure to why it cannot be compared whatever its key says, such as a judge that
            moved.

    Raises:
        UsageError: a run that the warehouse does not have, or one that is compared with itself.
    """
    runs = read_runs(connection, run_id, baseline.run_ids)
    names = _order(gates, runs.measures if measures is None else measures)
    noise = read_noise(connection, run_id) if noise is None else noise
    settings = Settings(tuple(gates), min_coverage, n_resamples, seed, dict(noise))
    whys = {name: _why_not(runs, name, gates) or (refused or {}).get(name) for name in names}
    pairs = _read_pairs(connection, runs, [name for name in names if whys[name] is None])
    compared = compare_measures(pairs, runs, settings)
    found = [compared.get(name) or _not_compared(runs, name, gates, whys[name]) for name in names]
    decision, lead = decide_together(found)
    sliced = _sliced(found, lead, pairs)
    losses = find_losses(connection, runs, pairs, lead, gates)
    is_summary = any(name in SUMMARY_MEASURES for name in pairs.measures)
    return Comparison(
        comparison_id=new_run_id(),
        run_id=run_id,
        baseline=baseline,
        verdict=decision.verdict,
        reason=_reason(runs, found) or decision.reason or "",
        measures=tuple(found),
        slices=compare_slices(connection, runs, pairs, settings, sliced),
        lead=lead,
        losers=losses.worst,
        lost_query_ids=losses.query_ids,
        flips=read_flips(connection, runs) if is_summary else (),
        seed=seed,
        n_resamples=n_resamples,
    )


def undecided(
    run_id: str,
    baseline: Baseline,
    *,
    reason: str,
    gates: Sequence[Gate] = (),
    verdict: Verdict = "not enough evidence",
) -> Comparison:
    """A comparison that could not be made, as where the warehouse was ``LOCKED``."""
    return Comparison(
        comparison_id=new_run_id(),
        run_id=run_id,
        baseline=baseline,
        verdict=verdict,
        reason=reason,
        measures=tuple(
            MeasureComparison(
                measure=gate.measure,
                contract_version=Measure.parse(gate.measure).contract.version,
                verdict=verdict,
                reason=reason,
                is_gated=True,
                delta=gate.delta,
                alpha=gate.alpha,
            )
            for gate in gates
        ),
    )


def _order(gates: Sequence[Gate], measures: Sequence[str]) -> list[str]:
    """Gates first, each measure once, under its canonical name."""
    others = (str(Measure.parse(name)) for name in measures)
    return list(dict.fromkeys([*(gate.measure for gate in gates), *others]))


def _why_not(runs: ComparedRuns, name: str, gates: Sequence[Gate]) -> str | None:
    """Why a measure cannot be compared; None: it can."""
    if not runs.baseline_ids:
        return FIRST_NIGHT
    why = runs.why_not_comparable(name)
    is_gated = any(gate.measure == name for gate in gates)
    if why is None and is_gated and name in SUMMARY_MEASURES and not runs.is_by_reference:
        return (
            "a gate on a summary score needs summary.contexts = 'reference': from what was "
            "retrieved the questions change with the retrieval"
        )
    return why


def _reason(runs: ComparedRuns, found: Sequence[MeasureComparison]) -> str | None:
    """Why there is nothing to decide about; None: there is."""
    if not runs.baseline_ids:
        return FIRST_NIGHT
    return None if found else runs.why_empty()


def _not_compared(
    runs: ComparedRuns, name: str, gates: Sequence[Gate], why: str | None
) -> MeasureComparison:
    gate = next((gate for gate in gates if gate.measure == name), None)
    return MeasureComparison(
        measure=name,
        contract_version=runs.contract_version(name),
        verdict="not comparable",
        reason=why,
        is_gated=gate is not None,
        delta=gate.delta if gate else None,
        alpha=gate.alpha if gate else None,
    )


def _read_pairs(connection: DuckDBPyConnection, runs: ComparedRuns, names: Sequence[str]) -> Pairs:
    """The values of both sides, and which of them may be compared."""
    import numpy as np

    run_ids = (runs.run_id, *runs.baseline_ids)
    values = read_values(connection, run_ids, names)
    columns = np.ones((len(names), len(values.query_ids)), dtype=np.bool_)
    rows = np.array(
        [[run in runs.comparable_ids(name) for name in names] for run in run_ids], dtype=np.bool_
    ).reshape(len(run_ids), len(names))
    for index, name in enumerate(names):
        if name in SUMMARY_MEASURES:
            asked = (runs.run_id, *runs.comparable_ids(name))
            columns[index] = has_equal_banks(connection, asked, values.query_ids)
    return Pairs(values, rows, columns)


def _sliced(found: Sequence[MeasureComparison], lead: str | None, pairs: Pairs) -> list[str]:
    """What is looked at by tag: the gates, or without any the leading measure."""
    names = [item.measure for item in found if item.is_gated] or [lead or ""]
    return [name for name in names if name in pairs.measures]
