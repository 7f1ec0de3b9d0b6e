"""The client of OpenAI-compatible endpoints: every call is answered once, stored, and never again.

One limiter an endpoint, one rule for waiting, one deadline and one budget. What cannot be had is a
``Failure``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from schemas.endpoints import Endpoint
from tasks.abilities import Abilities, adapt, body_of, first_guess, read_abilities
from tasks.call_logs import CallLog
from tasks.calls import Answered, Call, CallStore, Usage, write_text
from tasks.judging import Failure
from tasks.limiting import Limiter
from tasks.looping import BackgroundLoop, map_concurrently
from tasks.posting import Poster, usage_of
from tasks.pricing import Ledger, estimate_tokens
from tasks.progress import progress_bar
from tasks.replies import InvalidReplyError
from tasks.troubles import Completion, Trouble, completion_of, wait_before

Given = TypeVar("Given")
Got = TypeVar("Got")

MOST_ROOM = 4  # times max_output_tokens, for a reply that was cut
MOST_TIMEOUTS = 2  # of one call
MOST_INVALID = 2  # replies of one call that cannot be used
HOPELESS_AFTER = 10  # calls in a row that were given up without any answer in between
EXPECTED_COMPLETION = 300  # tokens, until answers have been seen


@dataclass
class Tries:
    """What was done for one call so far."""

    room: int
    n_sent: int = 0
    n_failed: int = 0  # sendings that were followed by a wait
    n_timeouts: int = 0
    n_invalid: int = 0
    usage: Usage = field(default_factory=Usage)
    began: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.monotonic)

    def answered(self, reply: str) -> Answered:
        """The reply with what it took."""
        return Answered(reply, self.usage, self.began, time.monotonic() - self.clock)


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
        self.ledger = ledger or Ledger()
        self.log = log or CallLog(())
        self._deadline = time.monotonic() + deadline
        self._seconds = deadline
        self._say = say
        self._prompt_version = prompt_version
        self._poster = Poster(endpoint)
        self._limiter = Limiter(endpoint.max_concurrency)
        self._pending: dict[str, asyncio.Task[Any]] = {}
        self._stopped: Failure | None = None
        self._n_given_up = 0
        self._abilities = read_abilities(store.get_abilities(endpoint)) or first_guess(endpoint)

    def __enter__(self) -> Completer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the loop's thread; the store stays open."""
        loop = self.__dict__.pop("_loop", None)
        if loop is not None:
            loop.run(self._poster.close())
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
        return await self._poster.post(body, self.endpoint.timeout)

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
                completion = await self._send(call, tries)
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
            self._n_given_up = 0
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
        failure = Failure(trouble.status, self._poster.without_key(trouble.message))
        if trouble.remedy == "stop":
            self._stopped = self._stopped or failure
        if trouble.remedy == "adapt" and self._adapt(trouble.message):
            return None
        if trouble.remedy != "wait":
            return failure
        if trouble.status == "truncated":
            tries.room *= 2
            is_over = tries.room > MOST_ROOM * self.endpoint.max_output_tokens
            return failure if is_over else None
        if trouble.code is None and trouble.status == "invalid_reply":
            tries.n_invalid += 1
        tries.n_timeouts += trouble.status == "timeout"
        tries.n_failed += 1
        if (
            tries.n_failed >= self.endpoint.attempts
            or tries.n_timeouts >= MOST_TIMEOUTS
            or tries.n_invalid >= MOST_INVALID
        ):
            self._give_up(trouble, failure)
            return failure
        wait = wait_before(tries.n_failed, trouble.retry_after)
        left = self._deadline - time.monotonic()
        if wait >= left:
            return Failure(
                failure.status,
                f"{failure.message}; it asks to wait {wait:.0f} s, and the stage's "
                f"{self._seconds:.0f} s end sooner",
            )
        await asyncio.sleep(wait)
        return None

    def _give_up(self, trouble: Trouble, failure: Failure) -> None:
        """Where call after call is given up, the rest need not be tried."""
        if trouble.status in ("timeout", "rate_limited") or trouble.code is not None:
            self._n_given_up += 1
        if self._n_given_up >= HOPELESS_AFTER and self._stopped is None:
            self._stopped = Failure(
                failure.status, f"not sent: {HOPELESS_AFTER} calls before it: {failure.message}"
            )

    def _adapt(self, complaint: str) -> bool:
        """Ask otherwise where a 400 complains about a parameter, and record how."""
        adapted = adapt(self._abilities, complaint)
        if adapted is None:
            return False
        self.use(adapted)
        return True

    @property
    def abilities(self) -> Abilities:
        """How the model is asked."""
        return self._abilities

    def use(self, abilities: Abilities) -> None:
        """Ask this way from now on, and in later runs."""
        self._abilities = abilities
        self.store.put_abilities(self.endpoint, abilities.to_json())

    async def _send(self, call: Call, tries: Tries) -> Completion:
        """Send a call once.

        Raises:
            Trouble: there is no reply that can be read.
        """
        place = await self._limiter.acquire()
        was_turned_away = False
        try:
            left = self._deadline - time.monotonic()
            if self._stopped is not None:
                raise Trouble(self._stopped.status, self._stopped.message, remedy="none")
            if left <= 0:
                message = f"the stage's {self._seconds:.0f} s (summary.deadline) were over"
                raise Trouble("timeout", message, remedy="none")
            return await self._send_within(call, tries, min(self.endpoint.timeout, left))
        except Trouble as trouble:
            was_turned_away = trouble.was_turned_away
            raise
        finally:
            self._limiter.release(place, was_turned_away=was_turned_away)

    async def _send_within(self, call: Call, tries: Tries, seconds: float) -> Completion:
        n_prompt = sum(estimate_tokens(content) for _, content in call.messages)
        reserved = self.ledger.reserve(self.endpoint.model, n_prompt, EXPECTED_COMPLETION)
        if reserved is None:
            raise Trouble("over_budget", self.ledger.message, remedy="none")
        usage: Usage | None = None
        tries.n_sent += 1
        try:
            body = body_of(call, self.endpoint, self._abilities, tries.room)
            reply = await self._poster.post(body, seconds)
            usage = usage_of(reply)
            tries.usage += usage
        finally:
            self.ledger.settle(reserved, self.endpoint.model, usage)
        completion = completion_of(reply)
        text = write_text(self._poster.without_key(completion.content))
        return Completion(text, completion.is_cut)

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
