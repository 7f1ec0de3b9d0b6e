"""Ten analyst's questions over a generated year, answered by SQL and, apart, in plain Python."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import defaultdict
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from schemas.home import Home
from tests.data import generated_year as year
from tests.data.sample_runs import digest
from warehouse.connect import create_warehouse, open_warehouse
from warehouse.publish import publish
from warehouse.readme import README, examples, named_sql, render

QUESTIONS = named_sql("questions.sql")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("year") / "home").prepare()
    year.write_year(home.warehouse)
    with open_warehouse(home.warehouse) as warehouse:
        publish(warehouse, home)
    return home.published


@cache
def mean(experiment: str, night: int, measure: str) -> float:
    values = [year.value(experiment, night, q, measure) for q in range(year.n_queries(night))]
    known = [found for found in values if found is not None]
    return sum(known) / len(known)


def good_nights(experiment: str) -> list[int]:
    return [
        night
        for night in range(year.N_NIGHTS)
        if any(status != "failed" for status in year.attempts(experiment, night))
    ]


def by_month() -> list[tuple[Any, ...]]:
    found: dict[tuple[date, str], list[float]] = defaultdict(list)
    for experiment in year.EXPERIMENTS:
        for night in good_nights(experiment):
            month = (year.START + timedelta(days=night)).replace(day=1)
            found[month, experiment].append(mean(experiment, night, "ndcg@10"))
    return [(*key, round(sum(v) / len(v), 4), len(v)) for key, v in sorted(found.items())]


def largest_loss() -> list[tuple[Any, ...]]:
    losses = []
    for experiment in year.EXPERIMENTS:
        nights = good_nights(experiment)
        for before, night in itertools.pairwise(nights):
            if year.n_queries(before) == year.n_queries(night):
                change = mean(experiment, night, "ndcg@10") - mean(experiment, before, "ndcg@10")
                losses.append((change, night, experiment))
    change, night, experiment = min(losses)
    day = year.START + timedelta(days=night)
    return [(day, experiment, round(change, 4), year.run_id(experiment, night, 1))]


def lost_most() -> list[tuple[Any, ...]]:
    rows = []
    for query in range(20):
        before = year.value("handbook", 199, query, "ndcg@10") or 0.0
        after = year.value("handbook", 200, query, "ndcg@10") or 0.0
        rows.append((after - before, f"q{query:02}", f"Who wrote section {query}?", before, after))
    return [(q, text, before, after, d) for d, q, text, before, after in sorted(rows)[:3]]


def failed_values() -> list[tuple[Any, ...]]:
    rows = []
    for night in (90, 91):
        known = sum((query * 13 + night) % 8 / 8 for query in range(10, 20))
        numbers = (known / 10, known / 20, (known + 10) / 20)
        rows.append((year.START + timedelta(days=night), "qa", 10, *numbers))
    return rows


def never_found() -> list[tuple[Any, ...]]:
    nights = [n for n in good_nights("handbook") if n > year.N_NIGHTS - 1 - 90]
    return [
        (f"q{query:02}", len(nights))
        for query in range(21)
        if not any(year.value("handbook", night, query, "hit@5") for night in nights)
    ]


def by_tag() -> list[tuple[Any, ...]]:
    found: dict[str, list[float]] = defaultdict(list)
    for query in range(21):
        for tag in year.tags(query):
            found[tag].append(year.value("handbook", 364, query, "ndcg@10") or 0.0)
    rows = [(tag, len(v), round(sum(v) / len(v), 4)) for tag, v in found.items()]
    return sorted(rows, key=lambda row: (row[2], row[0]))


def costs() -> list[tuple[Any, ...]]:
    calls: dict[date, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for _, night, _ in year.good_runs():
        day = year.START + timedelta(days=night)
        quarter = date(day.year, (day.month - 1) // 3 * 3 + 1, 1)
        n = year.n_queries(night)
        sent, reused = (3 * n, 0) if night == 0 else (n, 2 * n)
        for i, number in enumerate((sent, reused, 4 if night % 7 else 0, 5)):
            calls[quarter][i] += number
    return [
        (quarter, sent, reused, round(sent * year.PRICE, 2), "EUR", round(cached / stages, 4))
        for quarter, (sent, reused, cached, stages) in sorted(calls.items())
    ]


def best_of_its_night() -> list[tuple[Any, ...]]:
    best, nights = defaultdict(int), {e: good_nights(e) for e in year.EXPERIMENTS}
    for night in range(year.N_NIGHTS):
        means = {e: mean(e, night, "ndcg@10") for e in year.EXPERIMENTS if night in nights[e]}
        for experiment, found in means.items():
            best[experiment] += found == max(means.values())
    rows = [(experiment, best[experiment], len(nights[experiment])) for experiment in nights]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def what_changed() -> list[tuple[Any, ...]]:
    whole, cut = digest("whole"), digest("cut")
    return [
        ("chunks", digest(f"chunks of {whole}"), digest(f"chunks of {cut}")),
        ("corpus", whole, cut),
    ]


def nights_without_a_good_run() -> list[tuple[Any, ...]]:
    return [
        (year.START + timedelta(days=300), "handbook-small", "crashed in retrieve"),
        (year.START + timedelta(days=310), "handbook", "nothing started"),
        (
            year.START + timedelta(days=311),
            "handbook",
            "failed: embed_chunks: MemoryError: 4 GB",
        ),
    ]


ANSWERS = [
    by_month,
    largest_loss,
    lost_most,
    what_changed,
    nights_without_a_good_run,
    failed_values,
    never_found,
    by_tag,
    costs,
    best_of_its_night,
]


@pytest.mark.parametrize(
    ("question", "expected"), list(zip(QUESTIONS, ANSWERS, strict=True)), ids=list(QUESTIONS)
)
def test_the_question_is_answered(published: Path, question: str, expected: Any) -> None:
    with duckdb.connect(str(published), read_only=True) as connection:
        answer = connection.execute(QUESTIONS[question]).fetchall()
    assert answer == expected()
    assert answer


@pytest.mark.parametrize("name", list(examples()))
def test_every_example_of_the_readme_runs(published: Path, name: str) -> None:
    with duckdb.connect(str(published), read_only=True) as connection:
        connection.execute(examples()[name][1]).fetchall()


def test_the_readme_is_what_the_database_says(tmp_path: Path) -> None:
    path = tmp_path / "fresh.duckdb"
    create_warehouse(path)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert README.read_text("utf-8") == render(connection), (
            "warehouse/README.md is out of date: python -m warehouse.readme"
        )


SCRIPT = """
import json, sys
import duckdb
path, questions = sys.argv[1], json.load(sys.stdin)
connection = duckdb.connect(path, read_only=True)
connection.execute("SET TimeZone = 'UTC'")
answers = {name: connection.execute(sql).fetchall() for name, sql in questions.items()}
print(json.dumps([duckdb.__version__, answers], default=str))
"""


PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
THESE = [
    "tests/integration/test_warehouse_loading.py",
    "tests/integration/test_warehouse_migrating.py",
    "tests/integration/test_warehouse_reading.py",
]


@pytest.fixture(scope="session")
def other_duckdb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Another DuckDB than the one installed, in a folder of its own; kept between test runs."""

    def install(version: str) -> Path:
        cache_folder = request.config.cache.mkdir("duckdb")
        folder = Path(cache_folder) / version
        if not (folder / "done").exists():
            result = subprocess.run(
                [*PIP, "--target", str(folder), f"duckdb=={version}"],
                capture_output=True,
                text=True,
            )
            if result.returncode != 0:
                pytest.skip(f"DuckDB {version} cannot be installed: {result.stderr[-300:]}")
            (folder / "done").touch()
        return folder

    return install


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.4.4", "1.5.5"])
def test_other_duckdbs_open_the_published_copy_and_answer_alike(
    published: Path, other_duckdb: Any, version: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(published)],
        input=json.dumps(QUESTIONS),
        env={"PYTHONPATH": str(other_duckdb(version))},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    used, answers = json.loads(result.stdout)
    assert used == version
    with duckdb.connect(str(published), read_only=True) as connection:
        ours = {name: connection.execute(sql).fetchall() for name, sql in QUESTIONS.items()}
    assert answers == json.loads(json.dumps(ours, default=str))


@pytest.mark.slow
def test_the_warehouse_works_on_the_oldest_duckdb_that_is_allowed(
    other_duckdb: Any, tmp_path: Path
) -> None:
    """The loader's own tests, with DuckDB 1.5.5 in place of the one installed."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *THESE],
        cwd=ROOT,
        env={"PYTHONPATH": f"{other_duckdb('1.5.5')}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-3000:]
