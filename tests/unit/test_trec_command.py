"""``rankhouse trec`` and ``rankhouse measures``: what they print, and how they refuse."""

import csv
import gzip
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli import command, run

QRELS = "q1 0 a 1\nq1 0 b 1\nq1 0 c 1\nq1 0 d 1\nq2 0 a 2\nq3 0 z 0\n"
FIRST = "q1 Q0 a 1 3 t\nq1 Q0 x 2 2 t\nq1 Q0 b 3 1 t\nq3 Q0 z 1 1 t\nother Q0 z 1 1 t\n"
SECOND = "q1 Q0 x 1 2 t\nq1 Q0 b 2 2 t\nq2 Q0 a 3 1 t\nq3 Q0 z 1 1 t\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text(QRELS)
    Path("first.run").write_text(FIRST)
    Path("second.run.gz").write_bytes(gzip.compress(SECOND.encode()))


class Result:
    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str):
        self.code = run(lambda: command.main(list(words), standalone_mode=False))
        self.out, self.err = capsys.readouterr()


def test_json_is_as_documented(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(
        capsys,
        *"trec qrels.txt first.run -m ap@100 -m precision@5 --per-query --format json".split(),
    )
    ap = (1 / 1 + 2 / 3) / 4
    assert result.code == 0
    assert json.loads(result.out) == {
        "measures": {"ap@100": ap / 3, "precision@5": 0.4 / 3},
        "queries": {
            "q1": {"ap@100": ap, "precision@5": 0.4},
            "q2": {"ap@100": 0.0, "precision@5": 0.0},
            "q3": {"ap@100": 0.0, "precision@5": 0.0},
        },
        "n_queries": 3,
        "missing": ["q2"],
        "n_ignored": 1,
    }
    assert result.err.splitlines() == [
        "first.run: 1 of 3 queries not in the run count as 0 (--intersection leaves them out): q2",
        "first.run: 1 of its queries not in qrels.txt: ignored",
    ]


def test_floats_are_the_shortest_that_read_back_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Result(capsys, *"trec qrels.txt first.run -m ndcg --format json".split()).out
    # (1 + 1/2) / (1 + 1/log2(3) + 1/2 + 1/log2(5)), over three queries
    assert f'"ndcg": {0.5855700749881525 / 3!r}' in out
    assert "queries" not in json.loads(out)


def test_intersection_leaves_missing_queries_out_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = Result(
        capsys, *"trec qrels.txt first.run -m rr --intersection --per-query --format json".split()
    )
    answer = json.loads(result.out)
    assert answer["measures"] == {"rr": 0.5}  # q1: 1, q3: 0
    assert answer["n_queries"] == 2
    assert answer["missing"] == ["q2"]
    assert list(answer["queries"]) == ["q1", "q3"]
    assert "1 of 3 queries not in the run are left out: q2" in result.err


def test_several_runs_have_a_row_each_and_p_values_against_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "trec qrels.txt first.run second.run.gz first.run -m rr --format csv"
    rows = list(csv.DictReader(io.StringIO(Result(capsys, *words.split()).out)))
    assert [row["run"] for row in rows] == ["first.run", "second.run.gz", "first.run"]
    assert [float(row["rr"]) for row in rows] == [1 / 3, (1 / 2 + 1) / 3, 1 / 3]
    assert [row["n_missing"] for row in rows] == ["1", "0", "1"]
    # The differences, -1/2 and 1, add up to 1/2, and no way of putting signs gives less.
    assert [row["p rr"] for row in rows] == ["", "1.0", "1.0"]


def test_several_runs_are_a_list_of_objects_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = "trec qrels.txt first.run second.run.gz -m rr --format json"
    first, second = json.loads(Result(capsys, *words.split()).out)
    assert (first["run"], second["run"]) == ("first.run", "second.run.gz")
    assert "p_values" not in first
    assert second["p_values"] == {"rr": 1.0}


def test_p_values_are_over_the_queries_that_both_runs_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("third.run").write_text("q2 Q0 a 1 1 t\n")
    words = "trec qrels.txt first.run second.run.gz third.run -m rr --intersection --format "
    first, second, third = json.loads(Result(capsys, *(words + "json").split()).out)
    assert "n_pairs" not in first
    assert (second["n_pairs"], second["p_values"]) == (2, {"rr": 1.0})  # q1 and q3
    assert (third["n_pairs"], third["p_values"]) == (0, {"rr": None})
    rows = list(csv.DictReader(io.StringIO(Result(capsys, *(words + "csv").split()).out)))
    assert [(row["n_pairs"], row["p rr"]) for row in rows] == [("", ""), ("2", "1.0"), ("0", "")]


def test_runs_without_pairs_do_not_count_in_the_correction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [f"q{i}" for i in range(6)]
    Path("six.txt").write_text("".join(f"{name} 0 a 1\n" for name in (*names, "other")))
    Path("good.run").write_text("".join(f"{name} Q0 a 1 1 t\n" for name in names))
    Path("bad.run").write_text("".join(f"{name} Q0 x 1 1 t\n" for name in names))
    Path("apart.run").write_text("other Q0 a 1 1 t\n")
    words = "trec six.txt good.run bad.run apart.run -m rr --intersection --format json"
    _, bad, apart = json.loads(Result(capsys, *words.split()).out)
    assert bad["p_values"] == {"rr": 2 / 2**6}  # all signs alike, of two runs but one test
    assert apart["p_values"] == {"rr": None}


def test_a_level_at_which_nothing_is_relevant_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    told = "qrels.txt: nothing is relevant at level 99: the highest grade is 2"
    for words in ("trec qrels.txt first.run --level 99", "trec qrels.txt second.run.gz --level 2"):
        result = Result(capsys, *words.split())
        assert result.code == 0
        assert (told in result.err) == ("99" in words)


def test_default_measures_and_duplicates(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(Result(capsys, *"trec qrels.txt first.run --format json".split()).out)
    assert list(answer["measures"]) == ["ap", "ndcg@10", "rr", "precision@10", "recall@100"]
    words = "trec qrels.txt first.run -m rbp -m rbp(p=0.8) -m rr --format json"
    assert list(json.loads(Result(capsys, *words.split()).out)["measures"]) == ["rbp(p=0.8)", "rr"]


def test_the_table_ends_each_runs_queries_with_its_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Result(capsys, *"trec qrels.txt first.run -m rr --per-query".split()).out
    assert [line.split() for line in out.splitlines()] == [
        ["run", "query", "rr"],
        ["─" * 9, "─" * 5, "─" * 6],
        ["first.run", "q1", "1.0000"],
        ["first.run", "q2", "0.0000"],
        ["first.run", "q3", "0.0000"],
        ["first.run", "–", "0.3333"],
    ]


def test_a_tie_report_says_what_ties_are_worth(capsys: pytest.CaptureFixture[str]) -> None:
    words = "trec qrels.txt second.run.gz -m rr --tie-report"
    result = Result(capsys, *words.split(), "--format", "json")
    assert json.loads(result.out)["ties"] == {
        "n_queries": 3,
        "share_tied": 1 / 3,
        "share_near": 1 / 3,
        "means": {"rr": {"lowest": (1 / 2 + 1) / 3, "highest": 2 / 3}},
    }
    assert "rr is between 0.5 and 0.6666666666666666" in Result(capsys, *words.split()).err
    without = Result(capsys, *words.split(), "--judged-only", "--format", "json")
    assert json.loads(without.out)["ties"]["share_tied"] == 0.0  # x is not judged


def test_control_characters_in_ids_never_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("evil.txt").write_text("q\x1b[31m 0 a 1\np 0 a 1\n")
    Path("evil.run").write_text("p Q0 a 1 1 t\n")
    for form in ("table", "json"):
        result = Result(capsys, *f"trec evil.txt evil.run --per-query --format {form}".split())
        assert "\x1b" not in result.out + result.err
        assert "[31m" in result.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("trec qrels.txt first.run -m ndgc@10", "did you mean 'ndcg'"),
        ("trec qrels.txt first.run -m ndcg@0", "the cutoff is '0'"),
        ("trec qrels.txt first.run -m ndcg@-3", "the cutoff is '-3'"),
        ("trec qrels.txt first.run -m evidence_recall@5", "cannot be computed from a qrels"),
        ("trec qrels.txt first.run --level 0", "0 is not in the range x>=1"),
        ("trec qrels.txt first.run --level -1", "-1 is not in the range x>=1"),
        ("trec qrels.txt", "Missing argument 'RUN...'"),
        ("trec nosuch.txt first.run", "nosuch.txt: there is no such file"),
        ("trec qrels.txt empty.run", "empty.run: the file is empty"),
        ("trec empty.run first.run", "empty.run: the file is empty"),
        ("trec qrels.txt other.run", "none of its queries (other) is in qrels.txt (q1, q2, q3)"),
        ("trec first.run qrels.txt", "first.run:1: the line has 6 fields, but a qrels line has 4"),
        ("trec qrels.txt twice.run", "twice.run:2: document 'a' is ranked twice for query 'q1'"),
        ("trec - first.run -", "- is given twice"),
        ("measures nosuch@3", "there is no 'nosuch'"),
    ],
)
def test_bad_input_is_refused_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: str, complaint: str
) -> None:
    Path("empty.run").touch()
    Path("other.run").write_text("other Q0 z 1 1 t\n")
    Path("twice.run").write_text("q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n")
    result = Result(capsys, *words.split())
    assert result.code == 2
    assert complaint in " ".join(result.err.split())
    assert result.out == ""


def test_measures_are_refused_before_files_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'ap'" in Result(capsys, *"trec nosuch nosuch -m map".split()).err


def test_contracts_are_printed_for_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(Result(capsys, *"measures --format json".split()).out)
    assert {row["measure"] for row in rows} >= {
        "ndcg[@k]",
        "rbp(p=0.8)",
        "err[@k](max_grade=4)",
        "evidence_recall@k, @Nchars",
        "summary_score",
    }
    (dcg,) = json.loads(Result(capsys, *"measures dcg@5 --format json".split()).out)
    assert (dcg["lowest"], dcg["highest"], dcg["version"]) == (0.0, None, 1)
    table = Result(capsys, *"measures dcg@5 ndcg@5".split()).out
    assert "range    0 to no upper end" in table
    assert "range    0 to 1" in table
    assert max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize("name", ["trec", "measures"])
def test_the_example_of_the_help_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("first.run").rename("bm25.run")
    Path("second.run.gz").rename("dense.run.gz")
    example = Result(capsys, name, "--help").out.partition("Example: rankhouse ")[2]
    words = shlex.split(example.partition("\n\n")[0])
    assert words[0] == name
    assert Result(capsys, *words).code == 0


def test_neither_prefect_nor_a_database_nor_a_model_library_is_loaded() -> None:
    program = (
        "import sys; from flows.cli import command, run; "
        "code = run(lambda: command.main(['trec', 'qrels.txt', 'first.run', 'second.run.gz'], "
        "standalone_mode=False)); "
        "heavy = {'prefect', 'duckdb', 'torch', 'faiss', 'sentence_transformers', 'openai', "
        "'pandera', 'pandas', 'pydantic', 'scipy'} & set(sys.modules); "
        "print('code', code, 'loaded', sorted(heavy))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(root), "PATH": ""},
    )
    assert done.stdout.splitlines()[-1] == "code 0 loaded []"
    assert not Path(".rankhouse").exists()
