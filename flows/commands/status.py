"""``rankhouse status``: whether the nights still come, and land."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from flows.printing import format_option, print_rows, say
from schemas.errors import FindingError
from schemas.home import find_home

if TYPE_CHECKING:
    from warehouse.health import Finding

    SpanType = click.ParamType[timedelta]
else:
    SpanType = click.ParamType

SAYS_WHY = ("unusable", "damaged", "held")  # what to do is more than a table shows
UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Span(SpanType):
    """A time span such as 90m, 26h or 3d."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read a span; anything else is a usage error."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6})([mhd])", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a time span; expected one such as 26h", param, ctx)
        return timedelta(**{UNITS[match[2]]: int(match[1])})


@click.command()
@click.option(
    "--max-age",
    type=Span(),
    default="26h",
    show_default=True,
    help="How old the last good run may be.",
)
@click.option("--experiment", "experiments", multiple=True, help="Only this one; repeatable.")
@click.option("--suite", "suites", multiple=True, help="Only this one; repeatable.")
@format_option
def command(
    max_age: timedelta, experiments: tuple[str, ...], suites: tuple[str, ...], format: str
) -> None:
    """Tell whether the last good runs are recent, and what is in their way.

    Looks at suites and experiments, runs that crashed, parts that wait or were refused, the
    published copy, notifications that reached nobody, and the disk. Exit code 3: something is not
    ok.

    Example: rankhouse status --max-age 26h
    """
    from warehouse.finding import SHORT
    from warehouse.health import find_health
    from warehouse.reading import why_missing

    home = find_home()
    findings = find_health(home, max_age=max_age, experiments=experiments, suites=suites)
    columns = ("state", "what", "name", "detail", "run_id")
    rows: list[dict[str, object]] = [
        {name: getattr(finding, name) for name in columns} for finding in findings
    ]
    if format == "table":
        rows = [row | {"run_id": row["run_id"] and str(row["run_id"])[-SHORT:]} for row in rows]
    print_rows(rows, columns, format=format, texts={"detail": 20})
    bad = [finding for finding in findings if not finding.is_ok]
    if not home.published.exists() and not any(map(_says_why, bad)):
        raise FindingError(why_missing(home))
    if bad:
        raise FindingError("; ".join(map(_sentence, bad)))
    say("all is well")


def _says_why(finding: Finding) -> bool:
    return finding.what == "warehouse" or finding.state in SAYS_WHY


def _sentence(finding: Finding) -> str:
    why = f": {finding.detail}" if _says_why(finding) else ""
    return f"{finding.what} {finding.name} is {finding.state}{why}"
