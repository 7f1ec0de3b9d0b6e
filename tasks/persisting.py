"""Asking a server for one thing until it answers or cannot: a place, the waits, the deadline.

For whatever is not a chat completion, which ``tasks/completing.py`` asks for in its own way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from schemas.endpoints import Connection
from tasks.limiting import Limiter
from tasks.sending import HOPELESS_AFTER, MOST_INVALID, MOST_TIMEOUTS
from tasks.troubles import Trouble, wait_before

Got = TypeVar("Got")


class Persister:
    """Keeps asking one server; everything happens on one event loop.

    Args:
        connection: where, how often and how many at once.
        deadline: seconds from now; later nothing is sent.
        section: of the configuration, for messages.
    """

    def __init__(self, connection: Connection, *, deadline: float, section: str):
        self._connection = connection
        self._deadline = deadline
        self._section = section
        self._ends = time.monotonic() + deadline
        self._limiter = Limiter(connection.max_concurrency)
        self._stopped: Trouble | None = None
        self._n_given_up = 0  # in a row
        self.n_sent = 0

    async def ask(self, send: Callable[[float], Awaitable[Got]]) -> Got:
        """The answer of ``send``, which is called with the seconds that it may take.

        Raises:
            Trouble: it was given up: of the last sending, or nothing is sent any more.
        """
        n_failed = n_timeouts = n_invalid = 0
        while True:
            try:
                answer = await self._send(send)
            except Trouble as trouble:
                n_failed += 1
                n_timeouts += trouble.status == "timeout"
                n_invalid += trouble.code is None and trouble.status == "invalid_reply"
                is_over = (
                    trouble.remedy != "wait"
                    or n_failed >= self._connection.attempts
                    or n_timeouts >= MOST_TIMEOUTS
                    or n_invalid >= MOST_INVALID
                )
                if is_over:
                    self._note_given_up(trouble)
                    raise
                await self._wait(n_failed, trouble)
                continue
            self._n_given_up = 0
            return answer

    async def _send(self, send: Callable[[float], Awaitable[Got]]) -> Got:
        place = await self._limiter.acquire()
        was_turned_away = False
        try:
            if self._stopped is not None:
                raise self._stopped
            left = self._ends - time.monotonic()
            if left <= 0:
                raise self._too_late("timeout", "")
            self.n_sent += 1
            return await send(min(self._connection.timeout, left))
        except Trouble as trouble:
            was_turned_away = trouble.was_turned_away
            raise
        finally:
            self._limiter.release(place, was_turned_away=was_turned_away)

    async def _wait(self, n_failed: int, trouble: Trouble) -> None:
        seconds = wait_before(n_failed, trouble.retry_after)
        if seconds >= self._ends - time.monotonic():
            raise self._too_late(trouble.status, f"{trouble.message}; ") from None
        await asyncio.sleep(seconds)

    def _too_late(self, status: str, before: str) -> Trouble:
        message = f"{before}the stage's {self._deadline:.0f} s ({self._section}.deadline) were over"
        return Trouble("timeout", message, remedy="none")

    def _note_given_up(self, trouble: Trouble) -> None:
        """Where nothing can work, or one after the other was given up, the rest is not sent."""
        if self._stopped is not None or trouble.remedy in ("adapt", "none"):
            return
        self._n_given_up += 1
        if trouble.remedy == "stop" or self._n_given_up >= HOPELESS_AFTER:
            many = "" if trouble.remedy == "stop" else f"as {HOPELESS_AFTER} before it had: "
            self._stopped = Trouble(
                trouble.status,
                f"not sent, {many}{trouble.message}",
                remedy="none",
                code=trouble.code,
            )
