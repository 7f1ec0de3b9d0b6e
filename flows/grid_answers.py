"""What a grid answers: per comparable set of runs, those that cannot be told from the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.counting import counted
from schemas.experiment import digest_of
from warehouse.grid_runs import GridRunRow, measures_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.choosing import Choice
    from warehouse.pairing import RunValues

MIN_COVERAGE = 0.95
CHOSEN_ON, FIGURES_FROM = "dev", "test"


@dataclass(frozen=True, slots=True)
class Choices:
    """The choice among runs whose values of the primary measure mean the same."""

    runs: tuple[GridRunRow, ...]
    choice: Choice

    @property
    def best(self) -> GridRunRow:
        """The run with the highest mean."""
        return self.runs[self.choice.best]

    @property
    def members(self) -> tuple[GridRunRow, ...]:
        """The runs that cannot be told from the best, itself included, the best means first."""
        rows = [i for i in range(len(self.runs)) if self.choice.is_in_set[i]]
        return tuple(self.runs[i] for i in sorted(rows, key=lambda i: i != self.choice.best))

    @property
    def cheapest(self) -> GridRunRow:
        """Of the set: least money for all its stages, whoever made them; then least time."""
        costs = [run.figures["cost_to_make"] for run in self.members]
        has_costs = all(cost is not None for cost in costs)

        def cost(run: GridRunRow) -> tuple[float, float]:
            money = run.figures["cost_to_make"] if has_costs else 0.0
            return money, _or_infinite(run.figures["seconds_to_make"])

        return min(self.members, key=cost)

    @property
    def fastest(self) -> GridRunRow | None:
        """Of the set: least median time for a query; None where none has been timed."""
        timed = [run for run in self.members if run.figures["latency_p50_ms"] is not None]
        return min(timed, key=lambda run: float(run.figures["latency_p50_ms"]), default=None)


@dataclass(frozen=True, slots=True)
class GridAnswer:
    """Everything that is printed about a grid."""

    grid_id: str
    primary_measure: str
    runs: tuple[GridRunRow, ...]  # whose figures are shown
    choices: tuple[Choices, ...]  # made on dev where there are both splits
    shown_of: Mapping[str, GridRunRow]  # run_id of a choice to the run whose figures are shown
    untested: Mapping[str, str]  # run_id to why it takes no part
    intervals: Mapping[tuple[str, str], tuple[float, float]]  # by run_id and measure, 95 %
    is_split: bool  # chosen on dev, figures from test

    def name_of(self, run: GridRunRow) -> str:
        """What a run of a choice is called where its figures are shown."""
        return self.shown_of[run.run_id].experiment

    def standing(self, shown: GridRunRow) -> tuple[str | None, float | None]:
        """Best, in set or worse, and the adjusted p value; None: it takes no part."""
        for choices in self.choices:
            for row, run in enumerate(choices.runs):
                if self.shown_of[run.run_id].run_id != shown.run_id:
                    continue
                p = float(choices.choice.p_adjusted[row])
                if not choices.choice.is_in_set[row]:
                    return "worse", p
                is_winner = choices.choice.has_winner and row == choices.choice.best
                return ("best" if is_winner else "in set"), p
        return None, None


def answer_of(
    connection: DuckDBPyConnection, grid_id: str, runs: Sequence[GridRunRow], primary: str
) -> GridAnswer:
    """Choose on the primary measure; see ``warehouse.choosing``.

    Runs are compared where their values of it have one comparability key. Where a grid varies
    ``benchmark.split`` over dev and test, the choice is made among the runs on dev and every figure
    is of its partner on test, so that it is not flattered by having been chosen.

    Args:
        connection: the published copy.
        grid_id: of the runs.
        runs: all of them.
        primary: canonical name of a measure.
    """
    from warehouse.pairing import read_values

    partners = _partners(runs)
    candidates = [run for run in runs if not partners or run.run_id in partners]
    untested = {run.run_id: why for run in candidates if (why := _why_not(run, primary))}
    groups: dict[str, list[GridRunRow]] = {}
    for run in candidates:
        if run.run_id not in untested:
            groups.setdefault(run.means[primary].comparability_key, []).append(run)
    values = read_values(connection, [run.run_id for run in runs], measures_of(runs))
    shown_of = {run.run_id: partners.get(run.run_id, run) for run in candidates}
    return GridAnswer(
        grid_id=grid_id,
        primary_measure=primary,
        runs=tuple(shown_of.values()),
        choices=tuple(_choose(group, values, primary) for group in groups.values()),
        shown_of=shown_of,
        untested={shown_of[key].run_id: why for key, why in untested.items()},
        intervals=_intervals(list(shown_of.values()), values),
        is_split=bool(partners),
    )


def _partners(runs: Sequence[GridRunRow]) -> dict[str, GridRunRow]:
    """Run on dev to its run on test; empty unless every run on dev has one."""
    by_split: dict[str | None, dict[str, GridRunRow]] = {}
    for run in runs:
        split = run.config.get("benchmark", {}).get("split")
        by_split.setdefault(split, {})[_without_split(run.config)] = run
    chosen_on, figures_from = by_split.get(CHOSEN_ON, {}), by_split.get(FIGURES_FROM, {})
    if not chosen_on or chosen_on.keys() != figures_from.keys():
        return {}
    return {run.run_id: figures_from[key] for key, run in chosen_on.items()}


def _without_split(config: Mapping[str, Any]) -> str:
    benchmark = {key: value for key, value in config["benchmark"].items() if key != "split"}
    return digest_of({**config, "name": None, "benchmark": benchmark})


def _why_not(run: GridRunRow, primary: str) -> str | None:
    if run.status == "failed":
        return f"failed: {run.status_reason}"
    row = run.means.get(primary)
    if row is None or row.coverage is None or not row.n_scored:
        return f"no query has a value of {primary}"
    if row.coverage < MIN_COVERAGE:
        n_values = counted(row.n_scored + row.n_failed, "value")
        return f"{row.n_failed} of {n_values} of {primary} failed, more than {1 - MIN_COVERAGE:.0%}"
    return None


def _choose(group: Sequence[GridRunRow], values: RunValues, primary: str) -> Choices:
    from warehouse.choosing import choose_best

    rows = [values.run_ids.index(run.run_id) for run in group]
    of_primary = values.values[rows, values.measures.index(primary)]
    return Choices(tuple(group), choose_best(of_primary))


def _intervals(
    runs: Sequence[GridRunRow], values: RunValues
) -> dict[tuple[str, str], tuple[float, float]]:
    from warehouse.bootstrapping import bootstrap_intervals

    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    for run in runs:
        low, high = bootstrap_intervals(values.values[values.run_ids.index(run.run_id)])
        for measure, *ends in zip(values.measures, low.tolist(), high.tolist(), strict=True):
            if ends[0] == ends[0]:  # NaN where the run has no value of it
                intervals[run.run_id, measure] = (ends[0], ends[1])
    return intervals


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value
