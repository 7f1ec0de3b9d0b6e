"""Telling people what a night came to."""

from __future__ import annotations

from flows.night_lines import line_of
from flows.night_reports import NightReport


def tell(report: NightReport) -> None:
    """Show the night in Prefect, as a Markdown artifact beside its flow run."""
    from prefect.artifacts import create_markdown_artifact

    create_markdown_artifact(
        markdown=markdown_of(report),
        key="night",
        description=f"{report.suite}, {report.logical_date}: {report.title}",
    )


def markdown_of(report: NightReport) -> str:
    """The night as Markdown: a line an experiment."""
    lines = [f"- {line_of(outcome)}" for outcome in report.outcomes]
    return "\n".join([f"## {report.suite}, {report.logical_date}: {report.title}", "", *lines])
