"""Read TREC qrels and run files by columns: plain, gzip or zstd, or standard input.

Fields are split on ASCII white space alone; ids are bytes. pyarrow parses a file, strictly; what
it refuses is read line by line, which names the line at fault or accepts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NoReturn

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from schemas.counting import counted
from schemas.errors import InputError
from tasks.trec_bytes import Buffer, lines_of, load_bytes, name_of, show_id, tidy_blanks

Kind = Literal["qrels", "run"]

_COLUMNS: dict[Kind, list[str]] = {
    "run": ["query", "q0", "doc", "rank", "number", "tag"],
    "qrels": ["query", "iteration", "doc", "number"],
}
_NUMBERS: dict[Kind, tuple[str, re.Pattern[bytes], str]] = {
    "run": (
        "score",
        re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.I),
        "a number",
    ),
    "qrels": ("grade", re.compile(rb"[+-]?[0-9]{1,30}"), "a whole number below 2^63"),
}
_PARSE_BLOCK = 4 << 20
_HEXADECIMAL = (b" 0x", b" 0X", b" -0x", b" -0X")

FILES = "QRELS RUN"
"""The order of the files on the command line of ``rankhouse trec``, for messages."""


@dataclass(frozen=True, slots=True)
class TrecLines:
    """The lines of one file; arrays have one entry a line that is not blank."""

    source: str  # the path, or - for standard input
    query_ids: list[bytes]  # distinct
    query: NDArray[np.int32]  # index into query_ids
    docs: pl.Series  # Binary: the document
    numbers: NDArray[Any]  # float64 scores without NaN, or int64 grades
    data: Buffer  # what was read, decompressed

    def refuse(self, row: int, message: str) -> NoReturn:
        """Raise an InputError at the line of a row."""
        raise InputError(message, path=self.source, line=self.line_of(row))

    def line_of(self, row: int) -> int:
        """Line number, from 1, of a row."""
        filled = (number for number, line in lines_of(self.data) if line.strip())
        return next(islice(filled, row, None))


def read_run(source: str, *, order: str = FILES) -> TrecLines:
    """Read a run: ``query Q0 document rank score tag`` on each line.

    Args:
        source: a path, or ``-`` for standard input.
        order: of the files on the command line, for the message when they are swapped.

    Raises:
        InputError: the file is missing, empty or damaged, a line has another number of fields,
            or a score is no number; with the line.
    """
    return parse_trec(load_bytes(source), "run", source=name_of(source), order=order)


def read_qrels(source: str, *, order: str = FILES) -> TrecLines:
    """Read judgements: ``query iteration document grade`` on each line.

    Args:
        source: a path, or ``-`` for standard input.
        order: as in ``read_run``.

    Raises:
        InputError: as ``read_run``; a grade is a whole number.
    """
    return parse_trec(load_bytes(source), "qrels", source=name_of(source), order=order)


def parse_trec(data: Buffer, kind: Kind, *, source: str, order: str = FILES) -> TrecLines:
    """Parse the bytes of a file; ``source`` names it in errors.

    Raises:
        InputError: see ``read_run``.
    """
    if not data[:4096].strip() and not any(line.strip() for _, line in lines_of(data)):
        columns = " ".join(_COLUMNS[kind]).replace("number", _NUMBERS[kind][0])
        raise InputError(f"the file is empty; expected lines of: {columns}", path=source)
    table = _parse(tidy_blanks(data), kind)
    if table is None:
        table = _read_lines(source, data, kind, order)
    query = table["query"].unify_dictionaries().combine_chunks()
    lines = TrecLines(
        source=source,
        query_ids=query.dictionary.to_pylist(),
        query=pl.Series(_Stream(pa.chunked_array([query.indices]))).to_numpy(),
        docs=pl.Series(_Stream(table["doc"])),
        numbers=pl.Series(_Stream(table["number"])).to_numpy(),
        data=data,
    )
    is_nan = np.isnan(lines.numbers) if kind == "run" else np.False_
    if is_nan.any():
        lines.refuse(int(np.argmax(is_nan)), "the score is NaN, which has no place in an order")
    return lines


class _Stream:
    """An Arrow column by its C interface: from pyarrow's own objects Polars imports its kernels.

    That import, of ``pyarrow.compute``, costs a third of the command's start; that of pandas, which
    pyarrow's ``to_numpy`` imports where it is installed, two thirds.
    """

    def __init__(self, column: pa.ChunkedArray):
        self._column = column

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._column.__arrow_c_stream__(requested_schema)


def _parse(data: Buffer, kind: Kind) -> pa.Table | None:
    """A table of query, doc and number; None when a line may not be as it should be."""
    if kind == "qrels" and any(data.find(start) >= 0 for start in _HEXADECIMAL):
        return None  # pyarrow reads hexadecimal grades
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_csv.ReadOptions(
                column_names=_COLUMNS[kind], block_size=_PARSE_BLOCK
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=_types(kind),
                include_columns=list(_types(kind)),
                null_values=[],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _types(kind: Kind) -> dict[str, pa.DataType]:
    return {
        "query": pa.dictionary(pa.int32(), pa.binary()),
        "doc": pa.binary(),
        "number": pa.float64() if kind == "run" else pa.int64(),
    }


def _read_lines(source: str, data: Buffer, kind: Kind, order: str) -> pa.Table:
    """Read line by line; raise InputError at the first line that is not as it should be."""
    columns = _COLUMNS[kind]
    number_at = columns.index("number")
    what, pattern, expected = _NUMBERS[kind]
    rows: list[tuple[bytes, bytes, float]] = []
    for line_number, line in lines_of(data):
        fields = line.split()
        if fields and len(fields) != len(columns):
            titles = {"number": what, "doc": "document"}
            names = ", ".join(titles.get(name, name) for name in columns)
            hint = ""
            if len(fields) in (4, 6) and order:
                hint = f"; the order of the files is {order}"
            raise InputError(
                f"the line has {counted(len(fields), 'field')}, "
                f"but a {kind} line has {len(columns)}: {names}{hint}",
                path=source,
                line=line_number,
            )
        if not fields:
            continue
        text = fields[number_at]
        value = (float if kind == "run" else int)(text) if pattern.fullmatch(text) else None
        if value is None or (kind == "qrels" and not -(2**63) <= value < 2**63):
            raise InputError(
                f"the {what} is {show_id(text[:80])!r}; expected {expected}",
                path=source,
                line=line_number,
            )
        rows.append((fields[0], fields[2], value))
    return pa.table(
        {
            name: pa.chunked_array([pa.array(column, type=kind_of)])
            for (name, kind_of), column in zip(
                _types(kind).items(), zip(*rows, strict=True), strict=True
            )
        }
    )
