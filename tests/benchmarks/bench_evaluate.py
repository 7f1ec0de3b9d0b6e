"""What a fully cached evaluation costs beside an empty flow with as many tasks.

Both run as processes against the same Prefect server, in turn; the figure is the difference of
the medians of their CPU times (user + system, children excluded). The limit is 3 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from flows.servers import prefect_server  # noqa: E402
from schemas.home import Home  # noqa: E402

PAIRS = 5
EMPTY_FLOW = """
import sys
from prefect import flow, task
from flows.servers import wait_until_recorded
@task(persist_result=True)
def empty(i): return i
@flow
def evaluate():
    for i in range(int(sys.argv[1])):
        empty(i)
state = evaluate(return_state=True)
wait_until_recorded(state.state_details.flow_run_id, int(sys.argv[1]))
"""


def cpu_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """CPU of one process, from the operating system's account of it."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{arguments} failed")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print the medians and their difference."""
    experiment = REPOSITORY / "deployments" / "demo" / "experiment.toml"
    with tempfile.TemporaryDirectory() as folder, prefect_server(Home(Path(folder))) as server:
        server.wait_until_ready()
        environment = {
            **os.environ,
            "PREFECT_API_URL": str(server.url),
            "PREFECT_LOGGING_LEVEL": "CRITICAL",
            "RANKHOUSE_HOME": f"{folder}/home",
            "PYTHONPATH": str(REPOSITORY),
            "OMP_NUM_THREADS": "1",
        }
        evaluation = ["-m", "flows.cli", "evaluate", str(experiment), "--format", "json"]
        report = subprocess.run(
            [sys.executable, *evaluation], env=environment, capture_output=True, check=True
        )
        import json

        n_tasks = json.loads(report.stdout)["n_tasks"]
        pairs = [
            (
                cpu_seconds(evaluation, environment),
                cpu_seconds(["-c", EMPTY_FLOW, str(n_tasks)], environment),
            )
            for _ in range(PAIRS)
        ]
    cached, empty = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"tasks: {n_tasks}; pairs: {PAIRS}; CPU seconds of the process, medians")
    print(f"cached evaluation of the demo  {cached:6.2f}")
    print(f"empty flow, as many tasks      {empty:6.2f}")
    print(f"difference                     {cached - empty:6.2f}   (limit 3)")
    print(f"difference / limit             {(cached - empty) / 3:6.2f}")


if __name__ == "__main__":
    main()
