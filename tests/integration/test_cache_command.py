"""`rankhouse cache`: what is stored, what may go, what is damaged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.data.small_project import Command


def test_cache_lists_prunes_and_verifies(command: Command, small: Path) -> None:
    first = command.evaluate(small)
    stages = json.loads(command("cache", "list", "--format", "json").stdout)
    assert {row["stage"] for row in stages} == {stage["stage"] for stage in first["stages"]}
    assert all(row["usable"] and row["bytes"] > 0 for row in stages)
    assert command("cache", "verify", "--format", "csv").stdout == "artifact,damage\n"

    # Nothing is old: a prune keeps every artifact that a stage refers to.
    assert command("cache", "prune").stdout.startswith("deleted 0 stages")
    assert len(json.loads(command("cache", "list", "--format", "json").stdout)) == len(stages)

    damaged, missing = sorted((command.home / "artifacts" / "chunks").rglob("*.parquet"))[0], None
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    missing = sorted((command.home / "artifacts" / "index").rglob("*.faiss"))[0]
    missing.unlink()
    found = command("cache", "verify", "--format", "json", exit_code=3)
    assert {row["artifact"].split("/")[-1]: row["damage"] for row in json.loads(found.stdout)} == {
        damaged.name: "altered",
        missing.name: "missing or short",
    }
    assert "2 artifacts are damaged" in found.stderr

    would = command("cache", "prune", "--older-than", "0", "--dry-run").stdout
    assert would.startswith(f"would delete {len(stages)} stages")
    assert len(json.loads(command("cache", "list", "--format", "json").stdout)) == len(stages)
    assert command("cache", "prune", "--older-than", "0").stdout.startswith(
        f"deleted {len(stages)} stages"
    )
    assert json.loads(command("cache", "list", "--format", "json").stdout) == []
    again = command.evaluate(small)
    assert [row["mean"] for row in again["measures"]] == [row["mean"] for row in first["measures"]]
    assert again["sizes"]["n_encoded"] == 0, "vectors are kept by text, below the stages"
