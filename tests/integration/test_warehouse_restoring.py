"""A warehouse that is lost or damaged: nothing is begun anew over its copy, and status says so."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from flows.cli import command as rankhouse_command
from flows.cli import run
from schemas.errors import StorageError
from schemas.home import Home
from tests.data.sample_runs import sample_run
from tests.data.small_project import Command, write_small_project
from warehouse.connect import create_warehouse
from warehouse.load import load_parts
from warehouse.migrate import check_warehouse
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("template") / "home").prepare()
    land(home, IDS[0])
    land(home, IDS[1])
    load_parts(home)
    return home


@pytest.fixture
def home(template: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "a home")
    shutil.copytree(template.path, home.path)
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    return home


@pytest.fixture
def rankhouse(capsys: pytest.CaptureFixture[str]) -> Rankhouse:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(lambda: rankhouse_command.main(list(arguments), standalone_mode=False))
        return (code, *capsys.readouterr())

    return call


def land(home: Home, run_id: str, *, experiment: str = "handbook") -> Path:
    with Spool(home).start(run_id, experiment=experiment) as started:
        return started.finish(sample_run(run_id, experiment=experiment))


def count(path: Path) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        row = connection.execute("SELECT count(*) FROM runs").fetchone()
    assert row is not None
    return int(row[0])


def write_trec(folder: Path) -> list[str]:
    (folder / "bm25.run").write_text("q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\n")
    (folder / "qrels.txt").write_text("q1 0 d2 1\n")
    return [str(folder / "bm25.run"), str(folder / "qrels.txt")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["warehouse", "load"],
        ["warehouse", "migrate"],
        ["runs", "note", "latest", "seen"],
        ["runs", "tag", "latest", "seen"],
        ["recompute", "--measure", "ndcg@7"],
        ["import"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_lost_warehouse_is_never_begun_anew_over_its_copy(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, arguments: list[str]
) -> None:
    home.warehouse.unlink()
    before = home.published.read_bytes()
    if arguments == ["import"]:
        arguments = ["import", *write_trec(tmp_path)]
    spooled = sorted(home.spool.iterdir())
    code, out, err = rankhouse(*arguments)
    assert (code, out) == (2, "")
    assert not home.warehouse.exists()
    assert home.published.read_bytes() == before
    assert sorted(home.spool.iterdir()) == spooled  # nothing lands later that was refused now
    assert "published.duckdb beside it holds 2 runs" in err
    assert "whole copy" in err
    restore = err.rstrip().rpartition("with: ")[2]
    assert restore == f"install -m 644 '{home.published}' '{home.warehouse}'"
    subprocess.run(shlex.split(restore), check=True)
    assert rankhouse(*arguments)[0] == 0
    assert count(home.published) >= 2


def test_a_lost_warehouse_is_refused_before_a_run_spends_anything(home: Home) -> None:
    home.warehouse.unlink()
    with pytest.raises(StorageError, match="install -m 644"):
        check_warehouse(home)
    home.published.chmod(0o644)
    home.published.write_bytes(b"neither" * 5000)
    with pytest.raises(StorageError, match=r"cannot be read\. Restore a backup"):
        check_warehouse(home)
    home.published.unlink()
    check_warehouse(home)  # a fresh home


def test_a_copy_is_never_replaced_by_one_with_fewer_runs(home: Home, rankhouse: Rankhouse) -> None:
    home.warehouse.unlink()
    create_warehouse(home.warehouse)
    land(home, IDS[2])
    before = home.published.read_bytes()
    code, _, err = rankhouse("warehouse", "load")
    assert code == 1
    assert "problem: " in err
    assert "holds 2 runs" in err
    assert "install -m 644" in err
    assert home.published.read_bytes() == before
    home.published.unlink()  # somebody decided
    assert rankhouse("warehouse", "load")[0] == 0
    assert count(home.published) == 1


@pytest.mark.parametrize("length", [0, 5000, 100_000])
def test_the_advice_for_a_damaged_warehouse_names_the_copy(home: Home, length: int) -> None:
    home.warehouse.write_bytes(home.warehouse.read_bytes()[:length])
    with pytest.raises(StorageError, match=r"whole copy.*install -m 644") as caught:
        check_warehouse(home)
    assert "a new warehouse is made" not in str(caught.value)


def spoil_warehouse(home: Home, damage: str) -> None:
    if damage == "missing":
        home.warehouse.unlink()
    elif damage == "empty":
        home.warehouse.write_bytes(b"")
    elif damage == "truncated":
        home.warehouse.write_bytes(home.warehouse.read_bytes()[:-1])
    elif damage == "corrupted":
        content = bytearray(home.warehouse.read_bytes())
        content[12_288:-4096] = bytes(len(content) - 12_288 - 4096)
        home.warehouse.write_bytes(content)
    elif damage == "one byte":
        content = bytearray(home.warehouse.read_bytes())
        content[content.index(b"ndcg@10") + 20] ^= 1
        home.warehouse.write_bytes(content)
    elif damage == "foreign":
        home.warehouse.unlink()
        with duckdb.connect(str(home.warehouse)) as connection:
            connection.execute("CREATE TABLE theirs AS SELECT 1 AS a")
    elif damage == "newer":
        with duckdb.connect(str(home.warehouse)) as connection:
            connection.execute(
                "INSERT INTO migrations VALUES (999, '0999_x.sql', 'x', now(), '9.9.9', 'v9')"
            )


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("missing", "warehouse.duckdb is missing: "),
        ("empty", "not a DuckDB file"),
        ("truncated", "damaged: it has "),
        ("corrupted", "install -m 644"),
        ("one byte", "install -m 644"),
        ("foreign", "other tables (theirs)"),
        ("newer", "Upgrade Rankhouse"),
    ],
)
def test_status_says_what_is_wrong_with_the_warehouse(
    home: Home, rankhouse: Rankhouse, damage: str, words: str
) -> None:
    assert rankhouse("status", "--max-age", "36500d")[0] == 0
    spoil_warehouse(home, damage)
    code, out, err = rankhouse("status", "--max-age", "36500d")
    assert code == 3
    assert "all is well" not in err
    assert words in err
    assert ("missing" if damage == "missing" else "unusable") in out


def test_a_warehouse_that_is_being_written_is_well(home: Home, rankhouse: Rankhouse) -> None:
    code = (
        f"import duckdb, time; c = duckdb.connect({str(home.warehouse)!r}); "
        "print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        result = rankhouse("status", "--max-age", "36500d")
        holder.kill()
    assert result[0] == 0


@pytest.mark.parametrize("content", [b"", b"not a database " * 1000, None])
def test_a_damaged_copy_is_made_anew_by_the_next_load(
    home: Home, rankhouse: Rankhouse, content: bytes | None
) -> None:
    times = home.published.stat().st_atime_ns, home.published.stat().st_mtime_ns
    whole = home.published.read_bytes()
    home.published.chmod(0o644)
    home.published.write_bytes(whole[: len(whole) // 2] if content is None else content)
    os.utime(home.published, ns=times)  # as a disk's own fault would leave it
    code, _, err = rankhouse("sql", "from runs")
    assert code == 2
    assert "damaged" in err
    assert "`rankhouse warehouse load` makes it anew from the warehouse" in err
    code, out, err = rankhouse("status", "--max-age", "36500d")
    assert code == 3
    assert "published published.duckdb is damaged" in err
    assert "missing" not in out
    code, _, err = rankhouse("warehouse", "load")
    assert code == 0
    assert "was damaged and is made anew" in err
    assert count(home.published) == 2
    assert rankhouse("warehouse", "load")[2] == "loaded 0, 0 left in the spool\n"


@pytest.mark.parametrize("damage", ["empty", "truncated", "foreign", "newer"])
def test_nothing_is_spooled_for_a_warehouse_that_cannot_be_used(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, damage: str
) -> None:
    spoil_warehouse(home, damage)
    for arguments in (["import", *write_trec(tmp_path)], ["runs", "note", "latest", "seen"]):
        assert rankhouse(*arguments)[0] == 2
        assert list(home.spool.iterdir()) == []


def test_what_is_spooled_when_the_load_is_refused_is_named(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse.migrate.check_warehouse", lambda home: None)
    spoil_warehouse(home, "truncated")
    code, _, err = rankhouse("import", *write_trec(tmp_path))
    (left,) = home.spool.iterdir()
    assert code == 2
    assert f"spooled: {left} waits; do not repeat the command" in err


@pytest.mark.parametrize(
    "arguments",
    [["runs", "note", "latest", "seen"], ["recompute", "--measure", "ndcg@7"], ["import"]],
    ids=lambda arguments: arguments[0],
)
def test_a_copy_that_cannot_be_published_is_a_problem_that_is_said(
    home: Home,
    rankhouse: Rankhouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("warehouse.publish.flush", full)
    if arguments == ["import"]:
        arguments = ["import", *write_trec(tmp_path)]
    _, _, err = rankhouse(*arguments)
    assert f"problem: {home.path}: no space is left on its disk\n" in err
    assert not list(home.path.glob(".published*"))  # the half copy gives its room back


def test_a_crash_stays_until_a_later_good_run_of_its_experiment(
    home: Home, rankhouse: Rankhouse
) -> None:
    def states() -> dict[str, str]:
        out = rankhouse("status", "--max-age", "36500d", "--format", "json")[1]
        return {row["name"]: row["state"] for row in json.loads(out)}

    for run_id, experiment in ((IDS[2], "handbook"), (IDS[3], "fresh")):
        with Spool(home).start(run_id, experiment=experiment):
            pass
    assert states() == {**states(), "handbook": "crashed", "fresh": "crashed"}
    assert rankhouse("warehouse", "load")[0] == 0
    assert states() == {**states(), "handbook": "crashed", "fresh": "crashed"}
    land(home, IDS[4], experiment="other")
    assert rankhouse("warehouse", "load")[0] == 0
    assert states() == {**states(), "handbook": "crashed", "fresh": "crashed", "other": "ok"}
    land(home, IDS[5])
    land(home, IDS[6], experiment="fresh")
    assert rankhouse("warehouse", "load")[0] == 0
    assert states() == {**states(), "handbook": "ok", "fresh": "ok"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "note", "latest", "caf\udce9"],
        ["runs", "tag", "latest", "caf\udce9"],
        ["runs", "--tag", "caf\udce9"],
        ["import", "--experiment", "caf\udce9"],
    ],
)
def test_words_that_are_not_utf8_are_refused_and_leave_nothing(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, arguments: list[str]
) -> None:
    if arguments[0] == "import":
        arguments = [*arguments, *write_trec(tmp_path)]
    code, out, err = rankhouse(*arguments)
    assert (code, out) == (2, "")
    assert "is not UTF-8: 'caf\\udce9'" in err
    assert list(home.spool.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["warehouse", "load", "--wait", "nan"],
        ["warehouse", "load", "--wait", "inf"],
        ["warehouse", "load", "--wait", "-1"],
        ["runs", "--limit", "99999999999999999999"],
        ["history", "--limit", "99999999999999999999"],
        ["worst", "latest", "latest~1", "--limit", "99999999999999999999"],
    ],
)
def test_numbers_that_nothing_can_count_are_refused(
    home: Home, rankhouse: Rankhouse, arguments: list[str]
) -> None:
    code, out, err = rankhouse(*arguments)
    assert (code, out) == (2, "")
    assert "This is a defect" not in err


@pytest.mark.parametrize("night", ["2999-01-01", "1969-12-31", "0001-01-01"])
def test_an_import_of_an_unlikely_night_is_refused(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, night: str
) -> None:
    code, out, err = rankhouse("import", *write_trec(tmp_path), "--date", night)
    assert (code, out) == (2, "")
    assert f"--date {night} is " in err
    assert list(home.spool.iterdir()) == []


def test_a_tag_that_is_not_there_is_an_error_that_names_those_that_are(
    home: Home, rankhouse: Rankhouse
) -> None:
    assert "there is none yet" in rankhouse("runs", "--tag", "nope")[2]
    assert rankhouse("runs", "tag", "latest", "release-4")[0] == 0
    for arguments in (["runs", "--tag", "nope"], ["runs", "untag", "latest", "nope"]):
        code, out, err = rankhouse(*arguments)
        assert (code, out) == (2, "")
        assert "known: release-4" in err
    assert rankhouse("runs", "untag", "latest", "release-4")[0] == 0
    assert rankhouse("runs", "untag", "latest", "release-4")[0] == 2


def test_an_evaluation_says_that_its_copy_could_not_be_published(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("where a folder should be")
    project = str(write_small_project(tmp_path / "project"))
    result = command("evaluate", project, RANKHOUSE_PUBLISH_PARQUET=str(tmp_path / "a file"))
    assert "problem: " in result.stderr
    assert "File exists" in result.stderr
