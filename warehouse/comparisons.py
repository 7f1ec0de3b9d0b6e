"""What a comparison of a run with a baseline found: values, without how they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

Verdict = Literal["better", "worse", "same", "not enough evidence", "not comparable"]
VERDICTS: tuple[Verdict, ...] = ("better", "worse", "same", "not enough evidence", "not comparable")
BaselineKind = Literal["run", "previous", "pinned", "mean"]
BASELINE_KINDS: tuple[BaselineKind, ...] = ("run", "previous", "pinned", "mean")

FIRST_NIGHT = "first night"
LOCKED = "locked"
N_LOSERS = 10
"""Queries that lost most, which a comparison names."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run is compared with; of several runs the mean of each query's values."""

    run_ids: tuple[str, ...]  # empty: there is none yet, as in the first night
    kind: BaselineKind = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison:
    """One measure, over all queries or over those that carry ``tag``.

    Differences are the run's value minus the baseline's, in units of the measure. None: there was
    nothing to compute it from.
    """

    measure: str
    contract_version: int
    verdict: Verdict
    reason: str | None = None  # a sentence, wherever the numbers beside it do not say it
    is_gated: bool = False
    tag: str | None = None  # a slice of the queries; None: all
    baseline_run_ids: tuple[str, ...] = ()  # those that could be compared on this measure
    n_pairs: int = 0  # queries with a value on both sides
    n_better: int = 0
    n_worse: int = 0
    n_unchanged: int = 0
    n_failed: int = 0  # queries whose score failed on either side
    coverage: float | None = None  # n_scored / (n_scored + n_failed), the lower of the two sides
    mean: float | None = None  # over the pairs, as is everything below
    baseline_mean: float | None = None
    difference: float | None = None
    low: float | None = None  # percentile bootstrap interval of the difference
    high: float | None = None
    p_value: float | None = None  # gates: one-sided, towards where the difference lies; else two
    p_adjusted: float | None = None  # Holm over the gates, over the rest; slices: false discovery
    effect_size: float | None = None  # Cohen's d_z: mean over standard deviation of differences
    smallest_detectable: float | None = None  # at alpha with power 0.8; decides nothing
    loss_bound: float | None = None  # one-sided 1 - alpha upper bound of the loss, gates only
    delta: float | None = None  # smallest effect that matters, gates only
    alpha: float | None = None


@dataclass(frozen=True, slots=True)
class QueryLoss:
    """One query that lost."""

    query_id: str
    value: float
    baseline_value: float
    difference: float  # value minus baseline_value
    text: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionFlip:
    """A question of the judge whose answer differs from the baseline's (the newest of several)."""

    query_id: str
    question: str
    answer: str | None  # "1", "0" or None: not answered
    baseline_answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run against a baseline: the verdict first, then what it rests on."""

    comparison_id: str
    run_id: str
    baseline: Baseline
    verdict: Verdict  # of the gates; without gates, of all measures: then it decides nothing
    reason: str  # a sentence; ``first night`` and ``locked`` are exactly these words
    measures: tuple[MeasureComparison, ...] = ()  # gated ones first, in the order of the gates
    slices: tuple[MeasureComparison, ...] = ()  # of the gated measures, or of the leading one
    lead: str | None = None  # the measure that decided, or would have; the two below are about it
    losers: tuple[QueryLoss, ...] = ()  # the N_LOSERS that lost most, worst first
    lost_query_ids: tuple[str, ...] = ()  # all that lost, worst first
    flips: tuple[QuestionFlip, ...] = ()
    seed: int = 0
    n_resamples: int = 0
    compared_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def gated(self) -> tuple[MeasureComparison, ...]:
        """The measures that decide."""
        return tuple(item for item in self.measures if item.is_gated)

    @property
    def is_gated(self) -> bool:
        """Whether anything decides."""
        return any(item.is_gated for item in self.measures)

    def measure(self, name: str) -> MeasureComparison:
        """One measure by its canonical name.

        Raises:
            KeyError: it is not part of the comparison.
        """
        found: Mapping[str, MeasureComparison] = {item.measure: item for item in self.measures}
        return found[name]
