"""Telling people what a night came to: beside its flow run, and wherever they want to hear of it.

Nothing here fails a night: what cannot be told is logged, and said with the next one.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from flows.markdown import escape
from flows.night_lines import line_of
from flows.night_reports import NightReport, Outcome
from flows.printing import clean
from flows.step_summaries import blocks_of
from schemas.errors import FailedError, RankhouseError
from schemas.home import Home
from schemas.suites import Notify
from tasks.notifying import Delivery, receivers_of, send
from warehouse.faults import WarehouseLockedError
from warehouse.incidents import Incident, OpenLoss, Standing, find_incident, read_told

logger = logging.getLogger("rankhouse")

HEADLINES = {"opened": "a loss opened", "changed": "a loss changed", "closed": "a loss closed"}


def tell(report: NightReport, notify: Notify, home: Home) -> None:
    """Show the night in Prefect, and send what is new to whom the suite names."""
    try:
        _show_in_prefect(report)
    except Exception as error:  # the server is away: the night is measured all the same
        logger.warning("Prefect does not show the night: %s", type(error).__name__)
    tell_people(report, notify, home)


def tell_people(report: NightReport, notify: Notify, home: Home) -> None:
    """Send what is new, and store that it was said."""
    if notify.urls_env is None or report.is_backfill:
        return
    urls = receivers_of(notify.urls_env, os.environ)
    if not urls:
        logger.warning("%s is not set: nobody would be told of a loss", notify.urls_env)
        return
    try:
        incidents = find_news(report, home)
        if incidents:
            title, body = message_of(report, incidents)
            deliveries = send(urls, title, body, seconds=notify.seconds)
            _record(report, incidents, deliveries, home)
    except (RankhouseError, OSError) as error:
        logger.warning("nobody was told of this night: %s", error)


def markdown_of(report: NightReport) -> str:
    """The night as Markdown: a line and the tables of each experiment."""
    lines = [f"## {escape(report.suite)}, {report.logical_date}: {report.title}", ""]
    for outcome in report.outcomes:
        lines += [escape(line_of(outcome)), ""]
        lines += [f"- open since {loss.since}: {escape(loss.measure)}" for loss in outcome.losses]
        lines += [f"- why: {escape(words)}" for words in outcome.why]
        lines += ["", *blocks_of(outcome.comparisons)]
    return "\n".join(lines)


def find_news(report: NightReport, home: Home) -> list[Incident]:
    """What people have not been told yet, an experiment at a time.

    Raises:
        StorageError: neither the warehouse nor its copy can be read.
    """
    told = _read_told(report, home)
    found = [
        find_incident(
            outcome.experiment,
            outcome.run_id,
            now=standing_of(outcome, told[outcome.experiment]),
            told=told[outcome.experiment],
        )
        for outcome in report.outcomes
        if outcome.spooled_because is None  # how it stands is known when the run has landed
    ]
    return [incident for incident in found if incident is not None]


def standing_of(outcome: Outcome, told: Standing) -> Standing:
    """How an experiment stands after a night; one that was not measured keeps its losses."""
    if outcome.verdict is None:
        return Standing(told.losses, has_failed=True)
    return Standing(tuple(OpenLoss(loss.kind, loss.measure, loss.since) for loss in outcome.losses))


def message_of(report: NightReport, incidents: Sequence[Incident]) -> tuple[str, str]:
    """Title and body, as plain text."""
    outcomes = {outcome.experiment: outcome for outcome in report.outcomes}
    if len(incidents) == 1:
        news = f"{incidents[0].experiment}: {_headline(incidents[0])}"
    else:
        news = f"news of {len(incidents)} experiments"
    lines = [line_of_incident(incident, outcomes[incident.experiment]) for incident in incidents]
    return clean(f"{report.suite}, {report.logical_date}: {news}"), "\n\n".join(lines)


def line_of_incident(incident: Incident, outcome: Outcome) -> str:
    """``handbook: a loss closed (ndcg@10 since 2026-11-03). handbook: same; …``."""
    losses = incident.told.losses if incident.change == "closed" else incident.now.losses
    named = ", ".join(
        f"{loss.measure}{' against the pinned run' * (loss.baseline == 'pinned')}"
        f" since {loss.since}"
        for loss in losses
    )
    about = f" ({named})" if named else ""
    return clean(f"{_headline(incident)}{about}. {line_of(outcome)}")


def _headline(incident: Incident) -> str:
    if incident.now.has_failed:
        return "the night could not be measured"
    if not incident.told.losses and incident.change == "closed":
        return "nights are measured again"
    if not incident.told.losses:
        return HEADLINES["opened"]
    return HEADLINES[incident.change]


def _show_in_prefect(report: NightReport) -> None:
    from prefect.artifacts import create_markdown_artifact

    create_markdown_artifact(
        markdown=markdown_of(report),
        key=artifact_key(report.suite),
        description=f"{report.suite}, {report.logical_date}: {report.title}",
    )


def artifact_key(suite: str) -> str:
    """Prefect takes small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"nightly-{suite}".lower()).strip("-")


def _read_told(report: NightReport, home: Home) -> dict[str, Standing]:
    from warehouse.connect import open_to_read
    from warehouse.reading import open_published

    experiments = [outcome.experiment for outcome in report.outcomes]
    if not home.warehouse.exists():
        return dict.fromkeys(experiments, Standing())
    try:
        with open_to_read(home.warehouse) as connection:
            return read_told(connection, report.suite, experiments)
    except WarehouseLockedError:
        with open_published(home) as connection:
            return read_told(connection, report.suite, experiments)


def _record(
    report: NightReport, incidents: Sequence[Incident], deliveries: Sequence[Delivery], home: Home
) -> None:
    """Store what was said and who did not hear it; while it waits in the spool it is not known."""
    from warehouse.load import load_parts
    from warehouse.rows import EventRow, events_frame
    from warehouse.spool import Spool

    missed = [delivery for delivery in deliveries if not delivery.is_delivered]
    for delivery in missed:
        logger.warning(
            "receiver %d of %d was not told: %s", delivery.place, len(deliveries), delivery.reason
        )
    outcomes = {outcome.experiment: outcome for outcome in report.outcomes}
    kinds = ["notified"] * (len(missed) < len(deliveries)) + ["notification_failed"] * bool(missed)
    rows = [
        EventRow(
            run_id=incident.run_id,
            kind=kind,
            message=line_of_incident(incident, outcomes[incident.experiment]),
            details={
                "suite": report.suite,
                "experiment": incident.experiment,
                "logical_date": report.logical_date.isoformat(),
                "change": incident.change,
                **incident.now.to_json(),
                "n_receivers": len(deliveries),
                "not_told": [[delivery.place, delivery.reason] for delivery in missed],
            },
            occurred_at=datetime.now(UTC),
        )
        for incident in incidents
        for kind in kinds
    ]
    Spool(home).put_events(events_frame(rows))
    loaded = load_parts(home)
    if loaded.problem:
        raise FailedError(loaded.problem)
