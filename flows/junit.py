"""Comparisons as JUnit XML, which CI systems show beside tests.

A measure is a test case: worse is a failure, what could not be measured an error; not enough
evidence and not comparable are skipped, with the reason. Elements and attributes are those that
Jenkins' and GitLab's readers know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree  # writes only

from flows.night_reports import NightReport, Outcome
from flows.printing import clean
from schemas.counting import counted
from warehouse.comparisons import Comparison, MeasureComparison, QueryLoss, Verdict

Result = Literal["passed", "failure", "error", "skipped"]
RESULTS: dict[Verdict, Result] = {
    "better": "passed",
    "same": "passed",
    "worse": "failure",
    "not enough evidence": "skipped",
    "not comparable": "skipped",
}
AGAINST = {
    "run": "another run",
    "previous": "the last good night",
    "mean": "the mean of the last good nights",
    "pinned": "the pinned run",
}
_NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case."""

    group: str
    name: str
    result: Result
    message: str = ""
    text: str = ""


def render_junit(suites: Iterable[tuple[str, Sequence[Case]]]) -> str:
    """The document: a suite for each name with its cases."""
    root = ElementTree.Element("testsuites", name="rankhouse")
    for name, cases in suites:
        counts = {
            result: str(sum(case.result == result for case in cases))
            for result in ("failure", "error", "skipped")
        }
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_plain(name),
            tests=str(len(cases)),
            failures=counts["failure"],
            errors=counts["error"],
            skipped=counts["skipped"],
        )
        for case in cases:
            _add(suite, case)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'


def cases_of(
    comparison: Comparison, *, group: str, open_losses: Iterable[tuple[str, str]] = ()
) -> Iterator[Case]:
    """A case a gated measure; without gates one a measure.

    Args:
        comparison: of one run with one baseline.
        group: what the cases belong to.
        open_losses: (kind of baseline, measure) of losses of earlier nights that are not shown to
            be gone: failures, whatever tonight showed.
    """
    still_open = set(open_losses)
    for item in comparison.gated or comparison.measures:
        is_open = (comparison.baseline.kind, item.measure) in still_open
        result = "failure" if is_open else RESULTS[item.verdict]
        message = describe(item)
        if is_open and item.verdict != "worse":
            message = f"a loss of an earlier night is not shown to be gone; tonight {message}"
        is_lead = item.measure == comparison.lead
        text = losses_in_lines(comparison.losers) if result == "failure" and is_lead else ""
        against = AGAINST[comparison.baseline.kind]
        yield Case(group, f"{item.measure} against {against}", result, message, text)


def describe(item: MeasureComparison) -> str:
    """The verdict on one measure, with its numbers or its reason."""
    parts: list[str] = [item.verdict]
    if item.difference is not None and item.mean is not None and item.baseline_mean is not None:
        interval = (
            ""
            if item.low is None or item.high is None
            else f", 95 % {item.low:+.4f} to {item.high:+.4f}"
        )
        p = "" if item.p_adjusted is None else f", p {item.p_adjusted:.2g}"
        parts.append(
            f"{item.baseline_mean:.4f} to {item.mean:.4f} ({item.difference:+.4f}{interval}{p}); "
            f"{item.n_worse} of {counted(item.n_pairs, 'query')} lost, {item.n_better} gained"
        )
    if item.reason:
        parts.append(item.reason)
    return ": ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def losses_in_lines(losers: Iterable[QueryLoss]) -> str:
    """The queries that lost most, a line each."""
    return "\n".join(
        clean(f"{loss.query_id}  {loss.difference:+.4f}  {loss.text or ''}").rstrip()
        for loss in losers
    )


def junit_of_comparison(comparison: Comparison, *, experiment: str) -> str:
    """A comparison that somebody asked for."""
    return render_junit([("compare", list(cases_of(comparison, group=experiment)))])


def junit_of_night(report: NightReport) -> str:
    """A night: a suite of test cases each experiment."""
    return render_junit(
        (f"{report.suite}.{outcome.experiment}", list(_cases_of_outcome(report, outcome)))
        for outcome in report.outcomes
    )


def _cases_of_outcome(report: NightReport, outcome: Outcome) -> Iterator[Case]:
    group = f"{report.suite}.{outcome.experiment}"
    if outcome.verdict is None:
        yield Case(group, "evaluation", "error", outcome.reason or outcome.status)
    elif not outcome.comparisons:  # the run waits for the warehouse
        yield Case(group, "evaluation", "skipped", outcome.reason or outcome.verdict)
    open_losses = [(loss.kind, loss.measure) for loss in outcome.losses]
    for comparison in outcome.comparisons:
        yield from cases_of(comparison, group=group, open_losses=open_losses)


def _add(suite: ElementTree.Element, case: Case) -> None:
    element = ElementTree.SubElement(
        suite, "testcase", classname=_plain(case.group), name=_plain(case.name)
    )
    if case.result == "passed":
        return
    child = ElementTree.SubElement(element, case.result, message=_plain(case.message))
    if case.result != "skipped":
        child.set("type", "worse" if case.result == "failure" else "not measured")
    if case.text:
        child.text = "\n".join(_plain(line) for line in case.text.split("\n"))


def _plain(text: str) -> str:
    """Characters that XML 1.0 can hold; controls become visible."""
    return _NOT_XML.sub("\ufffd", clean(text))
