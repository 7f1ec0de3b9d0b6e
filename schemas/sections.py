"""What every table of a configuration file is."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

PLUGIN_PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
"""``package.module:function``."""

LARGEST_NUMBER = 2**53
"""Larger counts are slips of the keyboard, and no float holds them exactly."""


class Section(BaseModel):
    """A table of the experiment file: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _takes_values_as_they_are(cls, value: Any, info: ValidationInfo) -> Any:
        """``true`` is no number, ``"5"`` is none, and a text holds no NUL."""
        wanted = _plain_types(cls.model_fields[str(info.field_name)].annotation)
        if wanted & {int, float} and not wanted & {str, bool}:
            if isinstance(value, bool | str):
                raise ValueError(f"expected a number, but got {value!r}")
            if isinstance(value, int | float) and not abs(value) <= LARGEST_NUMBER:
                raise ValueError(f"expected a number up to 2^53, but got {value!r:.40}")
        if bool in wanted and not isinstance(value, bool | None):
            raise ValueError(f"expected true or false, but got {value!r}")
        if isinstance(value, str) and "\x00" in value:
            raise ValueError("the text holds a NUL character")
        return value


def _plain_types(annotation: Any) -> set[Any]:
    """The classes that an annotation names; None and constraints left out."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return {kind for part in typing.get_args(annotation) for kind in _plain_types(part)}
    if isinstance(annotation, type) and annotation is not type(None):
        return {annotation}
    return set()
