"""What a retriever from elsewhere answered to one query, read strictly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.hits import Hit

FIELDS = ("score", "chunk_id", "doc_id", "start", "end", "text")
EXPECTED = (
    "expected a Hit or a table with chunk_id, with doc_id (and start and end, or text), or with "
    "text, and a score"
)


class HitError(Exception):
    """An answer that breaks the protocol; says which result and how."""


def read_hits(results: Any) -> list[Hit]:
    """Results as a retriever gave them, ``Hit`` or tables; unknown names in a table are ignored.

    Raises:
        HitError: no list of results, a result that names nothing, a score that is no finite
            number, scores on some only, or a result that comes twice.
    """
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Sequence):
        raise HitError(f"the results are {_shown(results)}; expected a list of them")
    hits = [_read(result, f"result {number}") for number, result in enumerate(results, start=1)]
    n_scores = sum(hit.score is not None for hit in hits)
    if n_scores not in (0, len(hits)):
        number = next(n for n, hit in enumerate(hits, start=1) if hit.score is None)
        raise HitError(
            f"result {number} has no score and others have one; give all of them a score, or none"
        )
    seen: set[tuple[object, ...]] = set()
    for number, hit in enumerate(hits, start=1):
        key = _key(hit)
        if key is not None and key in seen:
            raise HitError(f"result {number} comes a second time: {shown_hit(hit)}")
        seen.update([key] if key is not None else [])
    return hits


def shown_hit(hit: Hit) -> str:
    """What a result was named by, in a line."""
    if hit.chunk_id is not None:
        return f"chunk_id {hit.chunk_id!r}"
    if hit.doc_id is None:
        return f"the text {_shown(hit.text)}"
    if hit.start is not None:
        return f"doc_id {hit.doc_id!r}, {hit.start} to {hit.end}"
    return f"doc_id {hit.doc_id!r}" + ("" if hit.text is None else f", text {_shown(hit.text)}")


def _key(hit: Hit) -> tuple[object, ...] | None:
    """Results with equal keys are the same; None: a text may stand in the corpus repeatedly."""
    if hit.chunk_id is not None:
        return ("chunk", hit.chunk_id)
    if hit.doc_id is None:
        return None
    return ("document", hit.doc_id, hit.start, hit.end, hit.text if hit.start is None else None)


def _read(result: Any, where: str) -> Hit:
    if isinstance(result, Hit):
        values = {name: getattr(result, name) for name in FIELDS}
    elif isinstance(result, Mapping):
        values = {name: result.get(name) for name in FIELDS}
    else:
        raise HitError(f"{where} is {_shown(result)}; {EXPECTED}")
    for name in ("chunk_id", "doc_id", "text"):
        value = values[name]
        if value is not None and (not isinstance(value, str) or not value):
            raise HitError(f"{where}: {name} is {_shown(value)}; expected a text")
        if value is not None and not _is_unicode(value):
            raise HitError(f"{where}: {name} is {_shown(value)}, which is no Unicode text")
    if values["chunk_id"] is None and values["doc_id"] is None and values["text"] is None:
        raise HitError(f"{where} is {_shown(result)}; {EXPECTED}")
    values["start"], values["end"] = _offsets(values, where)
    return Hit(**{**values, "score": _score(values["score"], where)})


def _offsets(values: Mapping[str, Any], where: str) -> tuple[int | None, int | None]:
    start, end = values["start"], values["end"]
    if start is None and end is None:
        return None, None
    if not _is_count(start) or not _is_count(end) or not 0 <= start < end:
        raise HitError(
            f"{where}: start is {_shown(start)} and end is {_shown(end)}; expected characters, "
            "0 <= start < end"
        )
    if values["doc_id"] is None and values["chunk_id"] is None:
        raise HitError(f"{where}: start and end come without the doc_id that they are of")
    return int(start), int(end)


def _score(value: Any, where: str) -> float | None:
    if value is None:
        return None
    try:
        is_number = not isinstance(value, bool | str | bytes)
        score = float(value) if is_number else math.nan
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise HitError(f"{where}: the score is {_shown(value)}; expected a finite number")
    return score


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as JSON can hold it
        return False
    return True


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
