"""Progress for a person who watches: one line on stderr that is written over."""

from __future__ import annotations

import sys
from collections.abc import Callable


def progress_writer(is_shown: bool) -> Callable[[str], None] | None:
    """A function that shows its text on the line it wrote before; None when nobody watches."""
    if not is_shown:
        return None

    def write(text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()

    return write
