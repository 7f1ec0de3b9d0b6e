"""Where the home is, and when it is refused."""

from pathlib import Path

import pytest

from schemas.errors import StorageError
from schemas.home import HOME_VARIABLE, Home, find_home


def test_the_nearest_home_upwards_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_home(deep).path == deep / ".rankhouse"
    (tmp_path / ".rankhouse").mkdir()
    assert find_home(deep).path == tmp_path / ".rankhouse"


def test_a_named_home_is_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, "mine")
    assert find_home(tmp_path).path == tmp_path / "mine"


@pytest.mark.parametrize("named", [True, False])
def test_a_home_that_is_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    (tmp_path / ".rankhouse").write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / ".rankhouse") if named else "")
    with pytest.raises(StorageError, match="the home folder is a file"):
        find_home(tmp_path)


def test_a_folder_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match="no longer exists"):
        find_home()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert find_home().path == tmp_path


def test_a_disk_that_is_full_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 3_000_000

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    with pytest.raises(StorageError, match="3 MB are free"):
        Home(tmp_path / "home").prepare()
