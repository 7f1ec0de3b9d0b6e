import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import GoldSpan
from tasks.grounding import GroundedSpan, ground_span, needed_overlap

TEXT = "Anna is a maid of honor. Pierre is a count."


def ground(span: GoldSpan, text: str | None = TEXT, quote: str | None = None) -> GroundedSpan:
    known = {}
    if quote is not None and span.start is not None and span.end is not None:
        known = {("q", span.doc_id, span.start, span.end): quote}
    return ground_span("q", span, text, known)


def test_a_quote_at_its_offsets_is_verified() -> None:
    grounded = ground(GoldSpan("d", 10, 23, "maid of honor"))
    assert (grounded.place, grounded.cause, grounded.is_moved) == (("d", 10, 23), None, False)


def test_a_quote_that_also_stands_elsewhere_is_verified_at_its_offsets() -> None:
    assert ground(GoldSpan("d", 5, 7, "is")).place == ("d", 5, 7)


def test_a_quote_is_located_anew_where_the_document_changed() -> None:
    grounded = ground(GoldSpan("d", 3, 16, "maid of honor"))
    assert (grounded.place, grounded.is_moved) == (("d", 10, 23), True)
    assert grounded.reason == "the quote does not stand at 3-16; located at 10-23"


def test_offsets_out_of_range_are_located_anew_by_the_quote() -> None:
    assert ground(GoldSpan("d", 900, 913, "maid of honor")).place == ("d", 10, 23)


def test_a_quote_alone_is_located_and_nothing_has_moved() -> None:
    grounded = ground(GoldSpan("d", quote="maid of honor"))
    assert (grounded.place, grounded.is_moved, grounded.reason) == (("d", 10, 23), False, None)


@pytest.mark.parametrize(
    ("span", "cause"),
    [
        (GoldSpan("d", 0, 5, "Natasha"), "quote_absent"),
        (GoldSpan("d", quote="Maid of honor"), "quote_absent"),  # character by character
        (GoldSpan("d", 0, 2, "is"), "quote_ambiguous"),
        (GoldSpan("d", quote="is"), "quote_ambiguous"),
        (GoldSpan("d", 40, 44), "out_of_range"),
        (GoldSpan("d", 900, 902, "Natasha"), "quote_absent"),
    ],
)
def test_a_span_is_lost(span: GoldSpan, cause: str) -> None:
    grounded = ground(span)
    assert (grounded.place, grounded.cause) == (None, cause)
    assert grounded.reason


def test_occurrences_that_overlap_make_a_quote_ambiguous() -> None:
    assert ground(GoldSpan("d", quote="aa"), "baaab").cause == "quote_ambiguous"


def test_a_document_that_is_gone_loses_its_spans() -> None:
    assert ground(GoldSpan("d", 0, 4, "Anna"), None).cause == "document_gone"


def test_a_span_without_a_quote_gets_the_text_that_stands_there() -> None:
    grounded = ground(GoldSpan("d", 0, 4))
    assert (grounded.quote, grounded.place) == ("Anna", ("d", 0, 4))


def test_the_quote_of_the_first_evaluation_is_what_later_ones_look_for() -> None:
    grounded = ground(GoldSpan("d", 0, 13), quote="maid of honor")
    assert (grounded.place, grounded.is_moved) == (("d", 10, 23), True)


def test_offsets_at_the_very_end_are_in_range() -> None:
    assert ground(GoldSpan("d", 42, 43)).quote == "."


@given(st.integers(1, 3000), st.integers(1, 100))
def test_the_needed_overlap_is_exact(shorter: int, percent: int) -> None:
    # in integers: the least n with 100 n >= percent * shorter
    assert needed_overlap(shorter, percent / 100) == -(-percent * shorter // 100)
