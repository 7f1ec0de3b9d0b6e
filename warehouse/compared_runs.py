"""What decides whether two runs may be compared on a measure: keys, digests, contexts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schemas.comparability import SUMMARY_MEASURES
from schemas.errors import UsageError
from schemas.measures import Measure
from warehouse.anchors import JUDGED_MEASURES, Move, find_moves
from warehouse.queries import among

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class RunSide:
    """One run of a comparison."""

    run_id: str
    status: str
    status_reason: str | None
    digests: tuple[str | None, str | None]  # of rankings and of labels
    benchmark_digest: str | None
    contexts: str | None  # of its summary scores: reference or retrieved; None: it has none
    metrics: Mapping[str, MeanRow]  # by measure


@dataclass(frozen=True, slots=True)
class MeanRow:
    """What of ``run_metrics`` decides."""

    contract_version: int
    comparability_key: str
    n_scored: int
    n_failed: int


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """A run and the runs of its baseline."""

    run: RunSide
    baselines: tuple[RunSide, ...]
    measures: tuple[str, ...]  # of the run: as configured, then the others by name
    moves: Mapping[str, Move] = field(default_factory=dict)  # baselines that another judge judged

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def baseline_ids(self) -> tuple[str, ...]:
        """The ids of the baseline's runs."""
        return tuple(side.run_id for side in self.baselines)

    @property
    def is_by_reference(self) -> bool:
        """Whether the run's summary scores, and so what may be compared, rest on references."""
        return self.run.contexts == "reference"

    def comparable(self, measure: str) -> tuple[RunSide, ...]:
        """The baseline's runs whose values of a measure mean what the run's mean."""
        moved = self.moves if measure in JUDGED_MEASURES else {}
        return tuple(side for side in self._alike(measure) if side.run_id not in moved)

    def _alike(self, measure: str) -> tuple[RunSide, ...]:
        """Those with the run's comparability key, whoever was behind the judge's name."""
        ours = self.run.metrics.get(measure)
        return tuple(
            side
            for side in self.baselines
            if ours is not None
            and measure in side.metrics
            and side.metrics[measure].comparability_key == ours.comparability_key
        )

    def comparable_ids(self, measure: str) -> tuple[str, ...]:
        """Their ids."""
        return tuple(side.run_id for side in self.comparable(measure))

    def contract_version(self, measure: str) -> int:
        """That of the run's values; of a measure that it does not have, of this code."""
        row = self.run.metrics.get(measure)
        return row.contract_version if row else Measure.parse(measure).contract.version

    def why_not_comparable(self, measure: str) -> str | None:
        """Why none of the baseline's runs can be compared on a measure; None: some can."""
        if measure not in self.run.metrics:
            return f"the run has no values of it{_because(self.run)}"
        if self.comparable(measure):
            return None
        if not any(measure in side.metrics for side in self.baselines):
            return f"the baseline has no values of it{_because(self.baselines[0])}"
        alike = self._alike(measure)
        if alike:
            return str(self.moves[alike[-1].run_id])
        return "its values mean different things on the two sides"

    def why_empty(self) -> str:
        """Why the run has no measure at all."""
        return f"the run has no values{_because(self.run)}"

    def is_identical(self, measure: str) -> bool:
        """Whether a ranking measure rests on the very rankings and labels of the baseline."""
        if measure in SUMMARY_MEASURES or None in self.run.digests:
            return False
        return all(side.digests == self.run.digests for side in self.comparable(measure))

    def coverage_counts(self, measure: str) -> tuple[int, int]:
        """(n_scored, n_failed) of the side with the lowest coverage that has any truth."""
        rows = [side.metrics[measure] for side in (self.run, *self.comparable(measure))]
        counted = [row for row in rows if row.n_scored + row.n_failed]
        if not counted:
            return 0, 0
        worst = min(counted, key=lambda row: row.n_scored / (row.n_scored + row.n_failed))
        return worst.n_scored, worst.n_failed


def read_runs(
    connection: DuckDBPyConnection, run_id: str, baseline_ids: Sequence[str]
) -> ComparedRuns:
    """Read what decides about comparability.

    Raises:
        UsageError: a run that is not there, or one that is compared with itself.
    """
    if run_id in baseline_ids:
        raise UsageError(f"{run_id}: a run cannot be compared with itself")
    wanted = [run_id, *dict.fromkeys(baseline_ids)]
    rows = connection.execute(
        f"SELECT run.run_id, run.status, run.status_reason, run.rankings_digest, "  # noqa: S608
        f"run.labels_digest, run.benchmark_digest, run.config, {_HAS_REFERENCES} "
        f"FROM runs AS run WHERE {among('run.run_id', wanted)}"
    ).fetchall()
    metrics = _read_metrics(connection, wanted)
    sides = {row[0]: _side(row, metrics.get(row[0], {})) for row in rows}
    missing = [name for name in wanted if name not in sides]
    if missing:
        raise UsageError(
            f"run {missing[0]} is not in the warehouse; `rankhouse runs` lists those that are"
        )
    config = next(json.loads(row[6]) for row in rows if row[0] == run_id)
    first, *others = (sides[name] for name in wanted)
    moves = find_moves(connection, run_id, baseline_ids)
    return ComparedRuns(first, tuple(others), _measures(config, first), moves)


_HAS_REFERENCES = """EXISTS (
    SELECT 1 FROM queries AS query WHERE query.benchmark_digest = run.benchmark_digest
        AND (run.split IS NULL OR query.split = run.split) AND len(query.reference_contexts) > 0
)"""


def _side(row: Sequence[Any], metrics: Mapping[str, MeanRow]) -> RunSide:
    run_id, status, reason, rankings, labels, benchmark, config, has_references = row
    summary = json.loads(config).get("summary")
    contexts = None
    if summary is not None:  # as tasks.gathering.choose_source has it
        contexts = summary.get("contexts") or ("reference" if has_references else "retrieved")
    return RunSide(run_id, status, reason, (rankings, labels), benchmark, contexts, metrics)


def _read_metrics(
    connection: DuckDBPyConnection, run_ids: Sequence[str]
) -> dict[str, dict[str, MeanRow]]:
    rows = connection.execute(
        "SELECT run_id, measure, contract_version, comparability_key, n_scored, n_failed "  # noqa: S608
        f"FROM newest_run_metrics WHERE {among('run_id', run_ids)}"
    ).fetchall()
    metrics: dict[str, dict[str, MeanRow]] = {}
    for run_id, measure, *rest in rows:
        metrics.setdefault(run_id, {})[measure] = MeanRow(*rest)
    return metrics


def _measures(config: Mapping[str, Any], side: RunSide) -> tuple[str, ...]:
    """As configured, then the summary scores and what was computed later."""
    configured = [name for name in config.get("measures") or () if name in side.metrics]
    others = sorted(Measure.parse(name) for name in side.metrics.keys() - set(configured))
    return (*configured, *(str(measure) for measure in others))


def _because(side: RunSide) -> str:
    if side.status != "failed":
        return ""
    return f": run {side.run_id} failed ({side.status_reason})"
