"""Ids of documents and queries: strings, always."""

from __future__ import annotations

import hashlib

DIGEST_DIGITS = 16


def identifier(value: object) -> str:
    """An id as given; a whole number becomes its decimal text.

    Raises:
        ValueError: blank, or of another type. A fraction has no single way to be written.
    """
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("is blank; expected an id")
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        raise ValueError(f"is the number {value!r}; ids are strings: write it in quotes")
    raise ValueError(f"is {value!r}; expected a string")


def identifier_of_text(text: str) -> str:
    """For a text that brings no id: the first 16 digits of its sha256, as UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
