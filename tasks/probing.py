"""The first call to an endpoint's model: is it there, and how does it have to be asked?

It is made once, before any stage starts, and recorded in the store of calls; later runs start
without it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from schemas.errors import ConfigurationError
from tasks.abilities import adapt, body_of, first_guess, read_abilities
from tasks.calls import Call
from tasks.completing import Completer
from tasks.replies import InvalidReplyError, read_json
from tasks.troubles import Trouble, completion_of, wait_before

_ASKED = (("system", 'Reply with JSON only: {"ok": ["yes"]}'), ("user", "Are you there?"))
_SCHEMA = {
    "type": "object",
    "properties": {
        "ok": {
            "type": "array",
            "items": {"type": "string", "maxLength": 9},
            "minItems": 1,
            "maxItems": 1,
        }
    },
    "required": ["ok"],
    "additionalProperties": False,
}
"""Bounded like the schemas of real calls, so that a server that refuses bounds does so here."""
MOST_STEPS = 12
"""Sendings of one probe: there are eight things to adapt, and a few that pass by themselves."""


async def probe(completer: Completer, section: str) -> None:
    """Find out how a model has to be asked, and record it; nothing is sent if it is known.

    Args:
        completer: of the endpoint.
        section: the key of the configuration that names it, for messages.

    Raises:
        ConfigurationError: it cannot be reached, is no such endpoint, or knows no such model.
    """
    endpoint = completer.endpoint
    if read_abilities(completer.store.get_abilities(endpoint)) is not None:
        return
    call = Call("probe", _ASKED, _SCHEMA, "")
    abilities, n_waits = first_guess(endpoint), 0
    for _ in range(MOST_STEPS):
        body = body_of(call, endpoint, abilities, endpoint.max_output_tokens)
        try:
            reply = await completer.post(body)
            if abilities.mode != "text" and not _is_json(reply):
                # It took the parameter and took no notice of it.
                abilities = replace(abilities, mode=abilities.next_mode or "text")
                continue
        except Trouble as trouble:
            if trouble.remedy == "adapt":
                adapted = adapt(abilities, trouble.message)
                if adapted is None and abilities.next_mode is not None:
                    adapted = replace(abilities, mode=abilities.next_mode)
                if adapted is not None:
                    abilities = adapted
                    continue
            if trouble.remedy != "wait" or trouble.code in (None, 0) or n_waits >= 2:
                if trouble.was_turned_away and trouble.code is not None:
                    return  # it is there and busy; how to ask it shows with the first calls
                raise _refusal(completer, section, trouble) from None
            n_waits += 1
            await asyncio.sleep(min(wait_before(n_waits, trouble.retry_after), 10.0))
            continue
        completer.sender.use(abilities)
        return
    raise ConfigurationError(
        f"summary.{section}: {endpoint.model} at {endpoint.base_url} answers, but no way of "
        "asking it works"
    )


def _is_json(reply: object) -> bool:
    """Whether the reply is JSON alone, as a server with structured output gives it."""
    try:
        completion = completion_of(reply)
    except Trouble as trouble:
        if trouble.message.startswith("the endpoint's answer"):
            raise
        return False
    if completion.is_cut:
        return False
    try:
        return isinstance(read_json(completion.content), dict)
    except InvalidReplyError:
        return False


def hint_of(trouble: Trouble, key_variable: str | None) -> str:
    """What to look at when the first call to an endpoint fails."""
    if trouble.code in (401, 403):
        if key_variable:
            return f"check the key in the environment variable {key_variable}"
        return "it wants a key: name the environment variable that holds it as api_key_env"
    if trouble.code == 404:
        return "there is no such model there, or base_url is wrong (it mostly ends in /v1)"
    if trouble.code == 0 or trouble.status == "timeout":
        return "is the server running, and is base_url right?"
    if trouble.code is None:
        return "this is not an OpenAI-compatible endpoint; base_url mostly ends in /v1"
    return "check model and base_url"


def _refusal(completer: Completer, section: str, trouble: Trouble) -> ConfigurationError:
    endpoint = completer.endpoint
    hint = hint_of(trouble, endpoint.key_variable)
    return ConfigurationError(f"summary.{section}: {endpoint.shown}: {trouble.message}; {hint}")
