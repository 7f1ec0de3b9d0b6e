"""Time 49 values a query against pytrec-eval-terrier and ranx, each from its own loaded objects.

    python tests/benchmarks/bench_ranking.py [QUERIESxDEPTH …] [--rounds N] [--no-ranx]

Prints, for each size, the best of several interleaved rounds, and peak memory, which is measured
in a process of its own for each. pytrec_eval has no F1 and cuts no reciprocal rank: it computes
36 of the 49 values.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from schemas.measures import Measure
from tasks.finding import Judgements
from tasks.ranking import score_gains, score_ids

CUTOFFS = (1, 3, 5, 10, 20, 50, 100)
FAMILIES = ("hit", "precision", "recall", "f1", "rr", "ap", "ndcg")
MEASURES = [Measure.parse(f"{family}@{k}") for family in FAMILIES for k in CUTOFFS]
SIZES = ("1000x100", "10000x100", "10000x1000", "100000x100")
N_JUDGED = 10
Call = Callable[[], Any]


class Data:
    """Rankings with 10 judged documents a query, half of them retrieved; grades 0 to 3."""

    def __init__(self, n_queries: int, depth: int):
        generator = np.random.default_rng(1)
        n_docs = 8_000_000
        first = generator.integers(0, n_docs, n_queries)
        step = generator.integers(1, 50_000, n_queries) * 2 + 1
        self.ids = (first[:, None] + step[:, None] * np.arange(depth)) % n_docs
        self.scores = -np.sort(-generator.gamma(8, 2, (n_queries, depth)), axis=1)
        places = np.argsort(generator.random((n_queries, depth)), axis=1)[:, : N_JUDGED // 2]
        missed = depth + np.arange(N_JUDGED - N_JUDGED // 2)
        places = np.concatenate([places, np.broadcast_to(missed, (n_queries, len(missed)))], axis=1)
        self.judged_ids = (first[:, None] + step[:, None] * places) % n_docs
        self.grades = generator.choice([0, 0, 1, 1, 2, 3], places.shape)
        self.gains = np.zeros((n_queries, depth), dtype=np.int32)
        half = N_JUDGED // 2
        np.put_along_axis(self.gains, places[:, :half], self.grades[:, :half], axis=1)
        self.ideal = -np.sort(-self.grades, axis=1)
        self.n_relevant = np.count_nonzero(self.grades, axis=1)

    def dicts(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
        """Run and qrels as pytrec_eval and ranx take them."""
        run = {
            f"q{query:06}": {f"d{doc:07}": score for doc, score in zip(docs, scores, strict=True)}
            for query, (docs, scores) in enumerate(
                zip(self.ids.tolist(), self.scores.tolist(), strict=True)
            )
        }
        qrels = {
            f"q{query:06}": {f"d{doc:07}": grade for doc, grade in zip(docs, grades, strict=True)}
            for query, (docs, grades) in enumerate(
                zip(self.judged_ids.tolist(), self.grades.tolist(), strict=True)
            )
        }
        return run, qrels


def gains_call(data: Data) -> Call:
    return lambda: score_gains(data.gains, data.n_relevant, data.ideal, MEASURES)


def ids_call(data: Data) -> Call:
    query = np.repeat(np.arange(len(data.ids)), N_JUDGED)
    judged = Judgements(query, data.judged_ids.ravel())
    return lambda: score_ids(data.ids, data.scores, judged, data.grades.ravel(), MEASURES)


def read_call(data: Data) -> Call:
    return lambda: data.gains.max()


def pytrec_call(data: Data) -> Call:
    import pytrec_eval

    run, qrels = data.dicts()
    cut = ",".join(map(str, CUTOFFS))
    names = {f"{name}.{cut}" for name in ("success", "P", "recall", "map_cut", "ndcg_cut")}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, names | {"recip_rank"})
    return lambda: evaluator.evaluate(run)


def ranx_call(data: Data) -> Call:
    warnings.simplefilter("ignore")
    from ranx import Qrels, Run, evaluate

    run, qrels = data.dicts()
    loaded = Qrels(qrels), Run(run)
    names = ("hit_rate", "precision", "recall", "f1", "mrr", "map", "ndcg")
    metrics = [f"{name}@{k}" for name in names for k in CUTOFFS]
    return lambda: evaluate(*loaded, metrics, return_mean=False, threads=1)


CALLS = {
    "from gains": gains_call,
    "from ids": ids_call,
    "read of the gains": read_call,
    "pytrec_eval": pytrec_call,
    "ranx": ranx_call,
}


def peak_of(name: str, size: str) -> float:
    """Megabytes that a process holds at most that loads the objects of one call and makes it."""
    command = [sys.executable, __file__, "--peak", name, size]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def print_peak(name: str, size: str) -> None:
    data = Data(*map(int, size.split("x")))
    CALLS[name](data)()
    # Not ru_maxrss: it counts what the parent held before the program was loaded.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def check_values(data: Data, calls: dict[str, Call]) -> None:
    """Both of ours and pytrec_eval have to agree before a time means anything."""
    gains, ids = calls["from gains"](), calls["from ids"]()
    assert (gains == ids).all()
    if "pytrec_eval" in calls:
        theirs = calls["pytrec_eval"]()
        row = MEASURES.index(Measure.parse("ndcg@10"))
        expected = [theirs[query]["ndcg_cut_10"] for query in sorted(theirs)]
        assert gains[row].tolist() == expected


def measure(size: str, names: list[str], rounds: int) -> dict[str, float]:
    data = Data(*map(int, size.split("x")))
    calls = {name: CALLS[name](data) for name in names}
    check_values(data, calls)
    if "ranx" in calls:
        calls["ranx"]()  # warm
    best = dict.fromkeys(names, float("inf"))
    gc.disable()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    gc.enable()
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-ranx", action="store_true")
    parser.add_argument("--peak", nargs=2)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(*arguments.peak)
        return
    names = [name for name in CALLS if not (arguments.no_ranx and name == "ranx")]
    for size in arguments.sizes:
        best = measure(size, names, arguments.rounds)
        peaks = {name: round(peak_of(name, size)) for name in names}
        print(f"\n{size}: best of {arguments.rounds} rounds")
        for name in names:
            times = "  ".join(
                f"{best[other] / best[name]:7.1f} x faster than {other}"
                for other in ("pytrec_eval", "ranx")
                if other in best and other != name
            )
            print(f"  {name:18} {best[name] * 1e3:9.1f} ms  {peaks[name]:6} MB  {times}")
        print(json.dumps({"size": size, "seconds": best, "megabytes": peaks}))


if __name__ == "__main__":
    main()
