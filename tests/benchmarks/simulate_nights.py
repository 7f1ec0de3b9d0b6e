"""How often a night cries wolf, and how often it sees one.

``python -m tests.benchmarks.simulate_nights``. Every night is decided by the code that decides real
ones, with 50 to 1,000 queries, gates on one binary and two graded measures (delta 0.02, alpha
0.01), and between 5 % and all of the queries jittering from night to night.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from tests.data.random_nights import ALPHA, DELTA, MEASURES, Floats, compare, draw_nights, lose
from warehouse.bootstrapping import bootstrap_intervals

BINS = ((50, 149), (150, 399), (400, 1000))
Night = tuple[int, Floats, Floats]


def nights(generator: np.random.Generator, n: int, n_baselines: int) -> Iterator[Night]:
    """Nights with their baselines; the number of queries evenly over a logarithmic scale."""
    for _ in range(n):
        n_queries = round(math.exp(generator.uniform(math.log(50), math.log(1000))))
        jitter, share = generator.uniform(0.1, 1.5), generator.uniform(0.05, 1.0)
        values = draw_nights(generator, n_queries, 1 + n_baselines, jitter=jitter, share=share)
        yield n_queries, values[0], values[1:]


def decide(night: Floats, baseline: Floats, n_resamples: int, seed: int) -> dict[str, bool | str]:
    found = compare(night, baseline, n_resamples=n_resamples, seed=seed)
    return {
        "worse": any(item.verdict == "worse" for item in found),
        "better": any(item.verdict == "better" for item in found),
        "significant loss": any(
            (item.difference or 0) < 0 and (item.p_adjusted or 1) <= ALPHA for item in found
        ),
        **{item.measure: item.verdict for item in found},
    }


def margin(rate: float, n: int) -> float:
    """Three standard errors of a rate."""
    return 3 * math.sqrt(rate * (1 - rate) / n)


def false_alarms(n: int, n_baselines: int, n_resamples: int) -> None:
    generator = np.random.default_rng(20261130 + n_baselines)
    counts: Counter[str] = Counter()
    for seed, (_, night, baseline) in enumerate(nights(generator, n, n_baselines)):
        found = decide(night, baseline, n_resamples, seed)
        counts.update(key for key in ("worse", "better", "significant loss") if found[key])
    limit = ALPHA + margin(ALPHA, n)
    for key in ("significant loss", "worse", "better"):
        print(
            f"A/A, baseline of {n_baselines}: {key}: {counts[key]} of {n} nights "
            f"({counts[key] / n:.4f}; alpha {ALPHA}, with three standard errors {limit:.4f})"
        )


def power(n: int, n_resamples: int, times: float) -> None:
    """A loss of ``times`` delta in the expected ndcg@10; a baseline of one run."""
    generator = np.random.default_rng(77)
    seen: dict[tuple[int, int], Counter[str]] = {bin: Counter() for bin in BINS}
    for seed, (n_queries, night, baseline) in enumerate(nights(generator, n, 1)):
        worse_night = lose(generator, night, times * DELTA, MEASURES.index("ndcg@10"))
        found = decide(worse_night, baseline, n_resamples, seed)
        counts = next(seen[bin] for bin in BINS if bin[0] <= n_queries <= bin[1])
        counts["nights"] += 1
        counts["worse"] += bool(found["worse"])
        counts["same"] += found["ndcg@10"] == "same"
    for (low, high), counts in seen.items():
        nights_seen = counts["nights"]
        print(
            f"loss of {times:g} delta, {low} to {high} queries: worse on "
            f"{counts['worse'] / nights_seen:.2f} of {nights_seen} nights; "
            f"ndcg@10 called same on {counts['same'] / nights_seen:.3f}"
        )


def coverage(n: int) -> None:
    """Share of 95 % intervals that hold the true mean difference, which is 0."""
    generator = np.random.default_rng(5)
    for n_queries in (50, 100, 200, 500, 1000):
        hits = dict.fromkeys(MEASURES, 0)
        drawn = [draw_nights(generator, n_queries, 2, jitter=0.8, share=0.6) for _ in range(n)]
        for row, name in enumerate(MEASURES):
            differences = np.array([nights[0, row] - nights[1, row] for nights in drawn])
            low, high = bootstrap_intervals(differences, n_resamples=2000)
            hits[name] = int(((low <= 0) & (high >= 0)).sum())
        shown = ", ".join(f"{name} {count / n:.3f}" for name, count in hits.items())
        print(f"coverage of 95 % intervals, {n_queries} queries, {n} samples: {shown}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=10_000)
    options = parser.parse_args()
    coverage(options.nights)
    for n_baselines in (1, 7):
        false_alarms(options.nights, n_baselines, options.resamples)
    for times in (1, 2):
        power(options.nights, options.resamples, times)


if __name__ == "__main__":
    main()
