"""Verdicts as JUnit XML: what its readers accept, and what each verdict becomes there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from lxml import etree

from flows.junit import Case, cases_of, junit_of_comparison, render_junit
from warehouse.comparisons import Baseline, Comparison, MeasureComparison, QueryLoss, Verdict

# What the schema of Jenkins' xUnit plug-in (junit-10.xsd) allows of what we write: attributes,
# those that are required, and children.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        {"name", "tests", "failures", "errors"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "classname", "time"},
        {"name"},
        {"failure", "error", "skipped", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
}
HOSTILE = "]]> <b a='\"'>&amp;\x00\x1b[31m\u202e\ud800\uffff\nzwei | `x` ü 儿童"


def read(document: str) -> Any:
    """Parse as strictly as XML asks, and check every element."""
    root = etree.fromstring(document.encode(), etree.XMLParser(resolve_entities=False))
    for element in root.iter():
        attributes, required, children = ALLOWED[element.tag]
        assert required <= set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
    for suite in root:
        counts = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ALLOWED}
        assert suite.get("tests") == str(len(suite.findall("testcase")))
        assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == tuple(
            str(counts[tag]) for tag in ("failure", "error", "skipped")
        )
    return root


def comparison(*items: MeasureComparison, **fields: Any) -> Comparison:
    return Comparison(
        comparison_id="c",
        run_id="r",
        baseline=Baseline(("b",), fields.pop("kind", "run")),
        verdict="worse",
        reason="",
        measures=items,
        **fields,
    )


def measured(verdict: Verdict, measure: str = "ndcg@10", **fields: Any) -> MeasureComparison:
    return MeasureComparison(measure=measure, contract_version=1, verdict=verdict, **fields)


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [
        ("worse", "failure"),
        ("better", None),
        ("same", None),
        ("not enough evidence", "skipped"),
        ("not comparable", "skipped"),
    ],
)
def test_each_verdict_is_one_kind_of_result(verdict: Verdict, tag: str | None) -> None:
    item = measured(verdict, reason="benchmark edited")
    (case,) = read(junit_of_comparison(comparison(item), experiment="docs")).iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("docs", "ndcg@10 against another run")
    assert [child.tag for child in case] == ([] if tag is None else [tag])
    if tag:
        assert case[0].get("message") == f"{verdict}: benchmark edited"


def test_with_gates_only_they_are_cases() -> None:
    items = (measured("same", is_gated=True), measured("worse", "rr@10"))
    root = read(junit_of_comparison(comparison(*items), experiment="docs"))
    assert [case.get("name") for case in root.iter("testcase")] == ["ndcg@10 against another run"]
    assert root.get("failures") == "0"


def test_a_failure_has_the_numbers_and_the_queries_that_lost_most() -> None:
    item = measured(
        "worse",
        is_gated=True,
        baseline_mean=0.7,
        mean=0.64,
        difference=-0.06,
        low=-0.09,
        high=-0.03,
        p_adjusted=0.0004,
        n_pairs=50,
        n_worse=7,
        n_better=1,
    )
    losers = (QueryLoss("q7", 0.0, 1.0, -1.0, "Wo?"), QueryLoss("q2", 0.5, 1.0, -0.5))
    (failure,) = read(
        junit_of_comparison(comparison(item, lead="ndcg@10", losers=losers), experiment="docs")
    ).iter("failure")
    assert failure.get("message") == (
        "worse: 0.7000 to 0.6400 (-0.0600, 95 % -0.0900 to -0.0300, p 0.0004); "
        "7 of 50 queries lost, 1 gained"
    )
    assert failure.text == "q7  -1.0000  Wo?\nq2  -0.5000"


def test_a_loss_of_an_earlier_night_stays_a_failure_until_it_is_gone() -> None:
    item = measured("not enough evidence", is_gated=True, reason="coverage")
    cases = list(
        cases_of(
            comparison(item, kind="previous"), group="docs", open_losses=[("previous", "ndcg@10")]
        )
    )
    assert [(case.result, case.message) for case in cases] == [
        (
            "failure",
            "a loss of an earlier night is not shown to be gone; tonight not enough evidence: "
            "coverage",
        )
    ]
    other = cases_of(comparison(item), group="docs", open_losses=[("previous", "ndcg@10")])
    assert [case.result for case in other] == ["skipped"]  # against another baseline


def test_hostile_text_stays_text_wherever_it_stands() -> None:
    cases = [
        Case(HOSTILE, HOSTILE, "failure", HOSTILE, HOSTILE),
        Case(HOSTILE, HOSTILE, "error", HOSTILE),
        Case(HOSTILE, HOSTILE, "skipped", HOSTILE),
    ]
    root = read(render_junit([(HOSTILE, cases)]))
    shown = "]]> <b a='\"'>&amp;\\x00\\x1b[31m\\u202e\ufffd\ufffd\\nzwei | `x` ü 儿童"
    for element in root.iter("testsuite", "testcase"):
        assert element.get("name") == shown
    for element in root.iter("failure", "error", "skipped"):
        assert element.get("message") == shown
    (failure,) = root.iter("failure")
    assert re.sub(r"\n", r"\\n", failure.text) == shown
