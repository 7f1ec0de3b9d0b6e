"""Fenced code in Markdown (CommonMark 0.31, section 4.5), where ``#`` is no heading."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def fenced_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Spans of characters, half open, from an opening fence to after the line of its closing one.

    A fence that is never closed reaches the end of the text.
    """
    offset, opening, begin = 0, "", 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark is not None and not opening:
            if mark.group(1)[0] == "~" or "`" not in mark.group(2):
                opening, begin = mark.group(1), offset
        elif mark is not None and mark.group(1).startswith(opening) and not mark.group(2).strip():
            yield begin, offset + len(line)
            opening = ""
        offset += len(line)
    if opening:
        yield begin, len(text)
