"""Time scoring a run file of 10 million lines, from disk to printed means.

    python tests/benchmarks/bench_trec_files.py [--queries N] [--rounds N] [--folder F] [--no-ranx]

100,000 queries with 100 documents each and a million judgements, in the order of scores and with
all lines shuffled. Each program is a process of its own and its start counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).parents[2]
DEPTH, N_JUDGED, N_DOCS = 100, 10, 8_000_000

OURS = """
import sys
from flows.cli import main
main(["trec", *sys.argv[1:], "--format", "csv"])
"""
PYTREC = """
import sys, pytrec_eval
with open(sys.argv[1]) as file:
    qrels = pytrec_eval.parse_qrel(file)
with open(sys.argv[2]) as file:
    run = pytrec_eval.parse_run(file)
names = {"map", "ndcg_cut.10", "recip_rank", "P.10", "recall.100"}
values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
for name in ("map", "ndcg_cut_10", "recip_rank", "P_10", "recall_100"):
    print(name, sum(row[name] for row in values.values()) / len(qrels))
"""
RANX = """
import sys
from ranx import Qrels, Run, evaluate
qrels = Qrels.from_file(sys.argv[1], kind="trec")
run = Run.from_file(sys.argv[2], kind="trec")
print(evaluate(qrels, run, ["map", "ndcg@10", "mrr", "precision@10", "recall@100"]))
"""
READ = """
import sys
for name in sys.argv[1:]:
    with open(name, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""
PROGRAMS = {"rankhouse trec": OURS, "pytrec_eval": PYTREC, "ranx": RANX, "read of the bytes": READ}


def write_files(folder: Path, n_queries: int) -> None:
    """qrels, and one run in the order of scores and shuffled."""
    generator = np.random.default_rng(1)
    shape = (n_queries, DEPTH)
    first = generator.integers(0, N_DOCS, n_queries)[:, None]
    step = generator.integers(1, 50_000, n_queries)[:, None] * 2 + 1
    docs = (first + step * np.arange(DEPTH)) % N_DOCS
    run = pl.DataFrame(
        {
            "query": np.repeat(np.arange(n_queries), DEPTH),
            "q0": pl.repeat("Q0", docs.size, eager=True),
            "doc": docs.ravel(),
            "rank": np.tile(np.arange(1, DEPTH + 1), n_queries),
            "score": -np.sort(-generator.gamma(8, 2, shape), axis=1).ravel().round(6),
            "tag": pl.repeat("bench", docs.size, eager=True),
        }
    ).with_columns(pl.format("D{}", "doc").alias("doc"))
    places = np.argsort(generator.random(shape), axis=1)[:, : N_JUDGED // 2]
    missed = np.broadcast_to(DEPTH + np.arange(N_JUDGED - N_JUDGED // 2), (n_queries, 5))
    judged = (first + step * np.concatenate([places, missed], axis=1)) % N_DOCS
    qrels = pl.DataFrame(
        {
            "query": np.repeat(np.arange(n_queries), N_JUDGED),
            "iteration": pl.repeat(0, judged.size, eager=True),
            "doc": judged.ravel(),
            "grade": generator.choice([0, 0, 1, 1, 2, 3], judged.size),
        }
    ).with_columns(pl.format("D{}", "doc").alias("doc"))
    shuffled = run[generator.permutation(run.height)]
    for name, frame in (("qrels", qrels), ("sorted", run), ("shuffled", shuffled)):
        path = folder / f"{name}.txt"
        frame.write_csv(path, separator=" ", include_header=False, quote_style="never")


def timed(program: str, *files: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of a process, and what it printed."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *map(str, files)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user
    return time.perf_counter() - start, cpu - before.children_system, done.stdout


def compare(folder: Path, order: str, names: list[str], rounds: int) -> None:
    best: dict[str, tuple[float, float]] = {}
    for number in range(rounds):
        for name in names:
            if name == "ranx" and number:
                continue  # half a minute and more each
            wall, cpu, printed = timed(
                PROGRAMS[name], folder / "qrels.txt", folder / f"{order}.txt"
            )
            if not number and printed:
                print(f"    {name}: {' '.join(printed.split())}")
            old = best.get(name, (wall, cpu))
            best[name] = (min(wall, old[0]), min(cpu, old[1]))
    base = best["pytrec_eval"]
    print(f"{order}: best of {rounds} rounds (ranx: one)")
    for name in names:
        wall, cpu = best[name]
        print(
            f"  {name:18} wall {wall:6.2f} s, {wall / base[0]:5.2f} x pytrec_eval;  "
            f"CPU {cpu:6.2f} s, {cpu / base[1]:5.2f} x"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--no-ranx", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in PROGRAMS if not (arguments.no_ranx and name == "ranx")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "shuffled.txt").exists():
            write_files(folder, arguments.queries)
        for order in ("sorted", "shuffled"):
            compare(folder, order, names, arguments.rounds)


if __name__ == "__main__":
    main()
