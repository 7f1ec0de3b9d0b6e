"""A real night that lost: who hears of it, and that nothing of what tells them gets in its way."""

from __future__ import annotations

import os

import httpx
from lxml import etree

from tests.data.receivers import SECRET, receivers
from tests.data.small_project import Command, write_small_project

SUITE = """
name = "Boats & more"
[[experiment]]
path = "small.toml"
[[gate]]
measure = "rr@5"
delta = 0.05
alpha = 0.4  # four queries can show no more
[notify]
urls_env = "RANKHOUSE_NOTIFY"
seconds = 6
[retention]
artifacts = { days = 30 }
attempts = { days = 30 }
spool = { days = 30 }
"""


def test_a_loss_reaches_receivers_ci_and_prefect_past_one_that_hangs(
    command: Command, prefect_url: str
) -> None:
    write_small_project(command.folder)
    suite = command.folder / "suite.toml"
    suite.write_text(SUITE)
    summary = command.folder / "summary.md"
    with receivers() as server:
        environment = {
            "RANKHOUSE_NOTIFY": f"{server.url('takes')} {server.url('hangs')}",
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        bad = environment | {"RANKHOUSE_NOTIFY": f"nosuch://{SECRET}"}
        refused = command("nightly", str(suite), exit_code=2, **bad)
        assert "RANKHOUSE_NOTIFY: receiver 1 of 1: its URL is of no kind" in refused.stderr
        assert not list(command.home.rglob("*.duckdb"))

        command("nightly", str(suite), **environment)
        assert server.heard == [], "a first night is no news"
        command("baseline", "accept", "latest", "--reason", "checked")
        for name in ("tides.md", "pets.txt", "fr/bagages.txt"):
            (command.folder / "docs" / name).unlink()
        refused_part = command.home / "spool" / "refused" / "part"
        refused_part.mkdir(parents=True)
        os.utime(refused_part, (1e9, 1e9))
        lost = command("nightly", str(suite), "--format", "junit", exit_code=10, **environment)
    (heard,) = server.heard
    assert heard["title"].endswith(": small: a loss opened")
    assert heard["message"].startswith("a loss opened (rr@5 since ")
    assert "receiver 2 of 2 was not told: no answer within 6 s" in lost.stderr

    assert not refused_part.exists(), "a night prunes at its end"
    root = etree.fromstring(lost.stdout.encode())
    (case,) = root.iter("testcase")
    assert case.get("classname") == "Boats & more.small"
    assert case.get("name", "").startswith("rr@5 against the ")
    (failure,) = case
    assert (failure.tag, failure.get("message", "")[:5]) == ("failure", "worse")
    assert "When do spring tides occur?" in failure.text

    written = summary.read_text("utf-8")
    assert written.count("## Boats \\& more, ") == 2
    assert "| When do spring tides occur? |" in written
    found = httpx.get(f"{prefect_url}/artifacts/nightly-boats-more/latest").json()
    assert found["type"] == "markdown"
    assert "| When do spring tides occur? |" in found["data"]

    said = {row["kind"] for row in command.sql("SELECT kind FROM events WHERE kind LIKE 'notif%'")}
    assert said == {"notified", "notification_failed"}
    everything = [refused.stderr, lost.stderr, lost.stdout, written, str(found)]
    assert not any(SECRET in text for text in everything)
    paths = [path for path in command.home.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in paths)
