"""When a stage may be reused: keys over content, and records that are checked before use.

A key covers the stage's name, the fingerprint of its code, the versions of the libraries that
decide its output, and its inputs: artifacts by digest, configuration sections by value. Paths,
hosts, clocks and the whole experiment are never in it.
"""

from __future__ import annotations

import logging
import time
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from prefect.cache_policies import CachePolicy
from prefect.results import get_result_store
from prefect.settings import get_current_settings
from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.artifacts import Artifact, StageOutput
from schemas.experiment import digest_of
from schemas.records import RECORDS_VERSION
from tasks.artifacts import ArtifactStore
from tasks.fingerprints import fingerprint_code, library_versions
from tasks.memory import give_back
from tasks.stage_records import touch_record

logger = logging.getLogger("rankhouse")


class Workspace(BaseModel):
    """Where stages read and write on this machine; never part of a key."""

    model_config = ConfigDict(frozen=True)

    store_url: str
    scratch: str  # local copies of a remote store's artifacts
    items: str  # the item stores: embeddings, LLM calls
    threads: int | None = None
    device: str = "cpu"
    shows_progress: bool = False


@dataclass
class StagePolicy(CachePolicy):
    """Prefect's cache policy of one stage."""

    stage: str = ""
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    ignoring: frozenset[str] = field(default_factory=frozenset)

    @property
    def code_digest(self) -> str:
        """The fingerprint of the modules that do the work, as one value."""
        return digest_of([fingerprint_code(module) for module in self.modules])

    def compute_key(
        self,
        task_ctx: Any,
        inputs: dict[str, Any],
        flow_parameters: dict[str, Any],
        **kwargs: Any,
    ) -> str | None:
        """The key under which Prefect keeps the stage's record."""
        return self.key_of(inputs)

    def key_of(self, inputs: dict[str, Any]) -> str:
        """Stage name and sha256 over everything that decides the output.

        Raises:
            TypeError: an input has no value that a key can be made of.
        """
        keyed = {name: value for name, value in inputs.items() if name not in self.ignoring}
        ingredients = {
            "stage": self.stage,
            "code": self.code_digest,
            "records": RECORDS_VERSION,
            "libraries": library_versions(self.libraries),
            "unicode": unicodedata.unidata_version,  # decides case folding and normalisation
            "inputs": {name: _keyed(value, name) for name, value in sorted(keyed.items())},
        }
        return f"{self.stage}-{digest_of(ingredients)}"


def stage_policy(
    stage: str,
    *modules: str,
    libraries: tuple[str, ...] = (),
    ignoring: tuple[str, ...] = (),
) -> StagePolicy:
    """A policy for a stage whose work is done by ``modules``.

    Args:
        stage: the stage's name, a verb and a noun.
        modules: the modules of ``tasks`` whose functions the stage calls; they and what they import
            are in the key.
        libraries: distributions whose version decides the output; Polars always does.
        ignoring: parameters that cannot change the output, beside the workspace.
    """
    return StagePolicy(
        stage=stage,
        modules=modules,
        libraries=("polars", *libraries),
        ignoring=frozenset({"workspace", *ignoring}),
    )


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage of one run: what it made, and whether it had to."""

    stage: str
    key: str
    output: StageOutput
    is_cached: bool
    started_at: datetime
    seconds: float  # of this run: a look-up when cached
    code_digest: str
    inputs: dict[str, str]  # name of each artifact it read: digest
    is_shared: bool = False  # another run of the same grid made it, or looked it up


def run_stage(task: Any, store: ArtifactStore, *, is_anew: bool = False, **inputs: Any) -> StageRun:
    """Call a stage's task; reuse its record only when every artifact of it is still there.

    Args:
        task: a Prefect task whose cache policy is a StagePolicy, returning a dumped StageOutput.
        store: where its artifacts are.
        is_anew: whether it runs whatever was stored before.
        inputs: the task's parameters.

    Raises:
        Exception: whatever the stage raised.
    """
    policy: StagePolicy = task.cache_policy
    key = policy.key_of(inputs)
    is_usable = not is_anew and stored_output(task, key, store) is not None
    started_at, started = datetime.now(UTC), time.perf_counter()
    state = task.with_options(refresh_cache=not is_usable)(**inputs, return_state=True)
    output = StageOutput.model_validate(state.result(raise_on_failure=True))
    give_back()
    touch_record(get_current_settings().results.local_storage_path, key)
    return StageRun(
        stage=policy.stage,
        key=key,
        output=output,
        is_cached=state.name == "Cached",
        started_at=started_at,
        seconds=time.perf_counter() - started,
        code_digest=policy.code_digest,
        inputs={
            name: value.digest for name, value in inputs.items() if isinstance(value, Artifact)
        },
    )


def stored_output(task: Any, key: str, store: ArtifactStore) -> StageOutput | None:
    """What a stage has stored under its key; None: it has to run.

    Its record cannot be read, holds failed values, or one of its artifacts is gone.
    """
    records: Any = get_result_store().update_for_task(task)
    if not records.exists(key):
        return None
    try:
        output = StageOutput.model_validate(records.read(key).result)
    except (ValidationError, ValueError, KeyError, TypeError):
        logger.warning("%s: its record cannot be read; the stage runs again", key[:24])
        return None
    if not output.is_reusable:
        return None
    lost = [artifact.name for artifact in output.artifacts.values() if not store.has(artifact)]
    if lost:
        logger.warning(
            "stage %s runs again: artifact %s is missing or short", output.stage, lost[0]
        )
    return None if lost else output


def _keyed(value: Any, name: str) -> Any:
    """The JSON value that stands for an input in a key."""
    if isinstance(value, Artifact):
        return value.digest
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): _keyed(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_keyed(item, name) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"input {name!r} of a stage is a {type(value).__name__}: no key can be made")
