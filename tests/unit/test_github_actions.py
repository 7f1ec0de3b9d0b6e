"""The GitHub Actions example: YAML of a workflow, whose commands exist as they stand there."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pytest
import yaml

from flows.cli import command
from tests.data.small_project import REPOSITORY

FILE = REPOSITORY / "deployments" / "github-actions.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text("utf-8"))
STEPS = WORKFLOW["jobs"]["nightly"]["steps"]
COMMANDS = [
    line
    for step in STEPS
    for line in step.get("run", "").splitlines()
    if line.startswith("rankhouse ")
]


def test_it_is_a_workflow_with_a_schedule_and_no_more_rights_than_it_needs() -> None:
    (schedule,) = WORKFLOW[True]["schedule"]  # YAML 1.1 reads the key "on" as true
    assert len(schedule["cron"].split()) == 5
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all(("uses" in step) != ("run" in step) for step in STEPS)
    assert all(re.fullmatch(r"[\w./-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses_as_it_stands(line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])[1:]
    parent, group = click.Context(command), command
    for word in list(words):
        if not isinstance(group, click.Group) or word.startswith("-"):
            break
        found = group.get_command(parent, word)
        assert found is not None, f"there is no command {word!r}"
        words.pop(0)
        group = found  # type: ignore[assignment]
    group.make_context(line, words)


def test_the_night_is_among_them_and_what_it_names_is_there() -> None:
    (nightly,) = [line for line in COMMANDS if line.startswith("rankhouse nightly ")]
    assert "--format junit" in nightly
    assert (REPOSITORY / nightly.split()[2]).is_file()
    assert nightly.endswith("> nightly.xml")
    assert [step["with"]["path"] for step in STEPS if "upload" in step.get("uses", "")] == [
        "nightly.xml"
    ]


def test_what_a_step_restores_is_what_another_saves() -> None:
    kept = {step["with"]["path"] for step in STEPS if "actions/cache" in step.get("uses", "")}
    assert kept == {WORKFLOW["jobs"]["nightly"]["env"]["RANKHOUSE_HOME"]}


def test_extras_that_it_installs_exist() -> None:
    import tomllib

    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    (install,) = [step["run"] for step in STEPS if step.get("name") == "Install"]
    extras = re.search(r"\[(.*)\]", install)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(known["optional-dependencies"])
