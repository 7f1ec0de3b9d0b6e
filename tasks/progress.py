"""Progress for a person who watches: one line on stderr that is written over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

BAR_WIDTH = 20


def progress_writer(is_shown: bool) -> Callable[[str], None] | None:
    """A function that shows its text on the line it wrote before; None when nobody watches."""
    if not is_shown:
        return None

    def write(text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()

    return write


def progress_bar(say: Callable[[str], None], what: str, n_items: int) -> Callable[[int], None]:
    """A function that is told how many items are done, and draws a bar ten times a second."""
    drawn_at = -1.0

    def tell(n_done: int) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if n_done < n_items and now - drawn_at < 0.1:
            return
        drawn_at = now
        n_full = BAR_WIDTH * n_done // max(1, n_items)
        bar = "█" * n_full + "░" * (BAR_WIDTH - n_full)
        say(f"{what} {bar} {n_done} of {n_items}" + ("\n" if n_done >= n_items else ""))

    return tell
