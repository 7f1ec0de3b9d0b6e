"""The prompts, as data files in three languages, and the messages that are made of them.

Instructions stand in the system message alone. Contexts, responses and questions are data: they
stand in the user message between two marks that hold a digest of the data itself, so no data can
contain its own closing mark.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Messages = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Prompts:
    """The instructions of one language."""

    language: str
    version: int
    digest: str  # sha256 of the file
    instructions: dict[str, str]  # by purpose
    labels: dict[str, str]  # what stands before each piece of data

    @property
    def name(self) -> str:
        """Stands in every row of ``llm_calls``."""
        return f"{self.language}/{self.version}"

    def messages(self, purpose: str, data: Sequence[tuple[str, str]], **values: int) -> Messages:
        """The messages of one call.

        Args:
            purpose: which instructions.
            data: (label, text) pairs, in order.
            values: numbers that the instructions mention, such as ``max_characters``.
        """
        joined = "\0".join(text for _, text in data)
        mark = f"data-{hashlib.sha256(joined.encode('utf-8', 'replace')).hexdigest()[:16]}"
        system = self.instructions[purpose].replace("{mark}", mark)
        for name, value in values.items():
            system = system.replace(f"{{{name}}}", str(value))
        blocks = [f"{self.labels[label]}\n<{mark}>\n{text}\n</{mark}>" for label, text in data]
        return (("system", system), ("user", "\n\n".join(blocks)))


@functools.cache
def load_prompts(language: str) -> Prompts:
    """The prompts of one language: ``tasks/prompts/LANGUAGE.toml``."""
    content = files("tasks").joinpath("prompts", f"{language}.toml").read_bytes()
    table = tomllib.loads(content.decode("utf-8"))
    return Prompts(
        language=language,
        version=int(table["version"]),
        digest=hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest(),
        instructions={
            purpose: f"{text.strip()}\n\n{table['data'].strip()}"
            for purpose, text in table["instructions"].items()
        },
        labels=dict(table["labels"]),
    )


def number_lines(texts: Sequence[str]) -> str:
    """Texts with their index, from 0, as JSON lines: the form in which they are data."""
    return "\n".join(
        json.dumps({"index": index, "text": text}, ensure_ascii=False)
        for index, text in enumerate(texts)
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string", "maxLength": 200}
_ITEMS: dict[str, dict[str, Any]] = {
    "key_phrases": _TEXT,
    "questions": _object(index={"type": "integer"}, question=_TEXT),
    "answers": _object(
        index={"type": "integer"}, reason=_TEXT, answer={"type": "string", "enum": ["1", "0"]}
    ),
}


def schema_of(purpose: str, *, fewest: int, most: int) -> dict[str, Any]:
    """The JSON that a reply must be: an object with one list; a summary is plain text.

    Args:
        purpose: key_phrases, questions or answers.
        fewest: entries; where it is 0 nothing is said of it.
        most: entries. Without an end a small model repeats itself until its room is used up.
    """
    listed = {"type": "array", "items": _ITEMS[purpose], "maxItems": most}
    return _object(**{purpose: listed | ({"minItems": fewest} if fewest else {})})
