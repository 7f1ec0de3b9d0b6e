"""One request to an OpenAI-compatible endpoint, by OpenAI's client with its own retries off.

The one module that imports openai. The key is read from the environment when it is needed, and is
cut out of whatever an endpoint answers: it reaches no message, row or file.
"""

from __future__ import annotations

import asyncio
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schemas.endpoints import Connection, ModelConnection
from schemas.errors import ConfigurationError
from tasks.calls import Usage
from tasks.troubles import Trouble, trouble_of_status

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Poster:
    """Sends requests to one endpoint, over connections that are kept."""

    def __init__(self, endpoint: ModelConnection, section: str = "summary"):
        self._endpoint = endpoint
        self._section = section

    async def close(self) -> None:
        """Close the connections, on the loop that opened them."""
        client = self.__dict__.pop("_client", None)
        if client is not None:
            await client.close()

    async def post(
        self, body: dict[str, Any], seconds: float, *, path: str = "/chat/completions"
    ) -> Any:
        """Send one request; whatever goes wrong is a Trouble.

        Raises:
            Trouble: there is no answer, or it is an error.
        """
        import openai

        try:
            # cast_to=object: decoded JSON, without a pydantic model of each reply.
            async with asyncio.timeout(seconds):
                return await self._client.post(path, body=body, cast_to=object)
        except (TimeoutError, openai.APITimeoutError):
            raise Trouble(
                *("timeout", f"no reply within {seconds:.0f} s"),
                remedy="wait",
                was_turned_away=True,
            ) from None
        except openai.APIStatusError as error:
            detail = self.without_key(detail_of(error.body))
            raise trouble_of_status(error.status_code, detail, error.response.headers) from None
        except openai.APIConnectionError as error:
            reason = self.without_key(str(error.__cause__ or error))
            raise Trouble(
                "invalid_reply", f"no connection: {reason}", remedy="wait", code=0
            ) from None
        except (openai.OpenAIError, ValueError, RecursionError) as error:
            message = self.without_key(f"{type(error).__name__}: {error}")[:300]
            raise Trouble("invalid_reply", message, remedy="wait") from None

    def without_key(self, text: str) -> str:
        """The text, should an endpoint have put the key into it."""
        return text.replace(self._key, "[key]") if self._key else text

    @cached_property
    def _key(self) -> str:
        return key_of(self._endpoint, self._section)

    @cached_property
    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        # "none" where no key is sent: the client insists on one, and would otherwise take
        # OPENAI_API_KEY and send it to whatever base_url names.
        return AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._endpoint.base_url,
            max_retries=0,
            timeout=self._endpoint.timeout,
            http_client=_transport(),
        )


def _transport() -> Any:
    """Connections by aiohttp, at half the CPU time a call; None, the client's own, without it."""
    from openai import DefaultAioHttpClient

    try:
        return DefaultAioHttpClient()
    except RuntimeError:
        return None


def key_of(endpoint: Connection, section: str = "summary") -> str:
    """The key from the environment; "" where none is sent.

    Raises:
        ConfigurationError: the variable is not set, or its value cannot be a key.
    """
    variable = endpoint.key_variable
    if variable is None:
        return ""
    return secret_of(variable, f"{section}: {endpoint.shown}")


def secret_of(variable: str, where: str) -> str:
    """A key from the environment; ``where`` says who needs it.

    Raises:
        ConfigurationError: the variable is not set, or its value cannot be a key.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(
            f"{where} needs a key, and the environment variable {variable} is not set. Set it, or "
            "name another one as api_key_env."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            f"{where}: the environment variable {variable} holds white space, control or other "
            "characters that no key has. Set it to the key alone."
        )
    return key


def usage_of(reply: Any) -> Usage:
    """The tokens of a chat completion, as far as it says."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        _count(usage.get("prompt_tokens")), _count(cached), _count(usage.get("completion_tokens"))
    )


def detail_of(body: object) -> str:
    """What an endpoint says about an error, in one line."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        body = message if isinstance(message, str) else str(body)
    return " ".join(str(body or "")[:1000].split())[:300]


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if is_count and isinstance(value, int) else None
