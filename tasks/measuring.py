"""What a stage cost: wall time and the process's peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from schemas.artifacts import Artifact, StageOutput


class Measurement:
    """Starts when it is made; ``output`` ends it."""

    def __init__(self, stage: str):
        self._stage = stage
        self._started = time.perf_counter()

    def output(
        self,
        artifacts: dict[str, Artifact],
        figures: Mapping[str, Any],
        *,
        is_reusable: bool = True,
    ) -> dict[str, Any]:
        """The stage's output with its cost, as the JSON that Prefect keeps."""
        return StageOutput(
            stage=self._stage,
            artifacts=artifacts,
            figures=dict(figures),
            seconds=round(time.perf_counter() - self._started, 6),
            peak_memory=peak_memory(),
            is_reusable=is_reusable,
        ).model_dump(mode="json")


def peak_memory() -> int:
    """Bytes of resident memory that this process has held at most."""
    with suppress(OSError, ValueError, IndexError):
        # Linux's ru_maxrss begins with the peak of whoever started the process.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
