"""Example queries from the headings of documents, for a benchmark that nobody has written yet.

A heading stands word for word in its document: such queries show that a set-up works, not how
good a retriever is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from schemas.records import Document, Judgement, Query
from tasks.matching import normalise

EXAMPLE_TAG = "example"
MAX_EXAMPLES = 50
LONGEST_HEADING = 120
"""Characters; a longer line is a sentence or a table, not a heading."""

MARKDOWN = (".md", ".markdown")

_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_CLOSING = re.compile(r"[ \t]#+$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)|\{#[^{}]*\}")


def example_queries(
    documents: Sequence[Document], *, max_queries: int = MAX_EXAMPLES
) -> list[Query]:
    """Queries whose text is a heading that no other document has, each with its document.

    Every document gives its best heading before any gives a second one; where there are more than
    ``max_queries``, they are taken evenly from the whole corpus. When no heading will do, the
    words of the file names stand in.

    Args:
        documents: the corpus, in its order; not empty.
        max_queries: at most so many.

    Returns:
        At least one query, tagged ``example``.
    """
    candidates = _distinct([(doc.doc_id, list(_headings(doc))) for doc in documents])
    if not any(headings for _, headings in candidates):
        candidates = _distinct([(doc.doc_id, [_name_in_words(doc.doc_id)]) for doc in documents])
    if not any(headings for _, headings in candidates):
        candidates = [(doc.doc_id, [doc.doc_id]) for doc in documents]
    return [
        Query(
            query_id=f"example-{number:02d}",
            text=text,
            tags=(EXAMPLE_TAG,),
            qrels=(Judgement(doc_id),),
        )
        for number, (doc_id, text) in enumerate(_evenly(candidates, max_queries), start=1)
    ]


def _headings(document: Document) -> Iterator[str]:
    """The title first, then headings of several words, then the others; each once."""
    if PurePosixPath(document.doc_id).suffix.lower() in MARKDOWN:
        found = list(_markdown_headings(document.text))
    else:
        found = [line.strip() for line in document.text.splitlines() if line.strip()][:1]
    if document.title is not None:
        found.insert(0, _without_markup(document.title))
    usable = dict.fromkeys(" ".join(text.split()) for text in found if _is_usable(text))
    first, *others = usable or [""]
    if first:
        yield first
    yield from sorted(others, key=lambda text: not _has_several_words(text))


def _markdown_headings(text: str) -> Iterator[str]:
    """ATX and setext headings, without their markup; code blocks are passed over."""
    before = previous = ""
    fence: str | None = None
    for line in text.splitlines():
        if fence is not None or _FENCE.match(line):
            fence = _next_fence(fence, line)
            before, previous = previous, ""
            continue
        if len(line) <= 2 * LONGEST_HEADING:
            if match := _ATX.match(line):
                yield _without_markup(_CLOSING.sub("", match[1].rstrip()))
            elif _UNDERLINE.fullmatch(line.rstrip()) and previous and not before:
                yield _without_markup(previous)
        before, previous = previous, line.strip()


def _next_fence(fence: str | None, line: str) -> str | None:
    """The fence that is open after this line."""
    mark = line.strip()[:3]
    if fence is None:
        return mark
    is_closing = mark == fence and not line.strip().strip(fence[0])
    return None if is_closing else fence


def _without_markup(heading: str) -> str:
    return _MARKUP.sub("", _LINK.sub(r"\1", heading)).strip()


def _is_usable(text: str) -> bool:
    return len(text.strip()) <= LONGEST_HEADING and sum(map(str.isalpha, text)) >= 2


def _has_several_words(text: str) -> bool:
    """Two words, or four characters of a script that writes no spaces (or a long word)."""
    return " " in text or (not text.isascii() and len(text) >= 4)


def _name_in_words(doc_id: str) -> str:
    stem = PurePosixPath(doc_id).stem
    return " ".join(re.split(r"[\W_]+", stem)).strip()


def _distinct(documents: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Drop what more than one document has: it could not say which of them is meant."""
    n_documents = Counter(
        form for _, texts in documents for form in {normalise(text) for text in texts}
    )
    return [
        (doc_id, [text for text in texts if n_documents[normalise(text)] == 1 and normalise(text)])
        for doc_id, texts in documents
    ]


def _evenly(candidates: Iterable[tuple[str, list[str]]], max_queries: int) -> list[tuple[str, str]]:
    """Round by round, evenly spaced where a round does not fit; in the corpus's order at last."""
    remaining = [(doc_id, texts) for doc_id, texts in candidates if texts]
    taken: list[tuple[int, int, str, str]] = []
    for turn in range(max((len(texts) for _, texts in remaining), default=0)):
        round_ = [
            (position, turn, doc_id, texts[turn])
            for position, (doc_id, texts) in enumerate(remaining)
            if turn < len(texts)
        ]
        room = min(max_queries - len(taken), len(round_))
        taken.extend(round_[index * len(round_) // room] for index in range(room))
    return [(doc_id, text) for _, _, doc_id, text in sorted(taken)]
