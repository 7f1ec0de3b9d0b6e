"""What a stage's code fingerprint counts and what it does not."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks import fingerprints
from tasks.fingerprints import fingerprint_code, fingerprint_source, library_versions


def source(text: str) -> str:
    return textwrap.dedent(text)


def test_comments_docstrings_and_layout_do_not_count() -> None:
    plain = source("""
        def cut(text, size):
            return text[:size]
    """)
    dressed = source('''
        """A module."""
        # why
        def cut(text,   size):
            """Cut."""
            # how
            return text[ : size ]
    ''')
    assert fingerprint_source(plain) == fingerprint_source(dressed)


@pytest.mark.parametrize(
    "changed",
    [
        "def cut(text, size):\n    return text[1:size]",
        "def cut(text, size=3):\n    return text[:size]",
    ],
)
def test_a_changed_expression_or_default_counts(changed: str) -> None:
    assert fingerprint_source(changed) != fingerprint_source(
        "def cut(text, size):\n    return text[:size]"
    )


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of ``tasks`` with three modules: stage imports helper, helper imports deep."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "stage.py").write_text(
        "def run():\n    from tasks import helper\n    return helper.f()"
    )
    (folder / "helper.py").write_text("from tasks.deep import g\ndef f():\n    return g()")
    (folder / "deep.py").write_text("def g():\n    return 1")
    (folder / "other.py").write_text("x = 1")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tasks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    fingerprints.fingerprint_code.cache_clear()
    yield folder
    fingerprints.fingerprint_code.cache_clear()


def fresh(module: str) -> str:
    fingerprint_code.cache_clear()
    return fingerprint_code(module)


@pytest.mark.parametrize("module", ["stage", "helper", "deep"])
def test_a_changed_helper_changes_the_fingerprint(package: Path, module: str) -> None:
    before = fresh("tasks.stage")
    path = package / f"{module}.py"
    path.write_text(path.read_text() + "\nz = 2")
    assert fresh("tasks.stage") != before


def test_a_module_that_is_not_imported_does_not_count(package: Path) -> None:
    before = fresh("tasks.stage")
    (package / "other.py").write_text("x = 2")
    assert fresh("tasks.stage") == before


def test_an_absent_library_has_a_version_too() -> None:
    versions = library_versions(("polars", "no-such-distribution-here"))
    assert versions["no-such-distribution-here"] == "absent"
    assert versions["polars"][0].isdigit()


def test_a_plug_ins_own_helpers_count_and_libraries_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cut_plugin.py").write_text("import json\nfrom cut_helper import size\n")
    helper = tmp_path / "cut_helper.py"
    helper.write_text("size = 1\n")
    before = fingerprints.fingerprint_plugin("cut_plugin")
    helper.write_text("size = 1  # a comment\n")
    assert fingerprints.fingerprint_plugin("cut_plugin") == before
    helper.write_text("size = 2\n")
    assert fingerprints.fingerprint_plugin("cut_plugin") != before


@pytest.mark.parametrize("name", ["sys", "no_such_module_here", "no_such.module"])
def test_a_plug_in_without_source_has_no_fingerprint(name: str) -> None:
    assert fingerprints.fingerprint_plugin(name) is None
