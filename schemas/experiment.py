"""One configuration: the experiment file as frozen models.

The same models are the flows' parameters. Paths are relative to the file and are resolved by
``read_experiment``. A section goes into the key of its stage, never the whole.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from schemas.encoders import Embedding
from schemas.endpoints import Budget, Endpoint, Price
from schemas.errors import ConfigurationError
from schemas.indexes import Index
from schemas.measures import Measure
from schemas.retrievers import Retrieval
from schemas.sections import PLUGIN_PATTERN, Section
from schemas.toml_files import apply_setting, explain_faults, read_toml

NAME_PATTERN = r"^[^\s/\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,99}$"

LabelMethod = Literal["answer_text", "span", "document"]
MISSING = "`rankhouse init FOLDER` writes an experiment file for your own documents."


class Corpus(Section):
    """Where the documents are; ``format`` is guessed when absent."""

    path: Annotated[str, Field(min_length=1)]
    format: Literal["folder", "jsonl", "parquet", "csv", "beir", "squad", "ragas"] | None = None


class Benchmark(Section):
    """Where the queries and their ground truth are."""

    path: Annotated[str, Field(min_length=1)]
    format: Literal["jsonl", "beir", "squad", "ragas", "csv", "trec"] | None = None
    split: str | None = None
    strict: bool = False


class Chunking(Section):
    """How documents are cut into what is indexed."""

    method: Literal["none", "fixed", "recursive", "sentences", "markdown"] = "recursive"
    unit: Literal["characters", "tokens"] = "characters"
    size: Annotated[int, Field(ge=1)] = 800
    overlap: Annotated[int, Field(ge=0)] = 0
    with_title: bool = True
    plugin: Annotated[str | None, Field(pattern=PLUGIN_PATTERN)] = None

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Chunking:
        if self.method != "none" and self.overlap >= self.size:
            raise ValueError(
                f"overlap is {self.overlap} and size is {self.size}: "
                "the overlap must be smaller than the size"
            )
        return self


class Labelling(Section):
    """When a retrieved item is relevant."""

    method: LabelMethod
    min_coverage: Annotated[float, Field(gt=0, le=1)] = 0.5
    level: Annotated[int, Field(ge=1)] = 1


def _form_of(value: Any) -> str:
    return "endpoint" if isinstance(value, dict | Endpoint) else "name"


class Summary(Section):
    """How the summary of a query is made and scored; section absent: not at all."""

    generator: (
        Annotated[Literal["extractive"], Tag("name")] | Annotated[Endpoint, Tag("endpoint")]
    ) = Field(default="extractive", discriminator=Discriminator(_form_of))
    judge: Annotated[Literal["lexical"], Tag("name")] | Annotated[Endpoint, Tag("endpoint")] = (
        Field(default="lexical", discriminator=Discriminator(_form_of))
    )
    contexts: Literal["reference", "retrieved"] | None = None
    n_contexts: Annotated[int, Field(ge=1)] = 5
    max_characters: Annotated[int, Field(ge=1)] = 600
    max_context_tokens: Annotated[int, Field(ge=16)] = 6000  # of an LLM generator's contexts
    coeff: Annotated[float, Field(ge=0, le=1)] = 0.5
    length_penalty: bool = True
    prompts: Literal["en", "fr", "zh"] = "en"
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    # What it may cost; none of these decides a score.
    prices: tuple[Price, ...] = ()
    budget: Budget | None = None
    deadline: Annotated[float, Field(gt=0)] = 3600.0  # seconds a stage

    @property
    def is_deterministic(self) -> bool:
        """Whether a failure would only happen again: then a stage that holds one is reused."""
        return self.generator == "extractive" and self.judge == "lexical"

    @property
    def generator_name(self) -> str:
        """What stands in rows and on screens."""
        return self.generator if isinstance(self.generator, str) else self.generator.model

    @property
    def judge_name(self) -> str:
        """What stands in rows and on screens."""
        return self.judge if isinstance(self.judge, str) else self.judge.model

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by the key of the section that names them."""
        named = {"generator": self.generator, "judge": self.judge}
        return {key: value for key, value in named.items() if isinstance(value, Endpoint)}

    @field_validator("generator", "judge", mode="before")
    @classmethod
    def _name_or_table(cls, value: Any, info: ValidationInfo) -> Any:
        known = {"generator": "extractive", "judge": "lexical"}[str(info.field_name)]
        if value == known or _form_of(value) == "endpoint":
            return value
        raise ValueError(
            f"{info.field_name} is {value!r}: expected {known!r}, or a table that describes an "
            f'LLM: [summary.{info.field_name}] with model = "…", and base_url = "…" unless it '
            "is OpenAI's"
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Summary:
        if self.repeats > 1 and self.judge == "lexical":
            raise ValueError(
                f"repeats is {self.repeats}, but the lexical judge gives the same answers each "
                "time; name an LLM as the judge, or leave repeats out"
            )
        currencies = sorted({price.currency for price in self.prices})
        if len(currencies) > 1:
            raise ValueError(f"prices are in {', '.join(currencies)}; give all in one currency")
        dated = [(price.model, price.since) for price in self.prices]
        twice = sorted({model for model, since in dated if dated.count((model, since)) > 1})
        if twice:
            raise ValueError(f"prices: {twice[0]} has two prices since the same day")
        if self.budget is not None and self.budget.money is not None:
            priced = {price.model for price in self.prices}
            for key, endpoint in self.endpoints.items():
                if endpoint.model not in priced:
                    raise ValueError(
                        f"budget.money cannot be kept: the price of {endpoint.model} "
                        f"(summary.{key}) is not in summary.prices"
                    )
        return self


class Execution(Section):
    """Where and with how much of the machine; never part of a result's key unless bits change."""

    store: str | None = None  # an fsspec URL; None: artifacts/ in the home folder
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    device: str = "cpu"

    @field_validator("store")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and "@" in value.partition("://")[2].partition("/")[0]:
            raise ValueError(
                "the URL holds credentials, which would be stored with every run; leave them "
                "out and set them in the environment, as the store's library documents"
            )
        return value


DEFAULT_MEASURES = ("hit@1", "hit@5", "recall@5", "rr@10", "ndcg@10")


class Experiment(Section):
    """One configuration of one evaluation."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    corpus: Corpus
    benchmark: Benchmark
    chunking: Chunking = Chunking()
    embedding: Embedding = Embedding()
    index: Index = Index()
    retrieval: Retrieval = Retrieval()
    labelling: Labelling
    measures: Annotated[tuple[str, ...], Field(min_length=1)] = DEFAULT_MEASURES
    summary: Summary | None = None
    execution: Execution = Execution()

    @field_validator("measures")
    @classmethod
    def _canonical_measures(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = [str(Measure.parse(name)) for name in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"measures are listed twice: {', '.join(twice)}")
        return tuple(names)

    @model_validator(mode="after")
    def _measures_fit(self) -> Experiment:
        for measure in self.parsed_measures:
            measure.check_fits(depth=self.retrieval.depth, label_method=self.labelling.method)
        return self

    @property
    def parsed_measures(self) -> tuple[Measure, ...]:
        """The measures as values, in the file's order."""
        return tuple(Measure.parse(name) for name in self.measures)

    @property
    def digest(self) -> str:
        """``config_digest``: sha256 of the configuration as canonical JSON, name included."""
        return digest_of(self.model_dump(mode="json"))


def digest_of(value: Any) -> str:
    """Sha256 of a JSON value: sorted keys, no white space, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_experiment(path: Path, settings: tuple[str, ...] = ()) -> Experiment:
    """Read an experiment file, apply ``--set KEY=VALUE`` and resolve its paths.

    Raises:
        ConfigurationError: the file cannot be read, or something in it cannot be used; every
            fault is named with its key, and an unknown key with the nearest valid one.
    """
    table = read_toml(path, missing=MISSING)
    if "grid" in table or "variant" in table:
        raise ConfigurationError(
            f"{path}: this is a grid of experiments; run it with: rankhouse experiment {path}"
        )
    for setting in settings:
        apply_setting(table, setting)
    table.setdefault("name", path.stem)
    experiment = parse_experiment(table, where=str(path))
    return absolute_paths(experiment, path.absolute().parent)


def parse_experiment(table: dict[str, Any], *, where: str) -> Experiment:
    """Validate a table that was read from ``where``; see ``read_experiment``."""
    try:
        return Experiment.model_validate(table)
    except ValidationError as error:
        raise ConfigurationError(explain_faults(error, Experiment, where=where)) from None


def absolute_paths(experiment: Experiment, folder: Path) -> Experiment:
    """The experiment with its paths taken from ``folder``."""

    def absolute(path: str) -> str:
        return str((folder / Path(path).expanduser()).resolve())

    update: dict[str, Any] = {
        "corpus": experiment.corpus.model_copy(update={"path": absolute(experiment.corpus.path)}),
        "benchmark": experiment.benchmark.model_copy(
            update={"path": absolute(experiment.benchmark.path)}
        ),
    }

    def located(model: str) -> str:
        is_folder = model.startswith((".", "/", "~")) or (folder / model).is_dir()
        return absolute(model) if is_folder else model

    embedding, retrieval = experiment.embedding, experiment.retrieval
    if embedding.endpoint is None:
        update["embedding"] = embedding.model_copy(update={"model": located(embedding.model)})
    if retrieval.run_file is not None:
        retrieval = retrieval.model_copy(update={"run_file": absolute(retrieval.run_file)})
    if retrieval.rerank is not None:
        model = located(retrieval.rerank.model)
        rerank = retrieval.rerank.model_copy(update={"model": model})
        retrieval = retrieval.model_copy(update={"rerank": rerank})
    update["retrieval"] = retrieval
    return experiment.model_copy(update=update)
