"""The store of answered LLM calls: one answer a key, stored at once and never asked for again.

A key covers endpoint, model, parameters, messages, schema and sample; never the API key, a
timeout or a price. The store is one SQLite file: an answer that was committed outlives the
process, several processes may share it, and a damaged file is set aside with a warning. What a
power cut may cost is the last moments' answers, never the file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from schemas.endpoints import Endpoint
from schemas.errors import StageError, StorageError
from schemas.experiment import digest_of

logger = logging.getLogger("rankhouse")

FILE_NAME = "calls.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    reply TEXT NOT NULL,
    reply_digest TEXT NOT NULL,
    purpose TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    completion_tokens INTEGER,
    started_at REAL NOT NULL,
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS abilities (
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    abilities TEXT NOT NULL,
    PRIMARY KEY (endpoint, model)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Call:
    """One question to an LLM, before anybody has asked it."""

    purpose: str  # summary, key_phrases, questions, answers
    messages: tuple[tuple[str, str], ...]  # (role, content)
    schema: dict[str, Any] | None  # of the JSON that the reply must be; None: plain text
    subject: str  # sha256 of the text that it is about
    sample: str = "0"  # "0", the number of the repeat, or anchor/<logical_date>

    def key(self, endpoint: Endpoint) -> str:
        """Under which its answer is stored."""
        messages = [[role, content] for role, content in self.messages]
        asked = {"messages": messages, "schema": self.schema, "sample": self.sample}
        return digest_of(endpoint.identity | asked)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counted them; None: it did not say."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None  # of the prompt's, those that the endpoint had in its cache
    completion_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply that could be used, with what it cost."""

    reply: str
    usage: Usage
    started_at: float  # seconds since 1970, UTC
    seconds: float  # waiting included


class CallStore:
    """Answered calls and what endpoints are able to do, below ``folder``; safe across threads."""

    def __init__(self, folder: Path):
        self._path = folder / FILE_NAME
        self._lock = threading.RLock()

    def get(self, key: str) -> Answered | None:
        """The stored answer; None: not asked yet, or its row is damaged."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT reply, reply_digest, prompt_tokens, cached_tokens, completion_tokens, "
                "started_at, seconds FROM calls WHERE key = ?",
                (key,),
            ).fetchone()
            if row is None or _digest(row[0]) != row[1]:
                return None
            return Answered(row[0], Usage(*row[2:5]), row[5], row[6])
        return None

    def put(self, key: str, call: Call, endpoint: Endpoint, answered: Answered) -> None:
        """Store an answer; when this returns, it outlives the process.

        Raises:
            StageError: the file cannot be written.
        """
        usage = answered.usage
        row = (
            *(key, answered.reply, _digest(answered.reply), call.purpose),
            *(endpoint.base_url, endpoint.model),
            *(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens),
            *(answered.started_at, answered.seconds),
        )
        try:
            for _ in range(2):  # a damaged file is set aside: then into a new one
                with self._guarded():
                    self._connection.execute(
                        "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row
                    )
                    return
        except StorageError as error:  # found out after work began
            raise StageError(str(error)) from None

    def get_abilities(self, endpoint: Endpoint) -> str | None:
        """What was found out about an endpoint's model, as JSON; None: nothing yet."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT abilities FROM abilities WHERE endpoint = ? AND model = ?",
                (endpoint.base_url, endpoint.model),
            ).fetchone()
            return None if row is None else str(row[0])
        return None

    def put_abilities(self, endpoint: Endpoint, abilities: str) -> None:
        """Record what was found out about an endpoint's model."""
        with self._guarded():
            self._connection.execute(
                "INSERT OR REPLACE INTO abilities VALUES (?, ?, ?)",
                (endpoint.base_url, endpoint.model, abilities),
            )

    def mean_completion_tokens(self, endpoint: Endpoint, purpose: str) -> float | None:
        """What answers of one kind have cost so far; None: there are none."""
        with self._guarded():
            (mean,) = self._connection.execute(
                "SELECT avg(completion_tokens) FROM calls WHERE endpoint = ? AND model = ? "
                "AND purpose = ?",
                (endpoint.base_url, endpoint.model, purpose),
            ).fetchone()
            return None if mean is None else float(mean)
        return None

    def close(self) -> None:
        """Flush everything to the disk and let go of the file."""
        with self._lock:
            if "_connection" in self.__dict__:
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.close()
                del self.__dict__["_connection"]

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=60, isolation_level=None, check_same_thread=False
        )
        try:
            with suppress(sqlite3.OperationalError):  # a file system without shared memory
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One thread at a time; a damaged file is set aside, and what was asked of it is absent."""
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as error:
                raise self._storage_error(str(error)) from None
            except sqlite3.DatabaseError as error:
                self._set_aside(str(error))
            except OSError as error:
                raise self._storage_error(error.strerror or str(error)) from None

    def _set_aside(self, reason: str) -> None:
        self.close()
        damaged = self._path.with_suffix(".damaged")
        logger.warning(
            "%s is damaged (%s): it is set aside as %s, and its calls are asked again",
            self._path,
            reason,
            damaged.name,
        )
        try:
            self._path.replace(damaged)
            for suffix in ("-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise self._storage_error(error.strerror or str(error)) from None

    def _storage_error(self, reason: str) -> StorageError:
        return StorageError(
            f"{self._path}: the stored LLM calls cannot be used ({reason}). Make the file "
            "readable and writable, or move it away: its calls are then asked again."
        )


def write_text(text: str) -> str:
    """The text as it can be stored anywhere: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def subject_of(texts: Sequence[str]) -> str:
    """Sha256 of the texts that a call is about, joined by newlines."""
    return _digest("\n".join(texts))


def to_json(value: Any) -> str:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other
