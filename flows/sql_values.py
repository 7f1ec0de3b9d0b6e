"""Values of any SQL type as what JSON, CSV and tables can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal

# What DuckDB's Python client makes of 'infinity' and '-infinity'; the last day and the first
# microsecond that Python knows cannot be told from them.
_INFINITE: dict[object, str] = {
    date.max: "infinity",
    date.min: "-infinity",
    datetime.max: "infinity",
    datetime.min: "-infinity",
}


def json_value(value: object) -> object:
    """What ``json.dumps`` writes as meant; JSON has no NaN or infinity, which become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(cell_value(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, date):
        return _INFINITE.get(value, value)
    return value


def cell_value(value: object) -> object:
    """What a CSV file or a table holds: nested values as JSON, booleans in SQL's words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        return value
    plain = json_value(value)
    if isinstance(plain, list | dict):
        return json.dumps(plain, ensure_ascii=False, default=str)
    return plain


def mappings(
    columns: list[str], rows: Iterator[tuple[object, ...]], *, format: str
) -> Iterator[dict[str, object]]:
    """Rows as mappings of what can be printed in this format."""
    convert = json_value if format == "json" else cell_value
    for row in rows:
        yield {name: convert(value) for name, value in zip(columns, row, strict=True)}
