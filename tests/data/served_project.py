"""A suite whose night takes seconds and asks an LLM server that the test can hold up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.data.llm_server import Reply, ScriptedServer, sensible
from tests.data.small_project import write_small_project

SUITE = """
name = "{name}"
[[experiment]]
path = "small.toml"
[[gate]]
measure = "hit@1"
delta = 0.02
[anchor]
enabled = false  # eight calls more, which no test here counts
[schedule]
cron = "{cron}"
"""
JUDGE = """
[summary]
contexts = "reference"
[summary.judge]
model = "m"
base_url = "{url}"
max_concurrency = 1
"""


def write_nightly_project(folder: Path, url: str, *, cron: str, name: str = "tiny") -> Path:
    """The small project without an embedding model, judged at ``url``; returns the suite."""
    file = write_small_project(folder)
    lines = [json.loads(line) for line in (folder / "benchmark.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        text = [f"t{number} b c d e f g h ".ljust(155, "x"), "y" * 154]
        line |= {"reference_contexts": text, "response": f"r{number}".ljust(183, "s")}
    (folder / "benchmark.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    by_terms = file.read_text().replace("[retrieval]\n", '[retrieval]\nmethod = "bm25"\n')
    file.write_text(by_terms + JUDGE.format(url=url))
    suite = folder / "suite.toml"
    suite.write_text(SUITE.format(name=name, cron=cron))
    return suite


class HeldServer(ScriptedServer):
    """Answers sensibly, until it is told to hold calls up."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.n_before: int | None = None  # calls to answer before all are held; None: no end
        self.delay = 0.0
        self.n_held = 0  # calls that were left waiting since they were to be

    def hold(self, *, after: int) -> None:
        """Leave every call but the next ``after`` ones, and probes, without an answer."""
        self.n_before, self.n_held = after, 0

    def delay_one(self, seconds: float) -> None:
        """Answer the next call late."""
        self.delay, self.n_held = seconds, 0

    def release(self) -> None:
        self.n_before = None

    def _answer(self, body: dict[str, Any], number: int) -> Reply:
        reply = sensible(body)
        if reply.content == '{"ok": true}':
            return reply
        if self.delay:
            reply.delay, self.delay = self.delay, 0.0
            self.n_held += 1
        if self.n_before is not None:
            self.n_before -= 1
            if self.n_before < 0:
                self.n_held += 1
                return Reply(is_hung=True)
        return reply


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    """Wait until ``condition`` gives something, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: does not happen"
        time.sleep(0.2)
    return found


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and all that it started, directly or not."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )
