"""What the command line makes of errors, and how little it loads to say what it can do."""

import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from flows.cli import COMMANDS, command, run
from schemas.errors import ConfigurationError, FailedError, FindingError
from tests.data.small_project import REPOSITORY


def raising(error: BaseException) -> int:
    def call() -> None:
        raise error

    return run(call)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("no"), 2),
        (FailedError("no"), 1),
        (FindingError("no"), 3),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (click.UsageError("no"), 2),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert raising(error) == code


def test_an_error_is_one_message_with_its_control_characters_visible(
    capsys: pytest.CaptureFixture[str],
) -> None:
    raising(ConfigurationError("bad\x1b[31m\nsecond line"))
    assert capsys.readouterr().err == "error: bad\\x1b[31m\nsecond line\n"


def test_a_full_disk_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    told = "no space is left on the disk; make room, and try again\n"
    assert raising(OSError(28, "No space left on device", "x.csv")) == 1
    assert capsys.readouterr().err == f"error: x.csv: {told}"
    # as Polars says it, and DuckDB of a short write
    for text in ("No space left on device (os error 28)", "Could not write all bytes to file"):
        assert raising(RuntimeError(text)) == 1
        assert capsys.readouterr().err == f"error: {told}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_a_library_made_an_error_of_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr("flows.cli._signals", [number])
    assert raising(RuntimeError("Query interrupted")) == code


def test_ctrl_c_inside_exec_ends_with_130(tmp_path: Path) -> None:
    # `python -m` kills itself by SIGINT at exit (-2) where KeyboardInterrupt has left an `exec`.
    (tmp_path / "interrupted.py").write_text(
        "import signal\nfrom flows import cli\n"
        "def call(*args, **options):\n"
        "    exec('import signal; signal.raise_signal(signal.SIGINT)')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "cli.command.main = call\n"
        "cli.main([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "stopped\n")


def test_a_defect_leaves_its_trace_in_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert raising(ZeroDivisionError("by zero")) == 1
    err = capsys.readouterr().err
    assert "error: ZeroDivisionError: by zero" in err
    assert "Traceback" not in err
    (trace,) = tmp_path.iterdir()
    assert "ZeroDivisionError: by zero" in trace.read_text()
    assert str(trace) in err


def test_help_lists_every_command_and_imports_none() -> None:
    script = (
        "import sys\nfrom flows.cli import command\n"
        "try:\n    command.main(['--help'], prog_name='rankhouse')\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'prefect', 'polars', 'numpy', 'duckdb', 'pydantic', 'torch', 'rich'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for name in COMMANDS:
        assert name in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    leaves = list(found.commands.items()) if isinstance(found, click.Group) else [("", found)]
    for word, leaf in leaves:
        text = " ".join((leaf.help or "").split())
        assert f"Example: rankhouse {name} {word}".rstrip() in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_stands_whole_on_a_line_of_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = command.get_command(click.Context(command), name)
    assert found is not None
    words = list(found.commands) if isinstance(found, click.Group) else []
    for path in ([name], *([name, word] for word in words)):
        run(lambda path=path: command.main([*path, "--help"], "rankhouse", standalone_mode=False))
        out = capsys.readouterr().out
        asked = found.commands[path[1]] if path[1:] else found  # type: ignore[attr-defined]
        examples = re.findall(r"^Example: (.*)$", inspect.cleandoc(asked.help), re.MULTILINE)
        assert examples or words
        for example in examples:
            assert f"  Example: {example}" in out.splitlines()
        assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["recover", "run_nightly/nightly"], "without the flow's name"),
        (["recover", "night\x1bly"], "expected the name that stands in prefect.yaml"),
        (["warehouse", "prune", "--older-than", "99999999999"], "is not in the range"),
        (["warehouse", "prune", "x.toml", "--older-than", "9"], "one of the two, not both"),
        (["warehouse", "prune"], "name a suite's file, or give --older-than DAYS"),
        (["cache", "prune", "--older-than", "99999999999"], "is not in the range"),
    ],
)
def test_words_that_cannot_be_used_are_refused_and_no_defect(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("RANKHOUSE_HOME", str(home))
    assert run(lambda: command.main(words, standalone_mode=False)) == 2
    assert told in capsys.readouterr().err
    assert not home.exists()
