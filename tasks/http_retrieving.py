"""Retrieval by a server that is asked over HTTP, query by query.

A query that stays without an answer has failed; it is no empty
ranking. What was answered is stored at once, so that a run that failed asks for the rest alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from schemas.elsewhere import HttpRetriever
from schemas.endpoints import Endpoint
from schemas.errors import ConfigurationError, StageError
from schemas.experiment import digest_of
from schemas.retrievers import Retrieval
from tasks.calls import Answered, Call, CallStore, Usage
from tasks.elsewhere import Answers, Elsewhere, asked_depth, filters_of, refuse_many_failures
from tasks.hits import HitError, read_hits
from tasks.looping import BackgroundLoop, map_concurrently
from tasks.persisting import Persister
from tasks.placing_hits import PlacedHits, Placer
from tasks.posting import detail_of, secret_of
from tasks.progress import progress_bar
from tasks.troubles import Trouble, trouble_of_status

if TYPE_CHECKING:
    import httpx

SECTION = "retrieval.http"
PROBE = "Are you there?"
STORED = Call("retrieve", (), None, "")
"""What the store of calls has to know of an answer beside its key."""


def retrieve_by_http(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    retrieval: Retrieval,
    *,
    are_documents: bool,
    identity: Mapping[str, Any],
    items: Path,
    say: Callable[[str], None] | None,
) -> Elsewhere:
    """Ask the server for every query, several at once.

    Args:
        documents: DOCUMENTS.
        chunks: CHUNKS.
        queries: BENCHMARK.
        retrieval: the section; it names a server.
        are_documents: whether documents are ranked.
        identity: what has to be equal for a stored answer to be reused.
        items: the folder of the store of answers.
        say: told how far it is.

    Raises:
        ConfigurationError: a variable of the environment is not set.
        StageError: the first query met no server, more than ``max_failed`` of them failed, or
            results are documents and chunks are labelled.
        StorageError: the store cannot be used.
    """
    assert retrieval.http is not None  # noqa: S101
    placer = Placer(chunks, documents, are_documents=are_documents, depth=retrieval.depth)
    k = asked_depth(retrieval, are_documents=are_documents)
    filters = filters_of(queries)
    asked = [
        Asked(query_id, text, k, filters.get(query_id), retrieval.options)
        for query_id, text in queries.select("query_id", "text").iter_rows()
    ]
    loop, store, answers = BackgroundLoop(), CallStore(items), Answers()
    work = _Work(retrieval.http, store, placer, dict(identity), answers)
    tell = None if say is None else progress_bar(say, "queries", len(asked) - 1)
    width = 2 * retrieval.http.max_concurrency
    try:
        loop.run(work.answer_first(asked[0]))
        loop.run(map_concurrently(work.answer, asked[1:], width=width, tell=tell))
    finally:
        loop.run(work.poster.close())
        loop.close()
        store.close()
    refuse_many_failures(
        answers, len(asked), most=retrieval.http.max_failed, who=retrieval.http.url
    )
    figures = {"n_requests": work.persister.n_sent, "n_reused": work.n_reused}
    return answers.gather(queries["query_id"].to_list(), figures)


def check_retriever(retrieval: Retrieval, items: Path) -> None:
    """Refuse a server that cannot work, before anything is spent, by one query at first use.

    Raises:
        ConfigurationError: a variable is not set, no such server, or not such an answer.
    """
    http = retrieval.http
    if http is None:
        return
    poster = QueryPoster(http)
    poster.read_secrets()
    loop, store = BackgroundLoop(), CallStore(items)
    key = digest_of(["probe", http.url, retrieval.options])
    try:
        if store.get(key) is not None:
            return
        quick = http.model_copy(update={"attempts": 2})
        persister = Persister(quick, deadline=http.deadline, section=SECTION)
        body = Asked("probe", PROBE, 1, None, retrieval.options).body()

        async def send(seconds: float) -> None:
            results = await poster.post(body, seconds)
            read_or_raise(results)

        loop.run(persister.ask(send))
        store.put(key, STORED, _place(http), Answered("[]", Usage(), time.time(), 0.0))
    except Trouble as trouble:
        if trouble.was_turned_away and trouble.code is not None:
            return  # it is there and busy
        hint = _hint_of(trouble, http)
        raise ConfigurationError(
            f"{SECTION}: {http.url}: {trouble.message}" + (f"; {hint}" if hint else "")
        ) from None
    finally:
        loop.run(poster.close())
        loop.close()
        store.close()


def _hint_of(trouble: Trouble, http: HttpRetriever) -> str:
    """What to look at when the first query fails; empty: what was answered says it."""
    if trouble.code in (401, 403):
        named = [name for name in (http.api_key_env, *http.headers_env.values()) if name]
        if not named:
            return (
                "it wants a key: name the environment variable that holds it as "
                f"{SECTION}.api_key_env or in {SECTION}.headers_env"
            )
        ending = "s"[: len(named) > 1]
        return f"check the key{ending} in the environment variable{ending} {' and '.join(named)}"
    if trouble.code == 0 or trouble.status == "timeout":
        return f"is the server running, and is {SECTION}.url right?"
    return "" if trouble.code is None else f"check {SECTION}.url"


@dataclass(frozen=True, slots=True)
class Asked:
    """One query as it is posted."""

    query_id: str
    text: str
    k: int
    filter: Mapping[str, Any] | None
    options: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """The JSON that the server gets."""
        body: dict[str, Any] = {"query": self.text, "query_id": self.query_id, "k": self.k}
        if self.filter is not None:
            body["filter"] = dict(self.filter)
        if self.options:
            body["options"] = dict(self.options)
        return body


class QueryPoster:
    """Posts queries to one server, over connections that are kept."""

    def __init__(self, http: HttpRetriever):
        self._http = http
        self._client: httpx.AsyncClient | None = None
        self._secrets: list[str] = []

    def read_secrets(self) -> dict[str, str]:
        """The headers that hold something from the environment.

        Raises:
            ConfigurationError: a variable is not set, or its value cannot be a key.
        """
        headers = {}
        if self._http.api_key_env is not None:
            key = secret_of(self._http.api_key_env, f"{SECTION}: {self._http.url}")
            headers["Authorization"] = f"Bearer {key}"
            self._secrets.append(key)
        for header, variable in self._http.headers_env.items():
            headers[header] = secret_of(variable, f"{SECTION}: {self._http.url}")
            self._secrets.append(headers[header])
        return headers

    async def post(self, body: dict[str, Any], seconds: float) -> Any:
        """The ``results`` of one answer.

        Raises:
            Trouble: there is no answer, or it is an error or no such JSON.
        """
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self.read_secrets(),
                timeout=None,  # noqa: S113 - asyncio.timeout holds the whole of a request
                limits=httpx.Limits(max_connections=self._http.max_concurrency),
            )
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(self._http.url, json=body)
        except TimeoutError:
            message = f"no answer within {seconds:g} s"
            raise Trouble("timeout", message, remedy="wait", was_turned_away=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            reason = self._without_secrets(str(error) or type(error).__name__)
            message = f"no connection: {reason}"
            raise Trouble("invalid_reply", message, remedy="wait", code=0) from None
        try:
            answer = response.json()
        except (ValueError, RecursionError):
            answer = None
        if response.status_code != 200:
            detail = self._without_secrets(detail_of(answer))
            raise trouble_of_status(response.status_code, detail, response.headers)
        if not isinstance(answer, dict) or "results" not in answer:
            start = self._without_secrets(" ".join(response.text[:200].split()))[:80]
            message = f'the answer is not JSON like {{"results": […]}}: {start}'
            raise Trouble("invalid_reply", message, remedy="wait")
        return answer["results"]

    async def close(self) -> None:
        """Close the connections, on the loop that opened them."""
        if self._client is not None:
            await self._client.aclose()

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return text


class _Work:
    """The queries of one stage."""

    def __init__(
        self,
        http: HttpRetriever,
        store: CallStore,
        placer: Placer,
        identity: dict[str, Any],
        answers: Answers,
    ):
        self.poster = QueryPoster(http)
        self.persister = Persister(http, deadline=http.deadline, section=SECTION)
        self.n_reused = 0
        self._http = http
        self._store = store
        self._placer = placer
        self._identity = identity
        self._answers = answers

    async def answer_first(self, asked: Asked) -> None:
        """Answer a query alone: without a server the others are not tried."""
        trouble = await self.answer(asked)
        if trouble is not None and (trouble.code == 0 or trouble.remedy == "stop"):
            raise StageError(
                f"{self._http.url}: {trouble.message}. No query was answered; start the server or "
                "correct retrieval.http, and run it again."
            )

    async def answer(self, asked: Asked) -> Trouble | None:
        """Rank a query's results, or note why there are none, which is returned."""
        body = asked.body()
        # Not the query's id: it is sent for the server's own log.
        key = digest_of([self._identity, {**body, "query_id": None}])
        if self._reuse(key, asked.query_id):
            return None

        async def send(seconds: float) -> tuple[Any, PlacedHits, float]:
            started = time.perf_counter()
            results = await self.poster.post(body, seconds)
            took = time.perf_counter() - started
            return results, self._place(results), took

        try:
            results, placed, seconds = await self.persister.ask(send)
        except Trouble as trouble:
            self._answers.failed[asked.query_id] = trouble.message
            return trouble
        reply = json.dumps(results, ensure_ascii=False)
        answered = Answered(reply, Usage(), time.time() - seconds, seconds)
        self._store.put(key, STORED, _place(self._http), answered)
        self._note(asked.query_id, placed, seconds)
        return None

    def _reuse(self, key: str, query_id: str) -> bool:
        """Rank what is stored; False: there is nothing, or it does not fit this corpus."""
        stored = self._store.get(key)
        if stored is None:
            return False
        try:
            placed = self._placer.place(read_hits(json.loads(stored.reply)))
        except HitError:
            return False
        self.n_reused += 1
        self._note(query_id, placed, stored.seconds)
        return True

    def _place(self, results: Any) -> PlacedHits:
        try:
            return self._placer.place(read_hits(results))
        except HitError as error:
            raise Trouble("invalid_reply", str(error), remedy="wait") from None

    def _note(self, query_id: str, placed: PlacedHits, seconds: float) -> None:
        self._answers.placed[query_id] = placed
        self._answers.milliseconds[query_id] = 1000 * seconds


def read_or_raise(results: Any) -> None:
    """Raise Trouble unless results are of the form that the protocol wants."""
    try:
        read_hits(results)
    except HitError as error:
        raise Trouble("invalid_reply", str(error), remedy="wait") from None


def _place(http: HttpRetriever) -> Endpoint:
    """Where an answer came from, as the store of calls keeps it."""
    return Endpoint(model="retriever", base_url=http.url)
