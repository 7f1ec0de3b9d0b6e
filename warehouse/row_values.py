"""Values on their way into a row: UTC, finite, JSON, and without credentials."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_CREDENTIALS = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s]+@")


def plain_value(value: Any) -> Any:
    """Mappings and sequences become JSON; times become UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str):
        return _CREDENTIALS.sub(r"\1", value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(_finite(value), ensure_ascii=False, sort_keys=True, default=str)
    return value


def _finite(value: Any) -> Any:
    """JSON has no NaN: a figure that is not finite is null. A URL loses its credentials."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _CREDENTIALS.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
