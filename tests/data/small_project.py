"""The command in a process of its own, and a project small enough to evaluate in every test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Command:
    """Runs ``rankhouse`` as its users do, in a folder and home of the test's own."""

    folder: Path
    home: Path
    environment: dict[str, str]

    def __call__(
        self, *arguments: str, exit_code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert result.returncode == exit_code, (
            f"exit code {result.returncode}, expected {exit_code}\n"
            f"--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
        )
        return result

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts what runs in the background with Ctrl-C ignored, and so would we.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def evaluate(self, file: Path | str, *arguments: str, **environment: str) -> dict[str, Any]:
        """Evaluate and return the report."""
        result = self("evaluate", str(file), "--format", "json", *arguments, **environment)
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Ask the published warehouse."""
        rows: list[dict[str, Any]] = json.loads(self("sql", query, "--format", "json").stdout)
        return rows


EXPERIMENT = """
name = "small"
measures = ["hit@1", "hit@3", "recall@3", "rr@5", "ndcg@5"]
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "recursive"
size = 120
[retrieval]
depth = 5
[labelling]
method = "span"
[execution]
threads = 1
"""

DOCUMENTS = {
    "tides.md": "# Tides\n\nSpring tides occur at new moon and full moon. "
    "The range is largest then.\n\nNeap tides come a week later.",
    "pets.txt": "Small dogs travel free in a carrier. Large dogs pay 12 euros. Cats travel free.",
    "meals.txt": "Breakfast is served from 6:30 to 10:00. The bar closes at midnight.",
    "fr/bagages.txt": "Chaque passager peut emporter deux bagages de 20 kg. Vélos payants.",
    "zh/tickets.txt": "船票可在官网购买。儿童票半价。退票须在开船前两小时办理。",
}
QUERIES: list[dict[str, Any]] = [
    {"query_id": "q1", "text": "When do spring tides occur?"}
    | {"spans": [{"doc_id": "tides.md", "quote": "Spring tides occur at new moon and full moon."}]},
    {"query_id": "q2", "text": "What does a large dog cost?"}
    | {"spans": [{"doc_id": "pets.txt", "quote": "Large dogs pay 12 euros."}]},
    {"query_id": "q3", "text": "Combien de bagages par passager ?"}
    | {"spans": [{"doc_id": "fr/bagages.txt", "start": 0, "end": 48}]},
    {"query_id": "q4", "text": "儿童票多少钱？"}
    | {"spans": [{"doc_id": "zh/tickets.txt", "quote": "儿童票半价。"}]},
    {"query_id": "q5", "text": "Is there a swimming pool?", "spans": []},
]


def write_small_project(folder: Path) -> Path:
    """Five documents, five queries and an experiment; returns its file."""
    for name, text in DOCUMENTS.items():
        path = folder / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    lines = "".join(json.dumps(query, ensure_ascii=False) + "\n" for query in QUERIES)
    (folder / "benchmark.jsonl").write_text(lines, encoding="utf-8")
    file = folder / "small.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file
