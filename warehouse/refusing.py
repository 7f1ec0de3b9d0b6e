"""What becomes of frames that break a rule: kept, with rows and reasons."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.parts import write_frame, write_json

if TYPE_CHECKING:
    import polars as pl

    from warehouse.validate import Refusal


def keep_refused(
    folder: Path, frames: Mapping[str, pl.DataFrame], refusals: Sequence[Refusal]
) -> Path | None:
    """Write the frames and ``reasons.json``; None: there was no room for them."""
    kept = free_name(folder)
    try:
        kept.mkdir(parents=True)
        for name, frame in frames.items():
            with suppress(ValueError):
                write_frame(kept / f"{Path(name).name}.parquet", frame)
        reasons = [asdict(refusal) for refusal in refusals]
        write_json(kept / "reasons.json", {"run_id": folder.name, "reasons": reasons})
    except OSError:
        shutil.rmtree(kept, ignore_errors=True)
        return None
    return kept


def free_name(path: Path) -> Path:
    """The path, or with ``.2``, ``.3``, … when it is taken."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate


def explain_refusals(refusals: Sequence[Refusal], kept: Path | None) -> str:
    """The first ten reasons, for people."""
    shown = "\n".join(f"  {refusal}" for refusal in refusals[:10])
    more = f"\n  … and {len(refusals) - 10} more" if len(refusals) > 10 else ""
    where = f"\nThe frames and all reasons are kept in {kept}" if kept else ""
    return f"the results break their tables' rules; nothing was stored:\n{shown}{more}{where}"
