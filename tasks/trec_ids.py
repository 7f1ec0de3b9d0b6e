"""Ids in TREC files: white space, control characters and ``%`` are percent-encoded there."""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import quote

_ENCODED = re.compile(r"[%\s\x00-\x1f\x7f]")
_LAST_BLANK = "\u3000"


def encode_id(text: str) -> str:
    """Percent-encode what splits a line of a TREC file, and ``%`` itself."""
    return _ENCODED.sub(lambda match: quote(match.group(), safe=""), text)


def decode_id(text: str) -> str:
    """Undo ``encode_id``; what it never writes, such as ``%61`` or ``%c2``, stays as it is."""
    if "%" not in text:
        return text
    characters = _characters()
    return _sequences().sub(lambda match: characters[match.group()], text)


@cache
def _characters() -> dict[str, str]:
    """Every sequence that ``encode_id`` writes, and the character that it stands for."""
    possible = map(chr, range(ord(_LAST_BLANK) + 1))
    return {encode_id(character): character for character in possible if _ENCODED.match(character)}


@cache
def _sequences() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _characters())))
