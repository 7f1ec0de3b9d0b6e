"""The client of OpenAI-compatible endpoints: every call is answered once, stored, and never again.

One limiter an endpoint, one rule for waiting, one deadline and one budget. What cannot be had is a
``Failure``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cached_property
from typing import Any, TypeVar

from schemas.endpoints import Endpoint
from tasks.call_logs import CallLog
from tasks.calls import Answered, Call, CallStore
from tasks.judging import Failure
from tasks.looping import BackgroundLoop, map_concurrently
from tasks.pricing import Ledger
from tasks.progress import progress_bar
from tasks.replies import InvalidReplyError
from tasks.sending import MOST_ROOM, Sender, Tries
from tasks.troubles import Completion, Trouble, wait_before

Given = TypeVar("Given")
Got = TypeVar("Got")


class Completer:
    """Asks one model behind one endpoint; close it, or use it in a ``with`` statement.

    Args:
        endpoint: where and whom to ask.
        store: answered calls.
        ledger: the run's budget.
        log: gets a row a call.
        deadline: seconds from now; later calls are not sent.
        say: is told how far a batch is.
        prompt_version: stands in the log.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        store: CallStore,
        *,
        ledger: Ledger | None = None,
        log: CallLog | None = None,
        deadline: float = 3600.0,
        say: Callable[[str], None] | None = None,
        prompt_version: str = "",
    ):
        self.endpoint = endpoint
        self.store = store
        self.log = log or CallLog(())
        self.sender = Sender(endpoint, store, ledger or Ledger(), deadline)
        self._say = say
        self._prompt_version = prompt_version
        self._pending: dict[str, asyncio.Task[Any]] = {}

    def __enter__(self) -> Completer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the loop's thread; the store stays open."""
        loop = self.__dict__.pop("_loop", None)
        if loop is not None:
            loop.run(self.sender.poster.close())
            loop.close()

    def run(
        self,
        function: Callable[[Given], Awaitable[Got]],
        items: Sequence[Given],
        *,
        purpose: str,
    ) -> list[Got]:
        """One outcome an item, in order; calls run side by side."""
        tell = None if self._say is None else progress_bar(self._say, purpose, len(items))
        # Calls that wait for another try hold no place, so more are under way than in flight.
        width = 3 * self.endpoint.max_concurrency
        return self._loop.run(map_concurrently(function, items, width=width, tell=tell))

    def run_one(self, coroutine: Coroutine[Any, Any, Got]) -> Got:
        """Wait for one coroutine that uses this completer."""
        return self._loop.run(coroutine)

    async def post(self, body: dict[str, Any]) -> Any:
        """Send one request as it stands: for a probe, which is neither stored nor budgeted."""
        return await self.sender.poster.post(body, self.endpoint.timeout)

    async def ask(self, call: Call, read: Callable[[str], Got | Failure]) -> Got | Failure:
        """The answer to a call: the stored one, else the endpoint's, stored at once.

        Args:
            call: what to ask.
            read: makes the answer of a reply; it raises InvalidReplyError where it cannot. A
                ``Failure`` that it returns is not stored: the next run asks again.
        """
        key = call.key(self.endpoint)
        running = self._pending.get(key)
        if running is None:
            running = asyncio.ensure_future(self._answer(call, key, read))
            self._pending[key] = running
            running.add_done_callback(lambda _: self._pending.pop(key, None))
        outcome: Got | Failure = await running
        return outcome

    async def _answer(
        self, call: Call, key: str, read: Callable[[str], Got | Failure]
    ) -> Got | Failure:
        stored = self.store.get(key)
        if stored is not None:
            try:
                value = read(stored.reply)
            except InvalidReplyError:
                pass  # an earlier version could read it; ask again
            else:
                self._note(call, key, stored, n_tries=0)
                return value
        return await self._fetch(call, key, read)

    async def _fetch(
        self, call: Call, key: str, read: Callable[[str], Got | Failure]
    ) -> Got | Failure:
        """Send a call until it is answered or cannot be."""
        tries = Tries(self.endpoint.max_output_tokens)
        while True:
            try:
                completion = await self.sender.send(call, tries)
                value = self._read(completion, read)
            except Trouble as trouble:
                failure = await self._recover(trouble, tries)
                if failure is not None:
                    self._note(call, key, tries.answered(""), n_tries=tries.n_sent, failed=failure)
                    return failure
                continue
            answered = tries.answered(completion.content)
            if isinstance(value, Failure):
                self._note(call, key, answered, n_tries=tries.n_sent, failed=value)
                return value
            self.store.put(key, call, self.endpoint, answered)
            self.sender.note_answer()
            self._note(call, key, answered, n_tries=tries.n_sent)
            return value

    def _read(self, completion: Completion, read: Callable[[str], Got]) -> Got:
        if completion.is_cut:
            raise Trouble("truncated", "the reply ran out of room", remedy="wait")
        try:
            return read(completion.content)
        except InvalidReplyError as error:
            raise Trouble("invalid_reply", str(error), remedy="wait") from None

    async def _recover(self, trouble: Trouble, tries: Tries) -> Failure | None:
        """Prepare another sending, waiting if need be; a Failure where none can help."""
        sender = self.sender
        failure = Failure(trouble.status, sender.poster.without_key(trouble.message))
        if trouble.remedy == "adapt" and sender.adapt(trouble.message, tries):
            return None
        if trouble.remedy == "wait" and trouble.status == "truncated":
            tries.room *= 2
            return failure if tries.room > MOST_ROOM * self.endpoint.max_output_tokens else None
        if trouble.remedy != "wait" or tries.are_over(trouble, self.endpoint):
            sender.note_given_up(trouble, failure)
            return failure
        wait = wait_before(tries.n_failed, trouble.retry_after)
        if wait >= sender.seconds_left:
            return Failure(
                failure.status,
                f"{failure.message}; to wait {wait:.0f} s is more than is left of the stage's "
                f"{sender.seconds:.0f} s (summary.deadline)",
            )
        await asyncio.sleep(wait)
        return None

    def _note(
        self,
        call: Call,
        key: str,
        answered: Answered,
        *,
        n_tries: int,
        failed: Failure | None = None,
    ) -> None:
        self.log.add(
            *(call, self.endpoint, self._prompt_version),
            key=key,
            answered=answered,
            n_tries=n_tries,
            failure=failed,
        )

    @cached_property
    def _loop(self) -> BackgroundLoop:
        return BackgroundLoop()
