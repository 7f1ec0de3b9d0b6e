"""A comparison that a night asks for, kept until somebody holds the warehouse's lock to make it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from schemas.gates import Gate
from schemas.sections import Section
from schemas.suites import BaselineRule


class ComparisonRequest(Section):
    """What a run of a suite is to be compared with, and by which gates."""

    run_id: str
    experiment: str
    suite: str
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)]
    baseline: BaselineRule  # its run, if any, as a whole id
