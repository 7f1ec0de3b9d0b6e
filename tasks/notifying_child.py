"""The child process that sends one notification: JSON on stdin, one JSON line a receiver on stdout.

Run as a script by ``tasks.notifying``, with ``python -I``: it may import the standard library and
apprise only. A receiver may take for ever, and its URL holds a password: what is printed is one of
a few sentences, never what the library said.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import threading
from contextvars import ContextVar
from typing import Any

_STATUS = re.compile(r"error=(\d{3})\b")


_RECEIVER: ContextVar[int] = ContextVar("receiver")  # apprise carries it into its own threads


class _Overheard(logging.Handler):
    """What the library logs of each receiver about why it failed, as far as it is no secret."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.reasons: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        receiver, message = _RECEIVER.get(-1), record.getMessage()
        status = _STATUS.search(message)
        if status:
            self.reasons[receiver] = f"it answered {status[1]}"
        elif "onnection" in message:
            self.reasons[receiver] = "it could not be reached"


def main() -> None:
    """Send, or only look whether each URL is one that apprise knows."""
    overheard = _Overheard()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [overheard], False
    logger.setLevel(logging.WARNING)
    asked: dict[str, Any] = json.load(sys.stdin)
    lock = threading.Lock()

    def say(index: int, is_fine: bool, reason: str) -> None:
        with lock:
            print(json.dumps([index, is_fine, reason]), flush=True)  # noqa: T201 - the answer

    def serve(index: int, url: str) -> None:
        from apprise import Apprise, NotifyFormat

        receiver = Apprise()
        if not receiver.add(url):
            say(index, False, "its URL is of no kind that apprise knows")
            return
        if asked["is_check"]:
            say(index, True, "")
            return
        is_fine = bool(
            receiver.notify(title=asked["title"], body=asked["body"], body_format=NotifyFormat.TEXT)
        )
        reason = overheard.reasons.get(index, "it did not take the message")
        say(index, is_fine, "" if is_fine else reason)

    def guarded(index: int, url: str) -> None:
        _RECEIVER.set(index)
        try:
            serve(index, url)
        except Exception as error:
            say(index, False, f"apprise stopped with {type(error).__name__}")

    threads = [
        threading.Thread(target=guarded, args=(index, url), daemon=True)
        for index, url in enumerate(asked["urls"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(asked["seconds"])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(0)  # what hangs is left behind


if __name__ == "__main__":
    main()
