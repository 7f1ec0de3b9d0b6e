"""What the runs of a grid would compute: the same stages in the same order, and none of them run.

What a new stage would make is promised: an artifact without bytes, known by the key of its stage.
So a stage after a new one is new as well, and equal stages of two runs are found to be shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from flows.pipeline import Pipeline
from schemas.artifacts import Artifact, StageOutput
from schemas.errors import ArtifactDamagedError
from schemas.experiment import digest_of
from tasks.caching import StagePolicy, StageRun, stored_output
from tasks.texts import texts_of

PROMISED = "promised"

State = Literal["new", "shared", "cached"]


@dataclass(slots=True)
class Costs:
    """What a run would pay; None: it cannot be known before the stages before it have run."""

    texts_to_embed: int | None = 0
    llm_calls: int | None = 0
    tokens: int | None = 0  # of endpoints, for language and for embeddings
    cost: float | None = 0.0
    currency: str | None = None


@dataclass(slots=True)
class GridPlan:
    """What the runs that were planned before will have computed."""

    keys: set[str] = field(default_factory=set)  # of new stages, and of calls that are counted
    texts: set[tuple[Path, bytes]] = field(default_factory=set)  # that will have a vector


@dataclass
class PlannedPipeline(Pipeline):
    """A pipeline that only looks which of its stages are stored."""

    plan: GridPlan = field(default_factory=GridPlan)
    states: dict[str, State] = field(default_factory=dict)  # by stage
    costs: Costs = field(default_factory=Costs)

    def run(self) -> None:
        """Plan every stage; nothing runs but the filling of quotes, which is never stored."""
        self._run_once()
        self._count_llm_calls()

    def has(self, *artifacts: Artifact) -> bool:
        """Whether these are there already."""
        return not any(artifact.kind == PROMISED for artifact in artifacts)

    def run_stage(self, task: Any, **inputs: Any) -> dict[str, Artifact]:
        """Look a stage up; what it would make is promised when it is not stored."""
        policy: StagePolicy = task.cache_policy
        key = policy.key_of(inputs)
        read = [value for value in inputs.values() if isinstance(value, Artifact)]
        output = stored_output(task, key, self.store) if self.has(*read) else None
        state: State = "cached"
        if output is None:
            state = "shared" if key in self.plan.keys else "new"
            output = _promise(policy.stage, key)
            self.plan.keys.add(key)
        self.states[policy.stage] = state
        self.runs[policy.stage] = StageRun(
            stage=policy.stage,
            key=key,
            output=output,
            is_cached=state == "cached",
            started_at=datetime.now(UTC),
            seconds=0.0,
            code_digest=policy.code_digest,
            inputs={},
        )
        if state == "new" and policy.stage in ("embed_chunks", "embed_queries"):
            self._count_texts(policy.stage, inputs)
        return output.artifacts

    def _call(self, task: Any, **inputs: Any) -> StageOutput:
        read = [value for value in inputs.values() if isinstance(value, Artifact)]
        if self.has(*read):
            return super()._call(task, **inputs)
        return _promise(task.name, "-".join(artifact.digest for artifact in read))

    def _refuse_lost_truth(self) -> None:
        if self.has(self.artifact("label", "notes")):
            super()._refuse_lost_truth()

    def _count_texts(self, stage: str, inputs: dict[str, Any]) -> None:
        """Texts without a vector, but for those that a run before this one will have encoded."""
        from tasks.embedding import find_missing
        from tasks.pricing import MILLION, estimate_tokens

        source = inputs["chunks" if stage == "embed_chunks" else "queries"]
        embedding = self.experiment.embedding
        if not self.has(source):
            self.costs.texts_to_embed = None
            if embedding.endpoint is not None:
                self.costs.tokens = self.costs.cost = None
            return
        is_of_chunks = stage == "embed_chunks"
        columns = ("title", "text") if is_of_chunks else ("text",)
        frame = self.store.frame(source, columns=columns)
        missing = find_missing(
            texts_of(frame) if is_of_chunks else frame["text"].to_list(),
            inputs["model"],
            embedding,
            prompt=embedding.document_prompt if is_of_chunks else embedding.query_prompt,
            items=Path(self.workspace.items) / "embeddings",
            device=self.workspace.device,
        )
        new = {place: text for place, text in missing.items() if place not in self.plan.texts}
        self.plan.texts |= set(new)
        self.costs.texts_to_embed = _plus(self.costs.texts_to_embed, len(new))
        if embedding.endpoint is not None:
            tokens = sum(estimate_tokens(text) for text in new.values())
            price = embedding.endpoint.price
            self._pay(tokens, None if price is None else tokens * price / MILLION)
            self.costs.currency = embedding.endpoint.currency

    def _count_llm_calls(self) -> None:
        """Calls that are not stored, but for those that a run before this one will have sent.

        They are counted as ``rankhouse evaluate --dry-run`` counts them.
        """
        from tasks.estimating import estimate_calls
        from tasks.gathering import gather_contexts

        summary = self.experiment.summary
        states = [self.states.get(stage) for stage in ("write_responses", "score_summaries")]
        if summary is None or not summary.endpoints or "new" not in states:
            return
        frames = [
            self.artifact("load_benchmark", "queries"),
            self.retrieved,
            self.artifact("chunk_corpus", "chunks"),
        ]
        try:
            queries, rankings, chunks = (self.store.frame(frame) for frame in frames)
        except ArtifactDamagedError:  # they are promised
            self.costs.llm_calls = self.costs.tokens = self.costs.cost = None
            return
        contexts = gather_contexts(queries, rankings, chunks, summary)
        # With every response given, retrieval decides no call but by the contexts.
        is_given = queries["response"].null_count() == 0
        asked = [summary.model_dump(mode="json"), contexts.rows(), queries["response"].to_list()]
        digest = digest_of([*asked, None if is_given else self.retrieved.digest])
        if digest in self.plan.keys:
            return
        self.plan.keys.add(digest)
        for row in estimate_calls(queries, rankings, chunks, summary, Path(self.workspace.items)):
            self.costs.llm_calls = _plus(self.costs.llm_calls, row["calls"])
            self._pay(row["prompt_tokens"] + row["completion_tokens"], row["cost"])
            self.costs.currency = row["currency"] or self.costs.currency

    def _pay(self, tokens: int, cost: float | None) -> None:
        self.costs.tokens = _plus(self.costs.tokens, tokens)
        is_free = tokens == 0
        self.costs.cost = _plus(self.costs.cost, 0.0 if is_free else cost)


def _plus(total: Any, more: Any) -> Any:
    """A sum that is unknown when a part of it is."""
    return None if total is None or more is None else total + more


def _promise(stage: str, key: str) -> StageOutput:
    return StageOutput.model_construct(stage=stage, artifacts=_Promised(key), figures=_NotYet())


class _Promised(dict[str, Artifact]):
    """The artifacts that a stage would make, whatever their names."""

    def __init__(self, key: str):
        super().__init__()
        self._key = key

    def __missing__(self, name: str) -> Artifact:
        return Artifact(kind=PROMISED, suffix="", digest=f"{self._key}/{name}", size=0, n_items=0)


class _NotYet(dict[str, Any]):
    """Figures that are not there yet count as 0."""

    def __missing__(self, name: str) -> int:
        return 0
