"""What went wrong with one sending of a call, and whether sending it again can help."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from tasks.judging import Status

Remedy = Literal["wait", "adapt", "none", "stop"]
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds

_OVERLOADED = (429, 503, 529)
_PASSING = (408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524)
_HOPELESS = (401, 402, 403, 404, 405, 410)


class Trouble(Exception):
    """One sending that gave no reply; its ``message`` holds no key.

    Attributes:
        status: what the query gets if nothing helps.
        remedy: ``wait`` and send again; ``adapt`` the request to the complaint, else give the
            call up; ``none``: give the call up; ``stop``: no call to this endpoint can work.
        retry_after: seconds that the endpoint asks to wait; None: it did not say.
        was_turned_away: whether fewer calls at once could have helped.
    """

    def __init__(
        self,
        status: Status,
        message: str,
        *,
        remedy: Remedy,
        retry_after: float | None = None,
        was_turned_away: bool = False,
        code: int | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.message = message
        self.remedy = remedy
        self.retry_after = retry_after
        self.was_turned_away = was_turned_away
        self.code = code  # HTTP status; None: there was no answer


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply as it came."""

    content: str
    is_cut: bool  # the reply ran out of room


def trouble_of_status(code: int, detail: str, headers: Mapping[str, str]) -> Trouble:
    """What an HTTP status other than success means."""
    message = f"the endpoint answered {code}" + (f": {detail}" if detail else "")
    if code in _OVERLOADED:
        wait = read_retry_after(headers, datetime.now(UTC))
        return Trouble(
            *("rate_limited", message),
            remedy="wait",
            retry_after=wait,
            was_turned_away=True,
            code=code,
        )
    if code in _PASSING or code >= 500:
        wait = read_retry_after(headers, datetime.now(UTC))
        return Trouble("invalid_reply", message, remedy="wait", retry_after=wait, code=code)
    if code in _HOPELESS:
        return Trouble("refused", message, remedy="stop", code=code)
    is_too_long = code == 413 or any(
        word in detail.lower() for word in ("context_length", "context length", "context size")
    )
    status: Status = "truncated" if is_too_long else "invalid_reply"
    return Trouble(status, message, remedy="adapt", code=code)


def read_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait by ``Retry-After``, a number or a date; None: absent or not understood."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                until = parsedate_to_datetime(text)
            except (ValueError, TypeError, IndexError):
                continue
            until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
            seconds = (until - now).total_seconds()
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def wait_before(n_sent: int, retry_after: float | None) -> float:
    """Seconds until a call is sent again: what the endpoint asks, else doubling; jittered."""
    if retry_after is not None:
        return retry_after + random.uniform(0, min(1.0, 0.1 * retry_after + 0.05))  # noqa: S311
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (n_sent - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311


def completion_of(reply: Any) -> Completion:
    """The text of a chat completion, as decoded from JSON.

    Raises:
        Trouble: a refusal, or not what a chat completion looks like.
    """
    if not isinstance(reply, dict) or "choices" not in reply:
        raise Trouble(
            "invalid_reply",
            f"the endpoint's answer is no chat completion: {_shown(reply)}",
            remedy="wait",
        )
    choices = reply["choices"]
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        raise Trouble("invalid_reply", "the endpoint's answer holds no choice", remedy="wait")
    message, finish = first["message"], first.get("finish_reason")
    refusal = message.get("refusal")
    if finish == "content_filter" or (isinstance(refusal, str) and refusal.strip()):
        reason = refusal if isinstance(refusal, str) and refusal.strip() else "content filter"
        raise Trouble("refused", f"the model refused: {reason[:200]}", remedy="none")
    content = message.get("content")
    if isinstance(content, list):  # parts, as some servers send them
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return Completion(content if isinstance(content, str) else "", is_cut=finish == "length")


def _shown(value: Any) -> str:
    return " ".join(str(value)[:200].split())[:120]
