"""JSON as the standard has it: Python's also lets NaN, double keys and half characters in."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from tasks.sources import Located

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: Located[str]) -> Any:
    """Parse one JSON value.

    Raises:
        InputError: not JSON, NaN or infinity, a key given twice, half of a surrogate pair.
    """
    try:
        value = _DECODER.decode(text.record)
    except json.JSONDecodeError as error:
        place = f"character {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        text.refuse(f"this is not valid JSON: {error.msg} at {place}")
    except ValueError as error:
        text.refuse(f"this is not valid JSON: {error}")
    except RecursionError:
        text.refuse("this JSON is nested too deeply to be read")
    if "\\u" in text.record and _HALF_CHARACTER.search(text.record):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            text.refuse(
                r"a \ud800–\udfff escape stands alone: half of a surrogate pair is no character"
            )
    return value


def parse_object(text: Located[str]) -> dict[str, Any]:
    """Parse one JSON object.

    Raises:
        InputError: see ``parse_json``; or it is not an object.
    """
    value = parse_json(text)
    if not isinstance(value, dict):
        text.refuse(f"expected a JSON object, but this is a {type(value).__name__}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits:.30} is too large for a number")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; use null")


_DECODER = json.JSONDecoder(  # made once: json.loads makes one a text
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_refuse_constant
)
