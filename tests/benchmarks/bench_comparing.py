r"""Test 30 measures of 5,000 queries with 10,000 resamples; ranx's Fisher test does one of them.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 PYTHONPATH=. \
        python tests/benchmarks/bench_comparing.py [--rounds N]

Needs ranx, and of Rankhouse only NumPy: a virtual environment of its own with ranx will do. Both
get equal arrays and one thread. The p values have to agree before anything is timed. *Comparing*
is everything that a comparison computes: all tails, intervals, one-sided bounds, effect sizes.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from ranx.statistical_tests.fisher_randomization_test import fisher_randomization_test

from warehouse.bootstrapping import bootstrap_intervals
from warehouse.paired import paired_statistics
from warehouse.randomisation import randomisation_p

N_MEASURES, N_QUERIES, N_RESAMPLES = 30, 5_000, 10_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    generator = np.random.default_rng(1)
    baseline = generator.random((N_MEASURES, N_QUERIES))
    shift = generator.uniform(-0.004, 0.004, (N_MEASURES, 1))
    values = baseline + shift + generator.normal(0, 0.1, baseline.shape)
    alphas = np.full(N_MEASURES, 0.01)

    def theirs() -> Any:
        return fisher_randomization_test(
            values[0], baseline[0], n_permutations=N_RESAMPLES, max_p=0.01, random_seed=42
        )

    calls: dict[str, Callable[[], Any]] = {
        "ranx: Fisher's test of one measure": theirs,
        "randomisation of 30 measures": lambda: randomisation_p(values - baseline),
        "bootstrap of 30 measures": lambda: bootstrap_intervals(values - baseline),
        "comparing 30 measures": lambda: paired_statistics(values, baseline, alphas=alphas),
    }
    ours = randomisation_p(values - baseline)[0]
    p = theirs()[0]
    error = 4 * np.sqrt(2 * ours * (1 - ours) / N_RESAMPLES) + 1 / N_RESAMPLES
    print(f"p of the first measure: ours {ours:.4f}, ranx {p:.4f}")
    if abs(ours - p) > error:
        raise SystemExit("the p values do not agree")
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    one = median(seconds["ranx: Fisher's test of one measure"])
    for name, measured in seconds.items():
        print(f"{name}: {median(measured):.2f} CPU seconds, {median(measured) / one:.2f} of ranx")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
