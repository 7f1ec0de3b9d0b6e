"""What a reply says: JSON wherever it stands in the text, and its parts by index.

A server without structured output wraps JSON in fences, reasoning or chatter. Nothing is guessed
from it: an entry that is missing, comes twice with two values or is of another type is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tasks.calls import write_text

_REASONING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
MOST_STARTS = 50
"""Brackets at which JSON is looked for in a reply."""

_YES = (True, 1, "1", "yes", "true")
_NO = (False, 0, "0", "no", "false")


class InvalidReplyError(Exception):
    """A reply that cannot be used; the message says why."""


def read_json(text: str) -> Any:
    """The first JSON object or list in a reply.

    Raises:
        InvalidReplyError: there is none.
    """
    stripped = without_reasoning(text)
    if not stripped:
        raise InvalidReplyError("the reply is empty")
    for candidate in (stripped, *_FENCED.findall(stripped)):
        value = _loads(candidate)
        if isinstance(value, dict | list):
            return value
    decoder = json.JSONDecoder()
    starts = [match.start() for match in re.finditer(r"[\[{]", stripped)]
    for start in starts[:MOST_STARTS]:
        try:
            value, _ = decoder.raw_decode(stripped, start)
        except (ValueError, RecursionError):
            continue
        if value:
            return value
    raise InvalidReplyError(f"the reply is not JSON: {_quote(text)}")


def without_reasoning(text: str) -> str:
    """The reply without what a model thought aloud before it."""
    return _REASONING.sub("", text).strip()


def read_texts(text: str, name: str) -> list[str]:
    """The strings of the list ``name``, each once, in order; blank ones are left out.

    Raises:
        InvalidReplyError: there is no such list.
    """
    found: dict[str, str] = {}
    for item in _list_of(read_json(text), name):
        if isinstance(item, str) and item.strip():
            plain = write_text(" ".join(item.split()))
            found.setdefault(plain.casefold(), plain)
    return list(found.values())


def is_empty_list(text: str, name: str) -> bool:
    """Whether a reply gives the list ``name`` with nothing in it."""
    return not _list_of(read_json(text), name)


def read_entries(text: str, name: str, n_expected: int) -> dict[int, dict[str, Any]]:
    """The entries of the list ``name`` by their ``index``, from 0.

    A list of ``n_expected`` plain values in place of entries counts as in order. An index that is
    out of range, or stands twice with different entries, is left out.

    Raises:
        InvalidReplyError: there is no such list.
    """
    items = _list_of(read_json(text), name)
    if len(items) == n_expected and not any(isinstance(item, dict) for item in items):
        return {index: {"value": item} for index, item in enumerate(items)}
    found: dict[int, dict[str, Any]] = {}
    conflicting: set[int] = set()
    for item in items:
        index = _index_of(item)
        if index is None or not 0 <= index < n_expected:
            continue
        if index in found and found[index] != item:
            conflicting.add(index)
        found[index] = item
    return {index: entry for index, entry in found.items() if index not in conflicting}


def read_answer(value: object) -> str | None:
    """The answer as "1" or "0"; None: it is neither."""
    plain = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(plain, str | bool | int) or isinstance(plain, float):
        return None
    return "1" if plain in _YES else "0" if plain in _NO else None


def read_text(entry: dict[str, Any], *names: str) -> str | None:
    """The first of these fields that holds text; None: none does."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, str) and value.strip():
            return write_text(" ".join(value.split()))
    return None


def _list_of(value: Any, name: str) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        items = value.get(name)
        if isinstance(items, list):
            return items
        lists = [item for item in value.values() if isinstance(item, list)]
        if len(lists) == 1:
            return lists[0]
    raise InvalidReplyError(f"the reply holds no list {name!r}: {_quote(json.dumps(value))}")


def _index_of(item: Any) -> int | None:
    index = item.get("index") if isinstance(item, dict) else None
    if isinstance(index, str) and re.fullmatch(r"\s*\d{1,9}\s*", index):
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _quote(text: str) -> str:
    shown = " ".join(text[:200].split())
    return f"{shown[:80]!r}" + ("…" if len(text) > 80 else "")
