"""What makes a measure of two runs two different things."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from flows.asking import answer
from schemas.comparability import comparability_parts
from schemas.errors import RankhouseError
from schemas.experiment import parse_experiment

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NONE = "–"
DIGITS = 12  # of a digest: enough to tell two apart
SECTIONS = ("labelling", "chunking", "summary")  # of a configuration: what can decide


def find_differences(
    connection: DuckDBPyConnection, run: str, baseline: str, measure: str
) -> list[str]:
    """Name what the comparability keys of two runs differ in, with both values.

    Args:
        connection: the published copy.
        run: its id.
        baseline: the other's id.
        measure: its canonical name.

    Returns:
        Such as ``chunking.size: 200 / 600``, the run's value first. Empty: nothing that is stored
        differs, so it is what the key holds besides, the version of the judge.
    """
    ours, theirs = (_parts(connection, run_id, measure) for run_id in (run, baseline))
    # What one side lacks altogether follows from its label method, or from its lack of values.
    one_sided = {"chunking", "contract_version"} & (ours.keys() ^ theirs.keys())
    ours, theirs = (_flatten(_without(parts, one_sided)) for parts in (ours, theirs))
    names = list(dict.fromkeys([*ours, *theirs]))
    return [
        f"{name}: {ours.get(name, NONE)} / {theirs.get(name, NONE)}"
        for name in names
        if ours.get(name, NONE) != theirs.get(name, NONE)
    ]


def _parts(connection: DuckDBPyConnection, run_id: str, measure: str) -> dict[str, Any]:
    """What decides, of one run; ``measure`` is None when the run has no values of it."""
    from warehouse.queries import SIDE

    (row,) = answer(connection, SIDE, SIDE.render(run=run_id, measure=measure))
    config = json.loads(row["config"])
    benchmark = str(row["benchmark_digest"])
    try:
        experiment = parse_experiment(config, where=f"run {run_id}")
        parts = comparability_parts(experiment, benchmark_digest=benchmark, measure=measure)
    except (RankhouseError, ValueError):  # a configuration of another version
        parts = {"split": config.get("benchmark", {}).get("split")}
        parts |= {name: config[name] for name in SECTIONS if name in config}
    parts["benchmark"] = benchmark[:DIGITS]
    parts |= {"measure": measure, "contract_version": row["contract_version"]}
    if row["contract_version"] is None:
        parts["measure"] = parts.pop("contract_version")
    return parts


def _without(parts: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if name not in names}


def _flatten(parts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as ``chunking.size``, with values as they are read."""
    flat: dict[str, str] = {}
    for name, value in parts.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif value is None:
            flat[prefix + name] = NONE
        else:
            flat[prefix + name] = (
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            )
    return flat
