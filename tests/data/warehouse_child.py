"""A process of its own for the warehouse's tests: evaluates, holds, or dies on demand.

python -m tests.data.warehouse_child HOME evaluate N EXPERIMENT
python -m tests.data.warehouse_child HOME start RUN_ID STAGE      (then waits to be killed)
python -m tests.data.warehouse_child HOME hold SECONDS            (the file, read-write)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from schemas.home import Home


def evaluate(home: Home, n_runs: int, experiment: str) -> None:
    from tests.data.sample_runs import sample_run
    from warehouse.load import load_parts
    from warehouse.spool import Spool, new_run_id

    for _ in range(n_runs):
        run_id = new_run_id()
        print(run_id, flush=True)
        with Spool(home).start(run_id, experiment=experiment) as run:
            run.enter_stage("write_results")
            run.finish(sample_run(run_id, experiment=experiment, is_real=True))
        load_parts(home, patience=2)


def start(home: Home, run_id: str, stage: str) -> None:
    from warehouse.spool import Spool

    Spool(home).start(run_id, experiment="handbook").enter_stage(stage)
    print("ready", flush=True)
    time.sleep(600)


def hold(home: Home, seconds: float) -> None:
    import duckdb

    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute("SELECT 1")
        print("ready", flush=True)
        time.sleep(seconds)


if __name__ == "__main__":
    where, verb, *rest = Home(Path(sys.argv[1])), *sys.argv[2:]
    if verb == "evaluate":
        evaluate(where, int(rest[0]), rest[1])
    elif verb == "start":
        start(where, *rest)
    else:
        hold(where, float(rest[0]))
