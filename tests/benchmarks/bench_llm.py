"""LLM calls against a scripted server: time against the ideal, CPU a call, memory.

Three scenarios, as ``python tests/benchmarks/bench_llm.py [narrow|random|memory]``:
1,000 queries of 3 calls with 200 ms latency against a server that answers 429 above 32 in flight;
the same against one that answers 429 to one call in ten at random; peak memory of 10,000 queries
against 1,000. Targets: 1.3 and 2 times the ideal, 2.5 ms of CPU a call, 1.2 times the memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "data" / "llm_server.py"
CHILD = ROOT / "tests" / "data" / "llm_child.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}
LATENCY = 0.2


@contextmanager
def server(*options: str) -> Iterator[str]:
    command = [sys.executable, str(SERVER), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.kill()


def score(url: str, n: int, width: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(CHILD), url, folder, str(n), str(width), "10", "--prefect"]
        result = subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        figures: dict[str, Any] = json.loads(result.stdout)
        return figures


def report(name: str, figures: dict[str, Any], n: int, width: int, target: float) -> None:
    ideal = 3 * n * LATENCY / width
    ratio = figures["seconds"] / ideal
    milliseconds = 1000 * figures["cpu"] / (3 * n)
    print(
        f"{name}: {figures['n_scored']} of {n} scored, {figures['seconds']:.1f} s, "
        f"{ratio:.2f} x the ideal {ideal:.1f} s (target {target}), "
        f"{milliseconds:.2f} ms of CPU a call (target 2.5)",
        flush=True,
    )


def main() -> None:
    chosen = sys.argv[1:] or ["narrow", "random", "memory"]
    if "narrow" in chosen:
        with server("--latency", str(LATENCY), "--width", "32") as url:
            report("429 above 32", score(url, 1000, 64), 1000, 32, 1.3)
    if "random" in chosen:
        with server("--latency", str(LATENCY), "--random-429", "0.1") as url:
            report("429 at random, 10 %", score(url, 1000, 32), 1000, 32, 2.0)
    if "memory" in chosen:
        with server("--latency", "0.005") as url:
            peaks = {n: score(url, n, 64)["peak"] for n in (1_000, 10_000)}
        print(
            f"peak memory: {peaks[1_000] / 2**20:.0f} MiB for 1,000 queries, "
            f"{peaks[10_000] / 2**20:.0f} MiB for 10,000: "
            f"{peaks[10_000] / peaks[1_000]:.2f} x (target 1.2)"
        )


if __name__ == "__main__":
    main()
