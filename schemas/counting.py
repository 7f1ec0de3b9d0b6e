"""A number with its noun, as a message says it."""

from __future__ import annotations

from typing import Any


def counted(n: Any, noun: str, verb: tuple[str, str] | None = None) -> str:
    """Such as ``1 query``, ``1,200 queries`` or ``0 queries were``.

    Args:
        n: how many, a whole number; also a figure, which is JSON to the checker of types.
        noun: of one, with a regular plural; words may stand before it.
        verb: what follows, for one and for none or several.
    """
    is_one = n == 1
    is_consonant = noun[-2] not in "aeiou"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and is_consonant else f"{noun}s"
    words = [f"{n:,}", noun if is_one else plural]
    if verb is not None:
        words.append(verb[0] if is_one else verb[1])
    return " ".join(words)
