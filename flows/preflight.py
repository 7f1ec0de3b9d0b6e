"""What can be refused before a server starts or a model loads: files, model, plug-in, storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from schemas.errors import ConfigurationError, InputError, UsageError
from schemas.experiment import Experiment
from schemas.home import Home
from schemas.orders import StoredDocuments, at_date
from schemas.sections import Section
from tasks.file_digests import sha256_of_file
from tasks.fingerprints import fingerprint_plugin

if TYPE_CHECKING:
    from schemas.rerankers import Rerank
    from schemas.retrievers import Retrieval
    from tasks.loading import Source
    from tasks.models import ResolvedModel


Found = TypeVar("Found")

EARLIEST = date(1970, 1, 1)  # a logical date


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything outside of Rankhouse that an evaluation reads, found and hashed."""

    corpus: Source
    benchmark: Source
    model: ResolvedModel | None  # None: nothing is embedded
    reranker: ResolvedModel | None  # None: nothing is reranked
    tokenizer_file: str | None  # None: sizes are in characters
    tokenizer_digest: str | None
    plugin_digest: str | None  # of the function that chunks
    retriever_digest: str | None = None  # of a retriever's plug-in, or of a run file


def survey_inputs(
    experiment: Experiment,
    say: Callable[[str], None] | None = None,
    known: dict[str, Any] | None = None,
    *,
    night: date | None = None,
    stored: StoredDocuments | None = None,
) -> Inputs:
    """Find and hash what an experiment reads; nothing is parsed or written.

    Args:
        experiment: its paths are absolute.
        say: told when a model has to be downloaded first.
        known: what was found for the other experiments of a grid, and is not hashed again; filled.
        night: whose corpus and benchmark, where a path says ``{date}``; None: today in UTC.
        stored: documents in place of the corpus' files.

    Raises:
        InputError: a file is missing, empty or cannot be read.
        ConfigurationError: the model is not to be had, or a plug-in does not exist.
    """
    from tasks.loading import survey_benchmark, survey_corpus
    from tasks.models import resolve_model

    known = {} if known is None else known
    dated = at_date(experiment, night or datetime.now(UTC).date())
    corpus = (
        _once(known, dated.corpus, lambda: survey_corpus(dated.corpus))
        if stored is None
        else _source_of(stored)
    )
    benchmark = _once(known, dated.benchmark, lambda: survey_benchmark(dated.benchmark))
    plugin_digest = _plugin_digest(experiment.chunking.plugin, "chunking.plugin")
    retriever_digest = _retriever_digest(experiment.retrieval)
    counts_tokens = experiment.chunking.unit == "tokens"
    model = None
    if experiment.retrieval.needs_vectors or counts_tokens:
        embedding = experiment.embedding
        model = _once(known, embedding, lambda: resolve_model(embedding, say=say))
    if model is not None and experiment.retrieval.needs_vectors:
        _check_index(experiment, model)
    tokenizer = model.tokenizer_file if model is not None and counts_tokens else None
    if counts_tokens and tokenizer is None:
        why = (
            "has no tokenizer.json to count tokens with"
            if experiment.embedding.endpoint is None
            else "is behind an endpoint, and its tokenizer is not known here"
        )
        raise ConfigurationError(
            f"chunking.unit = 'tokens': the model {experiment.embedding.model} {why}; "
            "use unit = 'characters'"
        )
    return Inputs(
        corpus=corpus,
        benchmark=benchmark,
        reranker=_reranker(experiment.retrieval.rerank, say),
        model=model if experiment.retrieval.needs_vectors else None,
        tokenizer_file=None if tokenizer is None else str(tokenizer),
        tokenizer_digest=None if tokenizer is None else sha256_of_file(tokenizer),
        plugin_digest=plugin_digest,
        retriever_digest=retriever_digest,
    )


def _reranker(rerank: Rerank | None, say: Callable[[str], None] | None) -> ResolvedModel | None:
    if rerank is None:
        return None
    from tasks.models import resolve_reranker

    return resolve_reranker(rerank, say=say)


def _source_of(stored: StoredDocuments) -> Source:
    """Stands for files that are not read: the documents are known by their digest."""
    from tasks.loading import Source

    return Source(files=(), format="stored", digest=stored.corpus_digest)


def check_benchmark(inputs: Inputs, experiment: Experiment) -> None:
    """Read the benchmark: it is small, and its faults need not wait for a server.

    Raises:
        InputError: with file and line.
    """
    from tasks.loading import load_benchmark

    load_benchmark(inputs.benchmark, split=experiment.benchmark.split)


def refuse_future(logical_date: date | None) -> None:
    """Refuse a night that has not begun anywhere: a slip would stand before all real ones.

    Raises:
        UsageError: it is later than tomorrow in UTC.
    """
    latest = datetime.now(UTC).date() + timedelta(days=1)
    if logical_date is not None and logical_date > latest:
        raise UsageError(f"--date {logical_date} is in the future; the latest is {latest}")


def refuse_unlikely(logical_date: date | None) -> None:
    """Refuse a night in the future, or before there was anything to evaluate: both are slips.

    Raises:
        UsageError: it is later than tomorrow in UTC, or before 1970.
    """
    refuse_future(logical_date)
    if logical_date is not None and logical_date < EARLIEST:
        raise UsageError(f"--date {logical_date} is long past; the earliest is {EARLIEST}")


def check_storage(experiment: Experiment, home: Home) -> None:
    """Refuse a home or store that cannot be written, or a warehouse that cannot be used.

    Raises:
        StorageError: says which file, and what to do.
    """
    from warehouse.migrate import check_warehouse

    home.prepare()
    check_warehouse(home)
    if experiment.execution.store is not None:
        from tasks.artifacts import ArtifactStore

        ArtifactStore(experiment.execution.store, scratch=home.path / "downloads").prepare()


def check_endpoints(experiment: Experiment, home: Home) -> None:
    """Refuse endpoints that cannot work: a missing key, a wrong URL, an unknown model.

    Raises:
        ConfigurationError: see ``tasks.probing``; one small call is made at the first use.
    """
    if experiment.summary is not None and experiment.summary.endpoints:
        from tasks import engaging

        engaging.check_endpoints(experiment.summary, home.items)
    if experiment.retrieval.needs_vectors and experiment.embedding.endpoint is not None:
        from tasks.endpoint_embedding import check_endpoint

        check_endpoint(experiment.embedding, home.items / "embeddings")
    if experiment.retrieval.http is not None:
        from tasks.http_retrieving import check_retriever

        check_retriever(experiment.retrieval, home.items / "retrieved")


def _check_index(experiment: Experiment, model: ResolvedModel) -> None:
    """Refuse an index that FAISS cannot make of the model's vectors, as far as that is known."""
    from tasks.dimensions import dimensions_of
    from tasks.factories import fault_of

    endpoint = experiment.embedding.endpoint
    dim = None if endpoint is None else endpoint.dimensions
    if model.folder is not None:
        dim = dimensions_of(model.folder)
    fault = fault_of(experiment.index, dim)
    if fault is not None:
        raise ConfigurationError(fault)


def _once(known: dict[str, Any], section: Section, find: Callable[[], Found]) -> Found:
    """What a section of the configuration names, found once for all that have the same one."""
    key = f"{type(section).__name__} {section.model_dump_json()}"
    if key not in known:
        known[key] = find()
    found: Found = known[key]
    return found


def _retriever_digest(retrieval: Retrieval) -> str | None:
    """What a retriever from elsewhere is, as far as it is here."""
    if retrieval.run_file is not None:
        path = Path(retrieval.run_file)
        try:
            return sha256_of_file(path)
        except FileNotFoundError:
            raise InputError("there is no such file (retrieval.run_file)", path=path) from None
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", path=path) from None
    return _plugin_digest(retrieval.plugin, "retrieval.plugin")


def _plugin_digest(plugin: str | None, setting: str) -> str | None:
    """The plug-in's source enters the key of its stage: an edited plug-in runs anew."""
    if plugin is None:
        return None
    name, reason, digest = plugin.partition(":")[0], "", None
    try:
        digest = fingerprint_plugin(name)
    except Exception as error:  # a package above it that breaks may raise anything
        reason = f" ({type(error).__name__}: {error})"
    if digest is None:
        raise ConfigurationError(
            f"{setting} = {plugin!r}: there is no module {name!r} with Python source on "
            f"Python's path{reason}. Install it into this environment, or set PYTHONPATH to its "
            "folder."
        )
    return digest
