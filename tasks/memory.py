"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Let allocators return what they keep for later: a stage begins with what it needs.

    Without effect where the C library has no ``malloc_trim`` (it is glibc's).
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if (trim := _malloc_trim()) is not None:
        trim(0)


def freeze_libraries() -> None:
    """Spare every collection a look at what is there now: the libraries, which stay.

    Once a process: what is frozen is never collected, and later runs leave more than libraries.
    """
    if not gc.get_freeze_count():
        gc.freeze()


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
