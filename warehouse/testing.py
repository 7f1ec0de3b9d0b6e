"""Test all measures of a comparison at once, and decide about each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from schemas.gates import Gate
from schemas.measures import Measure
from warehouse.compared_runs import ComparedRuns
from warehouse.comparisons import MeasureComparison
from warehouse.paired import PairedStatistics, paired_statistics, smallest_detectable
from warehouse.pairing import Flags, Floats, RunValues
from warehouse.randomisation import holm
from warehouse.verdicts import Evidence, Finding, decide

UNGATED_ALPHA = 0.05
"""Level at which a measure that is not gated, or a slice, is called better or worse."""
ROUNDING = 1e-12
"""The mean of several equal values can differ from them by this much: no difference."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a comparison is made."""

    gates: tuple[Gate, ...]
    min_coverage: float
    n_resamples: int
    seed: int
    noise: Mapping[str, float]  # measure to standard deviation per query of judging again

    def gate(self, measure: str) -> Gate | None:
        """The gate on a measure."""
        return next((gate for gate in self.gates if gate.measure == measure), None)

    def alpha(self, measure: str) -> float:
        """The level of a measure's test."""
        gate = self.gate(measure)
        return UNGATED_ALPHA if gate is None else gate.alpha

    def sign(self, measure: str) -> int:
        """1: higher is better; -1: lower is."""
        gate = self.gate(measure)
        return -1 if gate is not None and gate.direction == "lower" else 1


@dataclass(frozen=True, slots=True)
class Pairs:
    """The values of a run (the first row) and of its baseline's runs, and which of them count."""

    values: RunValues
    baseline_rows: Flags  # (n_runs, n_measures), never the first row
    columns: Flags  # (n_measures, n_queries)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that may be compared."""
        return self.values.measures

    def sides(
        self, fill: Floats | None = None, baseline_fill: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """(n_measures, n_queries) of the run and of its baseline, NaN where there is no value.

        Args:
            fill: (n_measures,) what stands for the run's failed scores; None: nothing does.
            baseline_fill: likewise for the baseline's.
        """
        run_rows = np.zeros_like(self.baseline_rows)
        run_rows[0] = True
        ours = self.values.side(run_rows, self.columns, fill)
        theirs = self.values.side(self.baseline_rows, self.columns, baseline_fill)
        is_rounding = np.abs(ours - theirs) <= ROUNDING
        return ours, np.where(is_rounding, ours, theirs)

    @property
    def n_failed(self) -> NDArray[np.int64]:
        """(n_measures,) queries whose score failed on a side that counts."""
        rows = self.baseline_rows.copy()
        rows[0] = True
        has_failed = (self.values.is_failed & rows[:, :, None]).any(axis=0)
        return np.asarray((has_failed & self.columns).sum(axis=1))


def compare_measures(
    pairs: Pairs, runs: ComparedRuns, settings: Settings
) -> dict[str, MeasureComparison]:
    """Every measure that may be compared, with its verdict."""
    names = pairs.measures
    if not names:
        return {}
    ours, theirs = pairs.sides()
    alphas = np.array([settings.alpha(name) for name in names])
    statistics = paired_statistics(
        ours, theirs, alphas=alphas, n_resamples=settings.n_resamples, seed=settings.seed
    )
    observed = _Tested(names, statistics, settings, runs)
    ends = _completions(pairs, alphas, runs, settings)
    n_failed = pairs.n_failed
    compared = {}
    for row, name in enumerate(names):
        n_scored, n_failed_of_side = runs.coverage_counts(name)
        gate = settings.gate(name)
        evidence = Evidence(
            is_identical=runs.is_identical(name),
            n_scored=n_scored,
            n_failed=n_failed_of_side,
            min_coverage=settings.min_coverage,
            observed=observed.finding(row),
            completions=tuple(end.found[name] for end in ends if name in end.found),
            is_bounded=Measure.parse(name).contract.highest is not None or not n_failed[row],
            delta=None if gate is None else gate.delta,
            alpha=settings.alpha(name),
        )
        compared[name] = observed.compared(row, evidence, int(n_failed[row]))
    return compared


class _Tested:
    """Statistics of the measures, with p values adjusted over the gates and over the rest."""

    def __init__(
        self,
        names: Sequence[str],
        statistics: PairedStatistics,
        settings: Settings,
        runs: ComparedRuns,
    ):
        self.names, self.statistics, self.settings, self.runs = names, statistics, settings, runs
        self.is_gated = np.array([settings.gate(name) is not None for name in names])
        self.signs = np.array([settings.sign(name) for name in names])
        p, higher = statistics.p, self.signs > 0
        one_sided_loss = np.where(higher, p["less"], p["greater"])
        one_sided_gain = np.where(higher, p["greater"], p["less"])
        self.p_loss = np.where(self.is_gated, one_sided_loss, p["two-sided"])
        self.p_gain = np.where(self.is_gated, one_sided_gain, p["two-sided"])
        self.adjusted_loss = self._adjust(self.p_loss)
        self.adjusted_gain = self._adjust(self.p_gain)

    @property
    def found(self) -> dict[str, Finding]:
        """By measure; those without pairs left out."""
        findings = {name: self.finding(row) for row, name in enumerate(self.names)}
        return {name: finding for name, finding in findings.items() if finding is not None}

    def finding(self, row: int) -> Finding | None:
        """What the test of one measure found; None: it has no pairs."""
        s = self.statistics
        if s.n_pairs[row] == 0:
            return None
        loss, loss_bound, gain_bound = -s.difference[row], -s.lower_bound[row], s.upper_bound[row]
        if self.signs[row] < 0:
            loss, loss_bound, gain_bound = -loss, gain_bound, loss_bound
        margin = self._noise_margin(row)
        return Finding(
            loss=float(loss),
            p_loss=float(self.adjusted_loss[row]),
            p_gain=float(self.adjusted_gain[row]),
            loss_bound=float(loss + math.hypot(loss_bound - loss, margin)),
            has_moved=bool(s.n_better[row] + s.n_worse[row]),
            # The floor of a loss is the bound of a gain, seen from the other side.
            loss_floor=float(loss - math.hypot(gain_bound + loss, margin)) if margin else None,
            gain_floor=float(-loss - math.hypot(loss_bound - loss, margin)) if margin else None,
        )

    def compared(self, row: int, evidence: Evidence, n_failed: int) -> MeasureComparison:
        """One measure with its verdict."""
        s, name = self.statistics, self.names[row]
        gate, decision, finding = self.settings.gate(name), decide(evidence), self.finding(row)
        is_loss = finding is not None and finding.loss > 0
        p, adjusted = (
            (self.p_loss, self.adjusted_loss) if is_loss else (self.p_gain, self.adjusted_gain)
        )
        margin = self._noise_margin(row)
        n_up, n_down = int(s.n_better[row]), int(s.n_worse[row])
        is_higher = self.signs[row] > 0
        difference = number(s.difference[row])
        return MeasureComparison(
            measure=name,
            contract_version=self.runs.contract_version(name),
            verdict=decision.verdict,
            reason=decision.reason,
            is_gated=gate is not None,
            baseline_run_ids=self.runs.comparable_ids(name),
            n_pairs=int(s.n_pairs[row]),
            n_better=n_up if is_higher else n_down,
            n_worse=n_down if is_higher else n_up,
            n_unchanged=int(s.n_pairs[row]) - n_up - n_down,
            n_failed=n_failed,
            coverage=evidence.coverage,
            mean=number(s.mean[row]),
            baseline_mean=number(s.baseline_mean[row]),
            difference=difference,
            low=_widened(difference, s.low[row], margin),
            high=_widened(difference, s.high[row], margin),
            p_value=None if finding is None else float(p[row]),
            p_adjusted=None if finding is None else float(adjusted[row]),
            effect_size=number(s.effect_size[row]),
            smallest_detectable=number(self._detectable[row]) or None,
            loss_bound=finding.loss_bound if gate and finding else None,
            delta=None if gate is None else gate.delta,
            alpha=self.settings.alpha(name),
        )

    @property
    def _detectable(self) -> Floats:
        """At the level of the family's first step: alpha by the number of its tests."""
        alphas = np.array([self.settings.alpha(name) for name in self.names])
        n_gated = int(self.is_gated.sum())
        n_tests = np.where(self.is_gated, n_gated, 2 * (len(self.names) - n_gated))
        s = self.statistics
        return smallest_detectable(s.deviation, s.n_pairs, alphas / n_tests)

    def _adjust(self, p: Floats) -> Floats:
        adjusted = p.copy()
        for family in (self.is_gated, ~self.is_gated):
            adjusted[family] = holm(p[family])
        return adjusted

    def _noise_margin(self, row: int) -> float:
        """What judging again could move the mean difference by, one-sided at 1 - alpha.

        Each query's noise counts once for the run and, averaged, once for its baseline. What was
        judged anew shows it in its differences already: the margin errs on the careful side.
        """
        name = self.names[row]
        noise, n = self.settings.noise.get(name, 0.0), int(self.statistics.n_pairs[row])
        if not noise or not n:
            return 0.0
        n_baselines = len(self.runs.comparable_ids(name))
        z = NormalDist().inv_cdf(1 - self.settings.alpha(name))
        return z * noise * math.sqrt((1 + 1 / n_baselines) / n)


def _completions(
    pairs: Pairs, alphas: Floats, runs: ComparedRuns, settings: Settings
) -> list[_Tested]:
    """The tests, had the failed scores been at either end of their range; none: none failed."""
    if not pairs.n_failed.any():
        return []
    contracts = [Measure.parse(name).contract for name in pairs.measures]
    lowest = np.array([contract.lowest for contract in contracts])
    # An end that does not exist is never decided by: see Evidence.is_bounded.
    highest = np.array([c.lowest if c.highest is None else c.highest for c in contracts])
    ends = []
    for fill, baseline_fill in ((lowest, highest), (highest, lowest)):
        ours, theirs = pairs.sides(fill, baseline_fill)
        statistics = paired_statistics(
            ours, theirs, alphas=alphas, n_resamples=settings.n_resamples, seed=settings.seed
        )
        ends.append(_Tested(pairs.measures, statistics, settings, runs))
    return ends


def _widened(difference: float | None, end: float, margin: float) -> float | None:
    """An end of the interval, further away by the judge's noise."""
    if difference is None or math.isnan(end):
        return None
    if not margin:
        return float(end)
    return difference + math.copysign(math.hypot(end - difference, margin), end - difference)


def number(value: float) -> float | None:
    """A float for the warehouse: NULL, never NaN."""
    return None if math.isnan(value) else float(value)
