"""What every table of a configuration file is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the experiment file: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
