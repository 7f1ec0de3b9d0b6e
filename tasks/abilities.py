"""What an endpoint's model understands, found out once and recorded.

Structured output by JSON schema with bounded lists where it works, else without the bounds, else
JSON mode, else plain text with a tolerant reader; temperature, seed and the name of the token
limit as the model takes them. A call's key does not hold how it was asked: the messages ask for
the same JSON in every mode.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from schemas.endpoints import OPENAI_URL, Endpoint
from tasks.calls import Call

Mode = Literal["bounded", "schema", "json", "text"]
_MODES: tuple[Mode, ...] = ("bounded", "schema", "json", "text")
_BOUNDS = ("minItems", "maxItems", "maxLength")
"""What holds a small model back from repeating itself for ever; not every server knows them."""
_WITHOUT_TEMPERATURE = re.compile(r"(^|/)(o\d|gpt-5)", re.IGNORECASE)
_ABOUT_MODE = re.compile(
    r"response_?format|json_?schema|json_?object|structured|grammar|m(in|ax)(Items|Length)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """How a model has to be asked."""

    mode: Mode = "bounded"
    takes_temperature: bool = True
    takes_seed: bool = True
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    has_swapped_tokens: bool = False

    def to_json(self) -> str:
        """For the record."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def next_mode(self) -> Mode | None:
        """What to try where this mode is not understood; None: there is nothing left."""
        position = _MODES.index(self.mode) + 1
        return _MODES[position] if position < len(_MODES) else None


def read_abilities(record: str | None) -> Abilities | None:
    """What was recorded; None: nothing, or by another version."""
    if record is None:
        return None
    try:
        return Abilities(**json.loads(record))
    except (ValueError, TypeError):
        return None


def first_guess(endpoint: Endpoint) -> Abilities:
    """How to ask first, by what is known of OpenAI's own models."""
    is_openai = endpoint.base_url == OPENAI_URL
    is_reasoning = _WITHOUT_TEMPERATURE.search(endpoint.model) is not None
    return Abilities(
        takes_temperature=not is_reasoning,
        takes_seed=not is_reasoning,
        limit_name="max_completion_tokens" if is_openai or is_reasoning else "max_tokens",
    )


def adapt(abilities: Abilities, complaint: str) -> Abilities | None:
    """How to ask after a 400 that complains about a parameter; None: it is about something else."""
    text = complaint.lower()
    if abilities.next_mode is not None and _ABOUT_MODE.search(text):
        return replace(abilities, mode=abilities.next_mode)
    if abilities.takes_temperature and "temperature" in text:
        return replace(abilities, takes_temperature=False)
    if abilities.takes_seed and re.search(r"\bseed\b", text):
        return replace(abilities, takes_seed=False)
    if not abilities.has_swapped_tokens and re.search(r"max_(completion_)?tokens", text):
        is_short = abilities.limit_name == "max_tokens"
        other: Any = "max_completion_tokens" if is_short else "max_tokens"
        return replace(abilities, limit_name=other, has_swapped_tokens=True)
    return None


def body_of(call: Call, endpoint: Endpoint, abilities: Abilities, room: int) -> dict[str, Any]:
    """The request that asks a call, with room for so many tokens of reply."""
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": role, "content": content} for role, content in call.messages],
        abilities.limit_name: room,
    }
    if abilities.takes_temperature:
        body["temperature"] = endpoint.temperature
    if abilities.takes_seed and endpoint.seed is not None:
        body["seed"] = endpoint.seed
    if endpoint.reasoning_effort is not None:
        body["reasoning_effort"] = endpoint.reasoning_effort
    if call.schema is not None and abilities.mode in ("bounded", "schema"):
        form = call.schema if abilities.mode == "bounded" else _without_bounds(call.schema)
        schema = {"name": call.purpose, "strict": True, "schema": form}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif call.schema is not None and abilities.mode == "json":
        body["response_format"] = {"type": "json_object"}
    return body


def _without_bounds(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: _without_bounds(value) for k, value in schema.items() if k not in _BOUNDS}
    return schema
