"""From what a test found to one of five words: pure functions, in one fixed order.

Of one measure, the first that applies:

1. *not comparable*: the values mean different things, or one side has none;
2. *same*: a ranking measure, and the digests of rankings and of labels are equal;
3. *not enough evidence*: coverage is below its limit, or the verdict depends on what scores that
   failed would have been;
4. *worse*: the adjusted p value is at most alpha and the mean loss at least delta;
5. *better*: likewise the other way;
6. *same*: the one-sided 1 - alpha upper bound of the loss is below delta;
7. *not enough evidence*.

The smallest detectable difference decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.counting import counted
from warehouse.comparisons import MeasureComparison, Verdict

TOLERANCE = 1e-12
"""A loss that misses delta by rounding alone has reached it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the test of one measure found; a loss is positive whichever way is better."""

    loss: float  # mean over the pairs
    p_loss: float  # adjusted for the family, of a loss
    p_gain: float  # likewise of a gain
    loss_bound: float | None = None  # one-sided 1 - alpha upper bound of the loss
    has_moved: bool = True  # some query has another value than before
    loss_floor: float | None = None  # lower bound of the loss, where the judge's noise is known
    gain_floor: float | None = None  # likewise of a gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the verdict on one measure rests on."""

    why_not_comparable: str | None = None
    is_identical: bool = False  # ranking measure, equal digests of rankings and labels
    n_scored: int = 0  # of the side with the lower coverage, likewise below
    n_failed: int = 0
    min_coverage: float = 0.95
    observed: Finding | None = None  # None: no query has a score on both sides
    completions: tuple[Finding, ...] = ()  # had all failed scores been at either end
    is_bounded: bool = True  # False: some failed score has no end that it could be at
    delta: float | None = None  # None: not gated, see ``_conclude``
    alpha: float = 0.05

    @property
    def coverage(self) -> float | None:
        """Share of the queries with truth that were scored; None: there is none."""
        n = self.n_scored + self.n_failed
        return self.n_scored / n if n else None


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict and, in a sentence, what the numbers beside it do not say."""

    verdict: Verdict
    reason: str | None = None


def decide(evidence: Evidence) -> Decision:
    """The verdict on one measure, in the order above."""
    if evidence.why_not_comparable is not None:
        return Decision("not comparable", evidence.why_not_comparable)
    if evidence.is_identical:
        return Decision("same", "the rankings and labels are those of the baseline")
    coverage = evidence.coverage
    if coverage is None:
        return Decision("not comparable", "no query has ground truth for it")
    if coverage < evidence.min_coverage:
        return Decision(
            "not enough evidence",
            f"{evidence.n_failed} of {evidence.n_scored + evidence.n_failed} scores failed: "
            f"coverage {coverage:.3f} is below {evidence.min_coverage:g}",
        )
    if evidence.observed is None:
        return Decision("not comparable", "no query has a score on both sides")
    return _decide_by_test(evidence, evidence.observed)


def _decide_by_test(evidence: Evidence, observed: Finding) -> Decision:
    found = _conclude(observed, evidence)
    if found.verdict == "not enough evidence":
        return found
    ends = [_conclude(finding, evidence).verdict for finding in evidence.completions]
    if evidence.is_bounded and all(verdict == found.verdict for verdict in ends):
        return found
    return Decision(
        "not enough evidence",
        f"it would be {found.verdict}, but that depends on what the scores that failed would "
        "have been",
    )


def _conclude(finding: Finding, evidence: Evidence) -> Decision:
    """Steps 4 to 7.

    Without a delta, as for what is not gated, any difference beyond chance counts, and it is the
    same only where no query has another value.
    """
    delta, alpha = evidence.delta, evidence.alpha
    least = (delta or 0.0) - TOLERANCE
    for verdict, p, size, floor in _sides(finding):
        if p <= alpha and size > 0 and size >= least and (floor is None or floor > 0):
            return Decision(verdict)
    if delta is None and not finding.has_moved:
        return Decision("same", "no query has another value")
    if delta is None:
        return Decision("not enough evidence", "the difference is within what chance gives")
    bound = finding.loss_bound
    if bound is not None and bound < delta:
        return Decision(
            "same", f"a loss would be below {max(bound, 0.0):.4f}, and {delta:g} matters"
        )
    shown = "of any size" if bound is None else f"of {bound:.4f}"
    return Decision("not enough evidence", f"a loss {shown} is not excluded, and {delta:g} matters")


def _sides(finding: Finding) -> tuple[tuple[Verdict, float, float, float | None], ...]:
    return (
        ("worse", finding.p_loss, finding.loss, finding.loss_floor),
        ("better", finding.p_gain, -finding.loss, finding.gain_floor),
    )


def decide_together(measures: Sequence[MeasureComparison]) -> tuple[Decision, str | None]:
    """The verdict of a comparison from its gates, and the measure that decided it.

    The first that applies: *worse*, one gate is; *not comparable*, all gates are; *not enough
    evidence*, one gate is, or one of several is not comparable; *better*, one gate is; *same*. So
    a gain never hides a loss, nor one that could not be excluded.

    Without gates all measures are looked at, and nothing is decided: *worse* or *better* when some
    are and none is the opposite; *same* when all are; *not comparable* when all are.
    """
    gated = [item for item in measures if item.is_gated]
    counted = gated or list(measures)
    if not counted:
        return Decision("not comparable", "the runs have no measure in common"), None
    by_verdict: dict[Verdict, list[MeasureComparison]] = {}
    for item in counted:
        by_verdict.setdefault(item.verdict, []).append(item)
    verdict = _first_that_applies(by_verdict) if gated else _without_gates(by_verdict)
    lead = _lead(by_verdict, counted, verdict)
    return Decision(verdict, _why(verdict, by_verdict, lead)), lead.measure


def _first_that_applies(found: dict[Verdict, list[MeasureComparison]]) -> Verdict:
    if "worse" in found:
        return "worse"
    if set(found) == {"not comparable"}:
        return "not comparable"
    if "not enough evidence" in found or "not comparable" in found:
        return "not enough evidence"
    return "better" if "better" in found else "same"


def _without_gates(found: dict[Verdict, list[MeasureComparison]]) -> Verdict:
    if ("worse" in found) != ("better" in found):
        return "worse" if "worse" in found else "better"
    left = found.keys() - {"not comparable"}
    if not left:
        return "not comparable"
    return "same" if left == {"same"} else "not enough evidence"


def _lead(
    found: dict[Verdict, list[MeasureComparison]],
    counted: Sequence[MeasureComparison],
    verdict: Verdict,
) -> MeasureComparison:
    """The measure that decided: with a loss, the one whose loss is the most of its delta."""
    candidates = found.get(verdict)
    if not candidates:  # one of several gates is not comparable, or measures contradict each other
        return next((item for item in counted if item.n_pairs), counted[0])
    if verdict == "worse" and candidates[0].is_gated:
        return max(candidates, key=lambda item: abs(item.difference or 0) / (item.delta or 1))
    return candidates[0]


def _why(
    verdict: Verdict, found: dict[Verdict, list[MeasureComparison]], lead: MeasureComparison
) -> str:
    """What the leading measure says, and what the others say besides."""
    if lead.verdict == verdict and verdict != "not comparable":
        reasons = [_sentence(lead)]
    elif lead.verdict == verdict:
        reasons = [lead.reason or "not comparable"]
    else:
        reasons = []
    for other in ("worse", "better", "not comparable"):
        names = [item.measure for item in found.get(other, []) if item is not lead]
        if names and not (verdict == "not comparable"):
            more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
            reasons.append(f"{other}: {', '.join(names[:5])}{more}")
    return "; ".join(reasons)


def _sentence(item: MeasureComparison) -> str:
    """Such as ``ndcg@10 fell by 0.0310 [0.0120, 0.0500], p = 0.002, on 23 of 100 queries``."""
    if item.difference is None or item.n_pairs == 0:
        return f"{item.measure}: {item.reason}"
    moved = "fell" if item.difference < 0 else "rose"
    low, high = item.low, item.high
    if item.difference < 0 and low is not None and high is not None:
        low, high = -high + 0.0, -low + 0.0  # never -0.0
    interval = "" if low is None else f" [{low:.4f}, {high:.4f}]"
    p = item.p_adjusted if item.p_adjusted is not None else item.p_value
    chance = "" if p is None else f", p = {p:.2g}"
    if item.verdict in ("worse", "better"):
        n = item.n_worse if item.verdict == "worse" else item.n_better
        return (
            f"{item.measure} {moved} by {abs(item.difference):.4f}{interval}{chance}, "
            f"on {n} of {counted(item.n_pairs, 'query')}"
        )
    if item.difference == 0 and item.n_unchanged == item.n_pairs:
        queries = counted(item.n_pairs, "query")
        all_of = queries if item.n_pairs == 1 else f"all {queries}"
        text = f"{item.measure} is {item.mean or 0:.4f} as before on {all_of}"
    else:
        text = f"{item.measure} {moved} by {abs(item.difference):.4f}{interval}{chance}"
    return f"{text}: {item.reason}" if item.reason else text
