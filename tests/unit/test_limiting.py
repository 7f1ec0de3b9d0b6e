"""The limit of calls in flight, against simulated servers on a clock of their own."""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable

from tasks.limiting import FIRST_LIMIT, Limiter, Place

LATENCY = 0.2


class Simulation:
    """Calls that take simulated time; a call that is turned away is sent again a second later."""

    def __init__(self, turns_away: Callable[[int], bool], maximum: int, latency: float = LATENCY):
        self.now = 0.0
        self.limiter = Limiter(maximum, clock=lambda: self.now)
        self.turns_away = turns_away  # of the number of calls in flight
        self.latency = latency
        self.n_turned_away = 0
        self.limits: list[int] = []

    async def run(self, n_calls: int) -> float:
        """Seconds until all calls were answered."""
        waiting: list[tuple[float, int, str, Place | None]] = []
        places: deque[Place] = deque()

        async def ask() -> None:
            places.append(await self.limiter.acquire())

        tasks = {asyncio.ensure_future(ask()) for _ in range(n_calls)}
        number = n_answered = n_served = 0
        while n_answered < n_calls:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            while places:
                place, number = places.popleft(), number + 1
                if self.turns_away(n_served + 1):
                    heapq.heappush(waiting, (self.now + 0.001, number, "away", place))
                else:
                    n_served += 1
                    heapq.heappush(waiting, (self.now + self.latency, number, "answer", place))
            self.now, _, what, place = heapq.heappop(waiting)
            if what == "again":
                tasks.add(asyncio.ensure_future(ask()))
                continue
            self.limiter.release(place, was_turned_away=what == "away")
            self.limits.append(self.limiter.limit)
            if what == "away":
                self.n_turned_away += 1
                heapq.heappush(waiting, (self.now + 1.0, number, "again", None))
            else:
                n_served -= 1
                n_answered += 1
        return self.now


def test_the_limit_settles_below_what_a_server_turns_away() -> None:
    simulation = Simulation(lambda n: n > 32, maximum=64)
    seconds = asyncio.run(simulation.run(3000))
    assert seconds <= 1.3 * 3000 * LATENCY / 32
    assert simulation.n_turned_away < 150
    assert 28 <= sorted(simulation.limits)[len(simulation.limits) // 2] <= 36


def test_calls_turned_away_at_random_leave_the_limit_alone() -> None:
    dice = random.Random(1)
    simulation = Simulation(lambda n: dice.random() < 0.1, maximum=32)
    seconds = asyncio.run(simulation.run(3000))
    assert seconds <= 2 * 3000 * LATENCY / 32
    assert max(simulation.limits) == 32
    assert sorted(simulation.limits)[len(simulation.limits) // 2] == 32


def test_half_the_calls_turned_away_at_random_do_not_bring_the_limit_to_one() -> None:
    dice = random.Random(2)
    simulation = Simulation(lambda n: dice.random() < 0.5, maximum=32)
    asyncio.run(simulation.run(3000))
    assert max(simulation.limits[1500:]) >= 16


def test_a_server_that_becomes_narrower_is_followed() -> None:
    widths = iter([32] * 1500 + [8] * 100_000)
    simulation = Simulation(lambda n: n > next(widths), maximum=32)
    asyncio.run(simulation.run(2500))
    assert simulation.limiter.limit <= 12


def test_the_limit_starts_low_and_never_passes_the_maximum() -> None:
    simulation = Simulation(lambda n: False, maximum=48)
    asyncio.run(simulation.run(1000))
    assert simulation.limits[0] == FIRST_LIMIT
    assert max(simulation.limits) == 48
    assert Limiter(2).limit == 2


def test_a_server_with_one_place_is_not_flooded() -> None:
    # It answers one call after the other: twice as many in flight take twice as long.
    limiter_limits = []
    simulation = Simulation(lambda n: False, maximum=64)

    async def serve_one_by_one() -> None:
        limiter = simulation.limiter
        for _ in range(400):
            places = [await limiter.acquire() for _ in range(limiter.limit)]
            for place in places:
                simulation.now += LATENCY
                limiter.release(place, was_turned_away=False)
            limiter_limits.append(limiter.limit)

    asyncio.run(serve_one_by_one())
    assert max(limiter_limits) <= 16


def test_a_cancelled_wait_gives_its_place_to_the_next() -> None:
    async def scenario() -> int:
        limiter = Limiter(1)
        place = await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        second = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        limiter.release(place, was_turned_away=False)
        await asyncio.wait_for(second, 1)
        return limiter.in_flight

    assert asyncio.run(scenario()) == 1
