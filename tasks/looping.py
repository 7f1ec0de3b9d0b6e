"""An event loop in a thread of its own: stages are plain functions, and calls are not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

Given = TypeVar("Given")
Got = TypeVar("Got")


class BackgroundLoop:
    """Runs coroutines for callers of any thread, inside an event loop or not."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="rankhouse-calls", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Got]) -> Got:
        """Wait for a coroutine; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        if self._loop.is_closed():
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def map_concurrently(
    function: Callable[[Given], Awaitable[Got]],
    items: Sequence[Given],
    *,
    width: int,
    tell: Callable[[int], None] | None = None,
) -> list[Got]:
    """One outcome an item, in order, at most ``width`` under way: memory does not grow with items.

    Args:
        function: of one item.
        items: what it is called with.
        width: how many are under way at once.
        tell: is given how many are done.
    """
    outcomes: dict[int, Got] = {}
    remaining = iter(range(len(items)))

    async def work() -> None:
        for index in remaining:
            outcomes[index] = await function(items[index])
            if tell is not None:
                tell(len(outcomes))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(width, len(items))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [outcomes[index] for index in range(len(items))]


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
