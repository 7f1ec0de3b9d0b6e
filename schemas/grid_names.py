"""Names of a grid's runs: readable, different, and the same whenever the grid is run again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.experiment import digest_of

LONGEST = 100  # characters of a name; see ``schemas.experiment.NAME_PATTERN``
LONGEST_LABEL = 30
_UNWANTED = re.compile(r"[^\w.+@-]+")


def name_of(base: str, parts: Sequence[str]) -> str:
    """``base:part,part``; one that is too long ends in a digest of all its parts."""
    if not parts:
        return base
    name = f"{base}:{','.join(parts)}"
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}~{digest_of(list(parts))[:8]}"


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each dotted setting's shortest ending that no other setting of the grid has."""
    return {key: _shortest(key, [other for other in keys if other != key]) for key in keys}


def _shortest(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    endings = (".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1))
    return next(
        (end for end in endings if not any(f".{other}".endswith(f".{end}") for other in others)),
        key,
    )


def labels_of(values: Sequence[Any]) -> list[str]:
    """A short, different text for each value; the first of equal ones keeps its text.

    So a value that is added at the end of a list renames no other run.
    """
    labels: list[str] = []
    for value in values:
        label = _label(value)
        labels.append(f"{label}-{digest_of(value)[:6]}" if label in labels else label)
    return labels


def _label(value: Any) -> str:
    if isinstance(value, str):
        text = re.split(r"[/\\]", value.rstrip("/\\"))[-1]  # of a path or model: its last part
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list | tuple):
        text = "+".join(_label(item) for item in value)
    elif isinstance(value, Mapping):
        text = "+".join(f"{name}-{_label(item)}" for name, item in value.items())
    else:
        text = str(value)
    text = _UNWANTED.sub("-", text).strip("-") or digest_of(value)[:6]
    if len(text) > LONGEST_LABEL:
        text = f"{text[: LONGEST_LABEL - 7]}-{digest_of(value)[:6]}"
    return text
