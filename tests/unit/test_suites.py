"""Reading a suite: what is accepted, what each experiment becomes, and how each fault is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.checks import Checks
from schemas.errors import ConfigurationError
from schemas.gates import Gate
from schemas.suites import Suite, read_suite
from tests.data.small_project import REPOSITORY

EXPERIMENT = """
measures = ["hit@1", "ndcg@10"]
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[labelling]
method = "document"
"""
GATE = '[[gate]]\nmeasure = "ndcg@10"\ndelta = 0.02\n'
ONE = '[[experiment]]\npath = "experiments/handbook.toml"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "handbook.toml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def read(folder: Path, text: str) -> Suite:
    file = folder / "nightly.toml"
    file.write_text(text, encoding="utf-8")
    return read_suite(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text)
    return str(caught.value)


def test_experiments_are_found_from_the_suites_folder_and_read_from_their_own(folder: Path) -> None:
    suite = read(folder, ONE + GATE)
    (entry,) = suite.entries
    assert suite.name == "nightly"
    assert entry.experiment.name == "handbook"
    assert entry.experiment.corpus.path == str(folder / "experiments" / "docs")
    assert entry.gates == (Gate(measure="ndcg@10", delta=0.02, alpha=0.01),)
    assert (entry.baseline.kind, entry.baseline.n_nights) == ("previous", 1)


def test_settings_gates_and_baseline_of_one_experiment_take_the_suites_place(folder: Path) -> None:
    own = (
        'set = { name = "small chunks", "chunking.size" = 200, "retrieval.depth" = 20 }\n'
        'baseline = { kind = "mean", nights = 5 }\n'
        '[[experiment.gate]]\nmeasure = "hit@1"\ndelta = 0.05\nalpha = 0.05\n'
    )
    suite = read(folder, ONE + ONE + own + GATE)
    first, second = suite.entries
    assert first.experiment.chunking.size == 800
    assert second.experiment.name == "small chunks"
    assert second.experiment.chunking.size == 200
    assert second.experiment.retrieval.depth == 20
    assert [gate.measure for gate in first.gates] == ["ndcg@10"]
    assert [gate.measure for gate in second.gates] == ["hit@1"]
    assert second.baseline.n_nights == 5


def test_a_pinned_run_may_stand_beside_the_previous_night(folder: Path) -> None:
    suite = read(folder, ONE + GATE + '[baseline]\nkind = "previous"\nrun = "0192f3a1"\n')
    assert suite.entries[0].baseline.run == "0192f3a1"


def test_a_suite_reads_back_from_its_own_json(folder: Path) -> None:
    suite = read(folder, ONE + GATE + "[retention.artifacts]\ndays = 90\n[budget]\ncalls = 500\n")
    assert Suite.model_validate_json(suite.model_dump_json()) == suite
    assert suite.retention.artifacts.days == 90
    assert suite.retention.spool.days is None


def test_checks_are_those_of_the_file_and_the_anchor_lies_beside_it(folder: Path) -> None:
    assert read(folder, ONE + GATE).checks == Checks()
    judge = 'set = { "summary.judge" = { model = "m" }, "summary.contexts" = "reference" }\n'
    more = (
        'noise_runs = 2\ncanaries = "all"\n' + ONE + judge + GATE + '[anchor]\npath = "a.jsonl"\n'
    )
    checks = read(folder, more).checks
    assert (checks.noise_runs, checks.canaries) == (2, "all")
    assert checks.anchor.path is not None
    assert Path(checks.anchor.path).is_absolute()
    assert Path(checks.anchor.path).name == "a.jsonl"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GATE, "the suite names no experiment; add at least one table"),
        (ONE, "experiment 'handbook': no gate decides about its nights"),
        (
            ONE + '[[gate]]\nmeasure = "rr@10"\ndelta = 0.02\n',
            "the gate's measure 'rr@10' is not computed; it computes hit@1, ndcg@10",
        ),
        (ONE + GATE + GATE, "ndcg@10 is gated twice"),
        (
            ONE + '[[gate]]\nmeasure = "qa"\ndelta = 0.02\n'
            '[[experiment]]\npath = "experiments/handbook.toml"\n',
            "'qa' is not computed",
        ),
        (
            ONE
            + 'set = { "summary.contexts" = "retrieved" }\n[[gate]]\nmeasure = "qa"\ndelta = 0.1\n',
            "qa is gated, but summary.contexts = 'retrieved'",
        ),
        (ONE + ONE + GATE, "two experiments are called 'handbook'"),
        (ONE + GATE + '[baseline]\nkind = "pinned"\n', "kind is 'pinned': name the run"),
        (ONE + GATE + "[baseline]\nnights = 3\n", "nights is of kind 'mean'"),
        (ONE + GATE + '[baseline]\nrun = "latest"\n', "which moves every night"),
        (ONE + GATE + "[budgets]\ncalls = 3\n", "budgets: unknown key; did you mean 'budget'?"),
        (
            ONE + "sett = {}\n" + GATE,
            "experiment.0.sett: unknown key; did you mean 'set'?",
        ),
        (
            ONE + GATE + "[retention.artifacts]\nday = 3\n",
            "retention.artifacts.day: unknown key; did you mean 'days'?",
        ),
        (ONE + 'set = { "chunking size" = 3 }\n' + GATE, "'chunking size' is not the key"),
        (ONE + 'set = { "chunking.sizes" = 3 }\n' + GATE, "chunking.sizes: unknown key"),
        (ONE.replace("handbook", "manual") + GATE, "manual.toml: there is no such file"),
        (ONE + '[[gate]]\nmeasure = "ndcg@10"\n', "gate.0.delta: this setting is required"),
        (ONE + '[[gate]]\nmeasure = "ndgc@10"\ndelta = 0.1\n', "ndcg"),
        ("noise_runs = 3\n" + ONE + GATE, "noise_runs is about a judge that can change its mind"),
        (ONE + GATE + '[anchor]\npath = "a.jsonl"\n', "anchor.path is about a judge"),
        (ONE + GATE + "[anchor]\nalpha = 0\n", "anchor.alpha"),
        ('canaries = "some"\n' + ONE + GATE, "canaries"),
        ('experiment = "a.toml"\n' + GATE, "experiment: expected a list"),
    ],
)
def test_each_fault_is_named(folder: Path, text: str, says: str) -> None:
    assert says in refusal(folder, text)


def test_what_the_readme_says_of_retention_and_notify_is_read_as_it_stands(folder: Path) -> None:
    text = (REPOSITORY / "README.md").read_text("utf-8")
    blocks = re.findall(r"^ *```toml\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)
    (retention,) = [block for block in blocks if "[retention]" in block]
    (notify,) = [block for block in blocks if "[notify]" in block]
    suite = read(folder, ONE + GATE + retention + notify)
    assert (suite.retention.artifacts.days, suite.retention.artifacts.gigabytes) == (90, 50)
    assert (suite.notify.urls_env, suite.notify.seconds) == ("RANKHOUSE_NOTIFY", 20)


@pytest.mark.parametrize("what", ["events", "attempts"])
def test_what_has_no_files_has_no_size(folder: Path, what: str) -> None:
    text = ONE + GATE + f"[retention]\n{what} = {{ gigabytes = 1 }}\n"
    assert f"retention.{what}.gigabytes: unknown key" in refusal(folder, text)
