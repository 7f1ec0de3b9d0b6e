"""Split a long text window by window: the splitters' time grows with the square of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Span = tuple[int, int]  # characters, half open
Split = Callable[[str], list[Span]]
Restart = Callable[[str, list[int]], int]

WIDE = 32_768
"""Characters of a window at least."""

NARROW = 1_024
"""Characters of a window at least, where a line is longer than that."""


def split_in_windows(
    text: str, split: Split, *, reach: int, wide: int = WIDE, restart: Restart | None = None
) -> Iterator[Span]:
    """The spans of ``text``, as ``split`` makes them from left to right.

    Each window begins where the first span began that the last window's end could have shaped, so
    a text is split as if it were seen whole, unless a splitter looks further than a window.

    Args:
        text: any length.
        split: gives the spans of a text in order, each beginning after the one before; what lies
            between them is white space.
        reach: characters that one span may hold. A window is at least four times as wide.
        wide: characters of a window at least, where lines are short.
        restart: given a window and where its spans begin that could be the next window's first,
            tells which of them to take; the last one when absent.
    """
    position = 0
    while position < len(text):
        window = _window(text, position, reach, wide)
        piece = text[position : position + window]
        spans = split(piece)
        if position + window >= len(text):
            yield from ((start + position, end + position) for start, end in spans)
            return
        n_kept = max(1, sum(end <= window - reach for _, end in spans))
        if restart is not None and len(spans) > n_kept > 1:
            n_kept = 1 + restart(piece, [start for start, _ in spans[1 : n_kept + 1]])
        yield from ((start + position, end + position) for start, end in spans[:n_kept])
        if len(spans) > n_kept:
            position += spans[n_kept][0]
        else:
            position += spans[-1][1] if spans else window


def _window(text: str, position: int, reach: int, wide: int) -> int:
    narrow, wide = max(NARROW, 4 * reach), max(wide, 4 * reach)
    lines = text[position : position + wide].split("\n")
    return narrow if max(map(len, lines)) > narrow else wide
