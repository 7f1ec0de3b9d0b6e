"""Hostile queries through ``rankhouse compare``: JUnit XML and GitHub's step summary."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from lxml import etree
from markdown_it import MarkdownIt

from flows.cli import command, run
from schemas.home import Home
from tests.data.sample_runs import sample_run
from warehouse.load import load_parts
from warehouse.spool import Spool

IDS = ["01700000-0000-7000-8000-000000000001", "01700000-0000-7000-8000-000000000002"]
HOSTILE = "a | b\n`x` <img src=x onerror=y> [l](javascript:z) ]]> & ende"
READER = MarkdownIt("gfm-like", {"html": True, "linkify": False})


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, of which the second lost; the file for the step's summary."""
    home = Home(tmp_path / "home").prepare()
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    for number, run_id in enumerate(IDS):
        frames = sample_run(run_id, night=date(2020, 3, 1 + number), n_queries=60, seed=number)
        frames["queries"] = frames["queries"].with_columns(
            text=pl.concat_str(pl.lit(HOSTILE + " "), "query_id")
        )
        with Spool(home).start(run_id, experiment="handbook") as started:
            started.finish(frames)
    load_parts(home)
    return tmp_path / "summary.md"


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(lambda: command.main(["compare", *IDS[::-1], *words], standalone_mode=False))
    return code, capsys.readouterr().out


def test_hostile_queries_stay_text_in_both(
    summary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = compare(capsys, "--format", "junit", "--gate", "rr@10:0.001:0.49")
    (case,) = etree.fromstring(out.encode()).iter("testcase")
    assert case.get("classname") == "handbook"
    tags = {0: [], 10: ["failure"], 11: ["skipped"]}
    assert [child.tag for child in case] == tags[code]

    html = READER.render(summary.read_text("utf-8"))
    losers = html.partition("Lost most")[2]
    assert "<h3>" in html
    assert losers.count("<tr>") == 1 + 10, "the ten that lost most, whatever stands in them"
    assert "a | b\\n`x` &lt;img src=x onerror=y&gt; [l](javascript:z) ]]&gt; &amp; ende" in losers
    assert "<img" not in html
    assert "<a " not in html

    compare(capsys)
    assert summary.read_text("utf-8").count("### ") == 2, "a second step adds to it"


def test_a_summary_that_cannot_be_written_costs_a_line_on_stderr(
    summary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary.parent))
    assert (
        run(lambda: command.main(["compare", *IDS, "--format", "csv"], standalone_mode=False)) == 0
    )
    assert "GITHUB_STEP_SUMMARY: the summary was not written (Is a directory)" in (
        capsys.readouterr().err
    )
