"""A suite: the experiments of a night, what each is compared with, and what decides about it.

``read_suite`` resolves every experiment of the file; ``Suite`` is then all that a night needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from schemas.checks import Anchor, Checks
from schemas.comparability import SUMMARY_MEASURES
from schemas.endpoints import Budget
from schemas.errors import ConfigurationError
from schemas.experiment import (
    NAME_PATTERN,
    Experiment,
    absolute_paths,
    digest_of,
    parse_experiment,
)
from schemas.gates import Gate
from schemas.sections import Section
from schemas.toml_files import explain_faults, read_toml, set_value

MISSING = "The demo's suite is deployments/nightly/suite.toml."
DEFAULT_NIGHTS = 7


class BaselineRule(Section):
    """What a night is compared with.

    ``previous``: the last good night before it. ``mean``: each query's mean over the last
    ``nights`` good ones. ``pinned``: always ``run``. Beside ``previous`` and ``mean``, ``run`` is
    a second baseline, which slow drift is gated against.
    """

    kind: Literal["previous", "pinned", "mean"] = "previous"
    run: Annotated[str | None, Field(min_length=1)] = None  # an id or a unique part of one
    nights: Annotated[int | None, Field(ge=2, le=365)] = None  # of mean; None: DEFAULT_NIGHTS

    @model_validator(mode="after")
    def _fits_together(self) -> BaselineRule:
        if self.kind == "pinned" and self.run is None:
            raise ValueError("kind is 'pinned': name the run, such as run = \"0192f3a1\"")
        if self.nights is not None and self.kind != "mean":
            raise ValueError(f"nights is of kind 'mean', and kind is {self.kind!r}")
        if self.run is not None and self.run.startswith("latest"):
            raise ValueError(
                f"run is {self.run!r}, which moves every night; name the id of one run "
                "(`rankhouse runs` lists them)"
            )
        return self

    @property
    def n_nights(self) -> int:
        """Good nights that make up the baseline, at most."""
        return (self.nights or DEFAULT_NIGHTS) if self.kind == "mean" else 1


class Keep(Section):
    """How long something is kept; without ``days`` for ever."""

    days: Annotated[int | None, Field(ge=1, le=36_500)] = None


class KeepFiles(Keep):
    """How long files are kept, and how much of them: the oldest go first."""

    gigabytes: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None


class Retention(Section):
    """What is pruned after a night, unless a kept run needs it; by default nothing is."""

    artifacts: KeepFiles = KeepFiles()  # days since they were last used
    spool: KeepFiles = KeepFiles()  # parts that were refused
    events: Keep = Keep()
    attempts: Keep = Keep()  # runs of a night beside the one that counts

    @property
    def has_limits(self) -> bool:
        """Whether anything is pruned at all."""
        return self != Retention()


class Schedule(Section):
    """When ``rankhouse serve`` starts a night."""

    cron: Annotated[str | None, Field(min_length=1)] = None
    timezone: Annotated[str, Field(min_length=1)] = "UTC"


class Notify(Section):
    """Who is told; the URLs stand in the environment, since they hold secrets."""

    urls_env: Annotated[str | None, Field(pattern=r"^[A-Z_][A-Z0-9_]{0,63}$")] = None
    seconds: Annotated[float, Field(ge=1, le=300, allow_inf_nan=False)] = 20.0  # that a night waits


class SuiteExperiment(Section):
    """One experiment as the file names it."""

    path: Annotated[str, Field(min_length=1)]  # relative to the suite's file
    set: dict[str, Any] = Field(default_factory=dict)  # {"chunking.size" = 512}
    baseline: BaselineRule | None = None  # in place of the suite's
    gate: tuple[Gate, ...] | None = None  # likewise


class SuiteFile(Section):
    """The file as it stands."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    experiment: Annotated[tuple[SuiteExperiment, ...], Field(min_length=1)]
    baseline: BaselineRule = BaselineRule()
    gate: tuple[Gate, ...] = ()
    budget: Budget | None = None  # of the whole night
    retention: Retention = Retention()
    schedule: Schedule = Schedule()
    notify: Notify = Notify()
    canaries: Literal["endpoints", "all", "none"] = "endpoints"
    anchor: Anchor = Anchor()
    noise_runs: Annotated[int, Field(ge=0, le=20)] = 0


class Entry(Section):
    """One experiment of a night, resolved."""

    experiment: Experiment  # its paths are absolute
    baseline: BaselineRule
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)]


class Suite(Section):
    """What a night does."""

    name: str
    path: str  # of the file, absolute
    entries: Annotated[tuple[Entry, ...], Field(min_length=1)]
    budget: Budget | None = None
    retention: Retention = Retention()
    schedule: Schedule = Schedule()
    notify: Notify = Notify()
    checks: Checks = Checks()

    @property
    def digest(self) -> str:
        """Of everything but where the file is."""
        return digest_of(self.model_dump(mode="json", exclude={"path"}))


def read_suite(path: Path) -> Suite:
    """Read a suite and every experiment that it names.

    Raises:
        ConfigurationError: a file cannot be read, or something in it cannot be used: the fault is
            named with its key; a gate on a measure that the experiment does not compute; two
            experiments of one name.
    """
    table = read_toml(path, missing=MISSING)
    table.setdefault("name", path.stem)
    table.setdefault("experiment", [])
    if table["experiment"] == []:
        raise ConfigurationError(
            f"{path}: the suite names no experiment; add at least one table\n"
            '  [[experiment]]\n  path = "experiment.toml"'
        )
    try:
        file = SuiteFile.model_validate(table)
    except ValidationError as error:
        raise ConfigurationError(explain_faults(error, SuiteFile, where=str(path))) from None
    entries = tuple(_resolve(file, entry, path) for entry in file.experiment)
    if file.budget is not None and file.budget.money is not None:
        _check_prices([entry.experiment for entry in entries], path)
    _refuse_twins([entry.experiment.name for entry in entries], path)
    shared = file.model_dump(include={"name", "budget", "retention", "schedule", "notify"})
    checks = _checks(file, entries, path)
    return Suite.model_validate(
        {**shared, "path": str(path.absolute()), "entries": entries, "checks": checks}
    )


def _checks(file: SuiteFile, entries: tuple[Entry, ...], path: Path) -> Checks:
    """What the night checks, the anchor's path absolute."""
    summaries = [entry.experiment.summary for entry in entries]
    has_llm_judge = any(summary and summary.judge != "lexical" for summary in summaries)
    asked = {"noise_runs": file.noise_runs > 0, "anchor.path": file.anchor.path is not None}
    for key, is_asked in asked.items():
        if is_asked and not has_llm_judge:
            raise ConfigurationError(
                f"{path}: {key} is about a judge that can change its mind, and no experiment of "
                "the suite has an LLM as summary.judge; leave it out"
            )
    anchor = file.anchor
    if anchor.path is not None:
        found = (path.absolute().parent / Path(anchor.path).expanduser()).resolve()
        anchor = anchor.model_copy(update={"path": str(found)})
    return Checks(canaries=file.canaries, anchor=anchor, noise_runs=file.noise_runs)


def _resolve(file: SuiteFile, named: SuiteExperiment, path: Path) -> Entry:
    source = (path.absolute().parent / Path(named.path).expanduser()).resolve()
    table = read_toml(source, missing=f"{path} names it.")
    for key, value in named.set.items():
        set_value(table, key, value, where=f"{path}: experiment.set")
    table.setdefault("name", source.stem)
    experiment = absolute_paths(
        parse_experiment(table, where=f"{path}: {named.path}"), source.parent
    )
    gates = file.gate if named.gate is None else named.gate
    _check_gates(gates, experiment, path)
    return Entry(experiment=experiment, baseline=named.baseline or file.baseline, gates=gates)


def _check_gates(gates: tuple[Gate, ...], experiment: Experiment, path: Path) -> None:
    where = f"{path}: experiment {experiment.name!r}"
    computed = [*experiment.measures, *(SUMMARY_MEASURES if experiment.summary else ())]
    if not gates:
        raise ConfigurationError(
            f"{where}: no gate decides about its nights; add one\n"
            f'  [[gate]]\n  measure = "{computed[0]}"\n  delta = 0.02'
        )
    names = [gate.measure for gate in gates]
    for name in names:
        if name not in computed:
            raise ConfigurationError(
                f"{where}: the gate's measure {name!r} is not computed; it computes "
                f"{', '.join(computed)}. Add it to the experiment's measures, or gate another."
            )
        if names.count(name) > 1:
            raise ConfigurationError(f"{where}: {name} is gated twice")
        if name in SUMMARY_MEASURES and _reads_retrieved(experiment):
            raise ConfigurationError(
                f"{where}: {name} is gated, but summary.contexts = 'retrieved': a score against "
                "what was retrieved falls when retrieval finds more. Gate a ranking measure, or "
                "set summary.contexts = 'reference'."
            )


def _check_prices(experiments: list[Experiment], path: Path) -> None:
    """Money can only be kept to where every model has a price, and all are in one currency."""
    currencies = set()
    for experiment in experiments:
        if experiment.summary is None:
            continue
        priced = {price.model for price in experiment.summary.prices}
        currencies |= {price.currency for price in experiment.summary.prices}
        for key, endpoint in experiment.summary.endpoints.items():
            if endpoint.model not in priced:
                raise ConfigurationError(
                    f"{path}: budget.money cannot be kept: the price of {endpoint.model} "
                    f"(summary.{key} of {experiment.name!r}) is not in its summary.prices"
                )
    if len(currencies) > 1:
        raise ConfigurationError(
            f"{path}: budget.money cannot be kept: prices are in {', '.join(sorted(currencies))}"
        )


def _reads_retrieved(experiment: Experiment) -> bool:
    return experiment.summary is not None and experiment.summary.contexts == "retrieved"


def _refuse_twins(names: list[str], path: Path) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ConfigurationError(
            f"{path}: two experiments are called {twins[0]!r}, and results are known by that "
            f'name; give one another: set = {{ name = "{twins[0]} 2" }}'
        )
