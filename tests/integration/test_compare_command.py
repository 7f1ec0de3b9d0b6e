"""``rankhouse compare`` on a published copy, as a script and as somebody at a terminal sees it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import date

import pytest

from flows.cli import command, run
from schemas.gates import Gate
from schemas.home import Home
from tests.data.stored_runs import frames_of, run_id
from warehouse.compare import compare_runs
from warehouse.comparison_rows import BaselineRow, baselines_frame, comparisons_frame
from warehouse.comparisons import Baseline
from warehouse.load import load_parts
from warehouse.reading import open_published
from warehouse.spool import Spool
from warehouse.verify import find_broken

N = 40
TAGS = [["en" if i % 2 else "fr"] for i in range(N)]
LEVEL = [0.5] * N
NIGHTS = {
    1: {"hit@1": [1.0] * N, "ndcg@10": LEVEL, "rr@10": LEVEL},
    2: {"hit@1": [1.0] * N, "ndcg@10": [0.5 - (i % 2) / 10 for i in range(N)], "rr@10": LEVEL},
    3: {"hit@1": [1.0, 0.0] * (N // 2), "ndcg@10": LEVEL},  # under another key
    4: {"hit@1": [1.0] * N, "ndcg@10": [0.52, 0.49] * (N // 2), "rr@10": LEVEL},
}
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Four nights: level, a loss on half of the queries, other labels, nearly level."""
    home = Home(tmp_path_factory.mktemp("compared") / "home").prepare()
    for number, values in NIGHTS.items():
        with Spool(home).start(run_id(number), experiment="handbook") as started:
            labelling = {"labelling": {"method": "span"}} if number == 3 else {}
            frames = frames_of(
                number,
                values,
                tags=TAGS,
                key="other" if number == 3 else "key",
                night=date(2026, 11, number),
                config={
                    "name": "handbook",
                    "corpus": {"path": "corpus"},
                    "benchmark": {"path": "benchmark.jsonl"},
                    "labelling": {"method": "document"},
                    "measures": list(values),
                    **labelling,
                },
            )
            started.finish(frames)
    report = load_parts(home)
    assert report.refused == []
    return home


@pytest.fixture
def rankhouse(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Rankhouse:
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))

    def call(*arguments: str) -> tuple[int, str, str]:
        words = ["compare", *arguments]
        code = run(lambda: command.main(words, standalone_mode=False))
        return (code, *capsys.readouterr())

    return call


def test_the_first_line_is_the_verdict_and_the_losers_have_texts(rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse(run_id(2), run_id(1), "--gate", "ndcg@10:0.02")
    first, second, *rest = out.splitlines()
    assert code == 10
    assert first == (
        "worse: ndcg@10 fell by 0.0500 [0.0350, 0.0650], p = 0.0001, on 20 of 40 queries"
    )
    assert second == "handbook of 2026-11-02 (00000002) against handbook of 2026-11-01 (00000001)"
    text = "\n".join(rest)
    assert "Lost most on ndcg@10, 10 of 20:" in text
    assert "What is q00001?" in text
    assert any(
        line.split()[:3] == ["ndcg@10", "en", "worse"] for line in rest
    )  # the odd queries lost
    assert "Smallest differences that these queries could show (power 0.8): ndcg@10 0.0" in text
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--gate", "ndcg@10:0.02", "--tolerate", "10"], 0),
        (["--gate", "ndcg@10:0.02", "--tolerate", "11"], 10),
        (["--gate", "rr@10:0.02"], 0),  # the same
        (["--gate", "ndcg@10:0.2"], 0),  # a loss, but one that does not matter
        (["--gate", "ndcg@10:0.06"], 11),
        (["--gate", "ndcg@10:0.06", "--tolerate", "11"], 0),
        ([], 0),  # nothing is gated
        (["--gate", "ndcg@10"], 2),
        (["--gate", "hit@5:0.02"], 2),  # not computed
        (["--gate", "ndcg@10:0.1", "--gate", "ndcg@10:0.2"], 2),
        (["--measure", "hit@5"], 2),
        (["--tolerate", "1"], 2),
    ],
)
def test_exit_codes(rankhouse: Rankhouse, arguments: list[str], code: int) -> None:
    assert rankhouse(run_id(2), run_id(1), *arguments)[0] == code


def test_without_gates_everything_in_common_is_shown_and_nothing_decides(
    rankhouse: Rankhouse,
) -> None:
    code, out, err = rankhouse("latest~2", "latest~3", "--format", "table")
    assert (code, out.startswith("worse: ndcg@10 fell by 0.05")) == (0, True)
    assert "nothing is gated" in err
    header = out.splitlines()[3].split()
    assert header[:5] == ["measure", "verdict", "mean", "baseline", "difference"], "first of all"
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines()[4:8] if line}
    assert rows["ndcg@10"] == "worse"
    assert rows["hit@1"] == rows["rr@10"] == "same"


def test_nothing_comparable_says_what_differs(rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse(run_id(3), run_id(1), "--measure", "hit@1", "--measure", "ndcg@10")
    assert code == 12
    assert out.startswith("not comparable: its values mean different things on the two sides")
    assert err.splitlines()[0] == (
        "not comparable: hit@1, ndcg@10: its values mean different things on the two sides"
    )
    assert "  labelling.method: span / document" in err.splitlines()
    assert rankhouse(run_id(3), run_id(1), "--tolerate", "12")[0] == 0
    assert rankhouse("latest", "latest")[0] == 12


def test_machines_get_all_of_it(rankhouse: Rankhouse) -> None:
    _, out, _ = rankhouse(run_id(2), run_id(1), "--gate", "ndcg@10:0.02", "--format", "json")
    found = json.loads(out)
    assert (found["verdict"], found["lead"], found["is_gated"]) == ("worse", "ndcg@10", True)
    assert [item["measure"] for item in found["measures"]] == ["ndcg@10", "hit@1", "rr@10"]
    assert found["measures"][0]["difference"] == pytest.approx(-0.05)
    assert len(found["lost_query_ids"]) == 20
    _, out, _ = rankhouse(run_id(2), run_id(1), "--gate", "ndcg@10:0.02", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["measure"], row["tag"]) for row in rows] == [
        ("ndcg@10", ""),
        ("hit@1", ""),
        ("rr@10", ""),
        ("ndcg@10", "en"),
        ("ndcg@10", "fr"),
    ]


def test_a_comparison_and_a_decision_travel_through_the_spool_once(home: Home) -> None:
    import duckdb

    with open_published(home) as connection:
        found = compare_runs(
            connection,
            run_id(2),
            Baseline((run_id(1), run_id(4)), "mean"),
            gates=[Gate(measure="ndcg@10", delta=0.02)],
        )
    row = BaselineRow(experiment="handbook", run_id=run_id(2), author="eve", reason="new model")
    frames = {"comparisons": comparisons_frame(found), "baselines": baselines_frame([row])}
    for _ in range(2):  # a part that is left again after a crash changes nothing
        Spool(home).put_tables(frames)
        assert load_parts(home).refused == []
    with duckdb.connect(str(home.published), read_only=True) as connection:
        stored = connection.execute(
            "SELECT verdict, baseline, baseline_run_ids FROM comparisons WHERE is_gated"
        ).fetchall()
        accepted = connection.execute("SELECT run_id, author FROM baselines").fetchall()
        # the values of this test are chosen, not those of its rankings
        assert list(find_broken(connection)) == []
    assert stored == [("worse", "mean", [run_id(1), run_id(4)])]
    assert accepted == [(run_id(2), "eve")]
