"""How many calls one endpoint answers at once: found out while calling it.

The limit starts low and doubles for as long as that does no harm. A share of calls is turned away
(429, 503, a time-out). Where the share rises with the limit, the limit goes back to where it did
not; a share that is the same at any limit (a server that turns away one call in ten at random)
leaves the limit alone. Everything happens on one event loop: nothing here is locked.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

FIRST_LIMIT = 4
PRIOR_TURNED_AWAY, PRIOR_CALLS = 0.5, 10.0  # before anything is known: one in twenty
FIRST_HOLD, LONGEST_HOLD = 2.0, 60.0  # seconds until a limit that did harm is tried again
MOST_AT_RANDOM = 0.6  # where more are turned away, the limit is what does it
NO_GAIN = 1.7  # twice the limit for 1.7 times the latency: the calls only wait elsewhere


@dataclass(frozen=True, slots=True)
class Place:
    """The right to have one call in flight."""

    window: int
    taken_at: float


class Limiter:
    """Lets at most ``limit`` calls be in flight, and moves ``limit`` below ``maximum``.

    Args:
        maximum: the most calls in flight, ever.
        clock: seconds, monotonic; for tests.
    """

    def __init__(self, maximum: int, clock: Callable[[], float] = time.monotonic):
        self.maximum = maximum
        self.limit = min(FIRST_LIMIT, maximum)
        self.in_flight = 0
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turned_away = PRIOR_TURNED_AWAY  # over windows that did no harm
        self._calls = PRIOR_CALLS
        self._good = self.limit  # the largest limit that did no harm
        self._harmful = maximum + 1  # the smallest that did
        self._hold = FIRST_HOLD
        self._held_until = -math.inf
        self._share_before: float | None = None  # at the limit that was just left for harm
        self._latency_before: float | None = None  # at the limit that was doubled
        self._window = 0
        self._begin_window()

    async def acquire(self) -> Place:
        """Wait for a place; first come, first served."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return self._place()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.in_flight -= 1
                self._wake()
            raise
        return self._place()

    def release(self, place: Place, *, was_turned_away: bool) -> None:
        """Give the place back and say how the call went; older windows teach nothing any more."""
        self.in_flight -= 1
        if place.window == self._window:
            self._n_window += 1
            self._n_turned_away += was_turned_away
            self._seconds += 0.0 if was_turned_away else self._clock() - place.taken_at
            if self._is_harmful():
                self._shrink()
            elif self._n_window >= 2 * self.limit and self._n_window >= 8:
                self._end_window()
        self._wake()

    def _place(self) -> Place:
        self._n_begun += 1
        return Place(self._window, self._clock())

    def _is_harmful(self) -> bool:
        """Whether more were turned away than the share at smaller limits explains.

        Of the calls begun, not of those that ended: to be turned away takes less time.
        """
        share = self._turned_away / self._calls
        expected = self._n_begun * share
        spread = math.sqrt(expected * (1 - share))
        return self._n_turned_away >= 4 and self._n_turned_away > expected + 3 * spread + 3

    def _shrink(self) -> None:
        share = self._n_turned_away / self._n_begun
        before = self._share_before
        if before is not None and 0.7 * before < share < MOST_AT_RANDOM:
            # As many at a smaller limit: the limit is not what turns them away.
            self._turned_away, self._calls = self._n_turned_away, self._n_begun
            self._share_before = None
            self._harmful = self.maximum + 1
            self._begin_window()
            return
        self._share_before = share
        self._harmful = self.limit
        if self._good >= self.limit:  # it did no harm before, but it does now
            self._good = max(1, self.limit // 2)
        self.limit = self._good
        self._latency_before = None
        self._wait_before_growing()
        self._begin_window()

    def _end_window(self) -> None:
        """A window that did no harm: learn its share, and try a larger limit."""
        self._turned_away += self._n_turned_away
        self._calls += self._n_window
        self._share_before = None
        self._good = self.limit
        latency = self._seconds / max(1, self._n_window - self._n_turned_away)
        gains = self._latency_before is None or latency < NO_GAIN * self._latency_before
        self._latency_before = None
        if self._clock() >= self._held_until:
            if not gains:
                self.limit = self._good = max(1, self.limit // 2)
                self._wait_before_growing()
            elif 2 * self.limit < self._harmful or self._harmful > self.maximum:
                self._latency_before = latency
                self.limit = min(2 * self.limit, self.maximum)
            else:
                step = max(1, (self._harmful - self.limit) // 4)
                self.limit = min(self.limit + step, self.maximum)
        self._begin_window()

    def _wait_before_growing(self) -> None:
        self._held_until = self._clock() + self._hold
        self._hold = min(2 * self._hold, LONGEST_HOLD)

    def _begin_window(self) -> None:
        self._window += 1
        self._n_begun = 0
        self._n_window = 0
        self._n_turned_away = 0
        self._seconds = 0.0  # of calls that were answered

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
