"""A warehouse that is lost or damaged: nothing is begun anew over its copy, and status says so."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from flows.cli import command, run
from schemas.errors import StorageError
from schemas.home import Home
from tests.data.sample_runs import sample_run
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
        code = run(lambda: command.main(list(arguments), standalone_mode=False))
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
