"""Scores n summaries in a process of its own; prints what it cost as JSON.

``python llm_child.py URL ITEMS N MAX_CONCURRENCY [ATTEMPTS]``
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import polars as pl

from schemas.experiment import Summary
from schemas.frames import SUMMARY_CONTEXTS, SUMMARY_RESPONSES
from tasks.engaging import check_endpoints, desk_of
from tasks.gathering import digest_contexts
from tasks.questioning import build_question_bank, make_judge
from tasks.summarizing import score_summaries


def frames(n: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Different contexts of 310 characters and responses of 183."""
    contexts, responses = [], []
    for number in range(n):
        text = [f"t{number:06d} b c d e f g h ".ljust(155, "x"), "y" * 154]
        contexts.append((str(number), "reference", text, digest_contexts(text)))
        response = f"r{number:06d}".ljust(183, "s")
        responses.append((str(number), response, "benchmark", None, None, None))
    return (
        pl.DataFrame(contexts, schema=SUMMARY_CONTEXTS, orient="row"),
        pl.DataFrame(responses, schema=SUMMARY_RESPONSES, orient="row"),
    )


def main() -> None:
    url, items, n, width = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    attempts = int(sys.argv[5]) if len(sys.argv) > 5 else 8  # of each call
    judge = {"model": "m", "base_url": url, "max_concurrency": width, "attempts": attempts}
    summary = Summary.model_validate({"judge": judge})
    contexts, responses = frames(n)
    if "--prefect" in sys.argv:
        import tasks.stages  # noqa: F401  # what the process of an evaluation holds too
    check_endpoints(summary, items)
    started, cpu = time.perf_counter(), time.process_time()
    with desk_of(summary, items) as desk:
        made = make_judge(summary, desk.completer)
        bank = build_question_bank(contexts, summary, made)
        scored = score_summaries(responses, contexts, bank, summary, made)
        rows = desk.calls({})
        figures = desk.figures()
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time() - cpu,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "n_scored": int((scored.scores["status"] == "scored").sum()),
                "n_rows": rows.height,
                "scores": scored.scores["summary_score"].unique().to_list(),
                **figures,
            }
        )
    )


if __name__ == "__main__":
    main()
