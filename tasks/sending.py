"""Sending one call once: a place at the endpoint, the budget, the deadline, the way to ask."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from schemas.endpoints import Endpoint
from tasks.abilities import Abilities, adapt, body_of, first_guess, read_abilities
from tasks.calls import Answered, Call, CallStore, Usage, write_text
from tasks.judging import Failure
from tasks.limiting import Limiter
from tasks.posting import Poster, usage_of
from tasks.pricing import Ledger, estimate_tokens
from tasks.troubles import Completion, Trouble, completion_of

MOST_ROOM = 4  # times max_output_tokens, for a reply that was cut
MOST_TIMEOUTS = 2  # of one call
MOST_INVALID = 2  # replies of one call that cannot be used
HOPELESS_AFTER = 10  # calls in a row that were given up without any answer in between
EXPECTED_COMPLETION = 300  # tokens that a reply is taken to have until it is there


@dataclass
class Tries:
    """What was done for one call so far."""

    room: int  # tokens that the next reply may have
    abilities: Abilities | None = None  # how it was asked last
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

    def are_over(self, trouble: Trouble, endpoint: Endpoint) -> bool:
        """Count a trouble that may pass; True when the call is to be given up."""
        self.n_failed += 1
        self.n_timeouts += trouble.status == "timeout"
        self.n_invalid += trouble.code is None and trouble.status == "invalid_reply"
        return (
            self.n_failed >= endpoint.attempts
            or self.n_timeouts >= MOST_TIMEOUTS
            or self.n_invalid >= MOST_INVALID
        )


class Sender:
    """Sends calls to one endpoint's model.

    Args:
        endpoint: where and whom to ask.
        store: remembers how the model has to be asked.
        ledger: the run's budget.
        deadline: seconds from now; later calls are not sent.
    """

    def __init__(self, endpoint: Endpoint, store: CallStore, ledger: Ledger, deadline: float):
        self.endpoint = endpoint
        self.seconds = deadline
        self.poster = Poster(endpoint)
        self._store = store
        self._ledger = ledger
        self._ends = time.monotonic() + deadline
        self._limiter = Limiter(endpoint.max_concurrency)
        self._abilities = read_abilities(store.get_abilities(endpoint)) or first_guess(endpoint)
        self._stopped: Failure | None = None
        self._n_answered = 0
        self._n_given_up = 0

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return self._ends - time.monotonic()

    async def send(self, call: Call, tries: Tries) -> Completion:
        """Send a call once.

        Raises:
            Trouble: there is no reply that can be read.
        """
        place = await self._limiter.acquire()
        was_turned_away = False
        try:
            if self._stopped is not None:
                raise Trouble(self._stopped.status, self._stopped.message, remedy="none")
            left = self.seconds_left
            if left <= 0:
                message = f"the stage's {self.seconds:.0f} s (summary.deadline) were over"
                raise Trouble("timeout", message, remedy="none")
            return await self._send_within(call, tries, min(self.endpoint.timeout, left))
        except Trouble as trouble:
            was_turned_away = trouble.was_turned_away
            raise
        finally:
            self._limiter.release(place, was_turned_away=was_turned_away)

    async def _send_within(self, call: Call, tries: Tries, seconds: float) -> Completion:
        n_prompt = sum(estimate_tokens(content) for _, content in call.messages)
        reserved = self._ledger.reserve(self.endpoint.model, n_prompt, EXPECTED_COMPLETION)
        if reserved is None:
            raise Trouble("over_budget", self._ledger.message, remedy="none")
        usage: Usage | None = None
        tries.n_sent += 1
        tries.abilities = self._abilities
        try:
            body = body_of(call, self.endpoint, self._abilities, tries.room)
            reply: Any = await self.poster.post(body, seconds)
            usage = usage_of(reply)
            tries.usage += usage
        finally:
            self._ledger.settle(reserved, self.endpoint.model, usage)
        completion = completion_of(reply)
        text = write_text(self.poster.without_key(completion.content))
        return Completion(text, completion.is_cut)

    def note_answer(self) -> None:
        """A call was answered: the endpoint works, and this is how to ask it."""
        self._n_answered += 1
        self._n_given_up = 0

    def note_given_up(self, trouble: Trouble, failure: Failure) -> None:
        """Where call after call is given up, or none can work, the rest are not sent."""
        if trouble.remedy == "stop":
            self._stopped = self._stopped or failure
        elif trouble.remedy == "wait" and (trouble.code is not None or trouble.status == "timeout"):
            self._n_given_up += 1
            if self._n_given_up >= HOPELESS_AFTER and self._stopped is None:
                self._stopped = Failure(
                    failure.status,
                    f"not sent, as {HOPELESS_AFTER} calls before it had: {failure.message}",
                )

    def adapt(self, complaint: str, tries: Tries) -> bool:
        """Ask otherwise where a 400 complains about a parameter; False: it is about the call.

        Only before the first answer: afterwards the parameters are known to be fine, and the
        complaint may quote the text.
        """
        if tries.abilities != self._abilities:
            return True  # another call has found out meanwhile
        adapted = None if self._n_answered else adapt(self._abilities, complaint)
        if adapted is not None:
            self.use(adapted)
        return adapted is not None

    def use(self, abilities: Abilities) -> None:
        """Ask this way from now on, and in later runs."""
        self._abilities = abilities
        self._store.put_abilities(self.endpoint, abilities.to_json())
