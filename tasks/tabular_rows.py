"""Rows of CSV and Parquet files, every value as it stands: ``007`` and ``NA`` stay strings."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from schemas.errors import InputError
from tasks.sources import Located, SourceFile, read_bytes, read_text

LONGEST_FIELD = 2**31 - 1
"""Characters: what the csv module can be told at most; its default, 131,072, is a long page."""


def read_csv(file: SourceFile) -> Iterator[Located[dict[str, Any]]]:
    """The rows below the header; commas, or tabs in a ``.tsv``. Newlines in a field are kept.

    Raises:
        InputError: broken quoting, a header that repeats or lacks a name, a row of another length.
    """
    delimiter = "\t" if file.path.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(read_text(file), newline=""), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    line = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(f"this is not valid CSV: {error}", path=file.path, line=line) from None
        if fields is None:
            break
        if header is None and fields:
            header = _header(fields, file.path, line)
        elif header is not None and fields:
            if len(fields) != len(header):
                raise InputError(
                    f"the row has {len(fields)} fields and the header {len(header)}: a field with "
                    f"{'a comma' if delimiter == ',' else 'a tab'} in it stands in double quotes",
                    path=file.path,
                    line=line,
                )
            yield Located(dict(zip(header, fields, strict=True)), file.path, line)
        line = reader.line_num + 1


def read_parquet(file: SourceFile) -> Iterator[Located[dict[str, Any]]]:
    """The rows of a Parquet file; ``line`` is the row, from 1.

    Raises:
        InputError: it is not Parquet, or it holds a value that is no text, number or date.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        table = pq.ParquetFile(pa.BufferReader(read_bytes(file)))
        names = _header(table.schema_arrow.names, file.path, None)
        for batch in table.iter_batches():
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                row = {name: _plain(value) for name, value in zip(names, values, strict=True)}
                yield Located(row, file.path, number)
    except (pa.ArrowException, OSError) as error:  # its own faults of a file are OSError too
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"this Parquet file cannot be read: {reason}", path=file.path) from None
    except ValueError as error:
        raise InputError(str(error), path=file.path, line=number) from None


def _header(fields: list[str], path: Path, line: int | None) -> list[str]:
    names = [field.strip() for field in fields]
    for name in names:
        if not name or names.count(name) > 1:
            fault = f"names the column {name!r} twice" if name else "has a column without a name"
            raise InputError(f"the header {fault}: {', '.join(names)}", path=path, line=line)
    return names


def _plain(value: Any) -> Any:
    """A value that JSON can hold; NaN is absent."""
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("a value is infinite, which JSON metadata cannot hold")
        return None if math.isnan(value) else value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    raise ValueError(f"a value is a {type(value).__name__}; expected text, numbers or dates")
