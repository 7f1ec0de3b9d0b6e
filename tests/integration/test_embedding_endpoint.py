"""Embeddings by an endpoint: a scripted OpenAI-compatible server on loopback, with its faults."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.encoders import Embedding
from schemas.errors import ConfigurationError, StageError
from tasks.embedding import EmbeddedTexts, embed_texts
from tasks.endpoint_embedding import check_endpoint
from tasks.models import resolve_model
from tasks.texts import GivenTexts
from tests.data.llm_server import Reply, ScriptedServer, error
from tests.data.small_project import Command

DIM = 16
Script = Callable[[dict[str, Any], int], Reply]


def vector_of(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Not of length 1; no two texts have the same."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


def embeddings(body: dict[str, Any], **changes: Any) -> Reply:
    """What a good endpoint answers, in an order of its own."""
    data = []
    for index, text in enumerate(body["input"]):
        vector = vector_of(text)
        is_base64 = body["encoding_format"] == "base64"
        value: Any = base64.b64encode(vector.tobytes()).decode() if is_base64 else vector.tolist()
        data.append({"object": "embedding", "index": index, "embedding": value})
    usage = {"prompt_tokens": sum(map(len, body["input"])), "total_tokens": 1}
    return Reply(raw={"object": "list", "data": data[::-1], "usage": usage} | changes)


def with_vector(body: dict[str, Any], vector: Any) -> Reply:
    """The first text gets this vector."""
    reply = embeddings(body)
    reply.raw["data"][-1]["embedding"] = vector
    return reply


def at_first(reply: Reply | Callable[[dict[str, Any]], Reply], times: int = 1) -> Script:
    """This to the first calls, then good answers."""

    def script(body: dict[str, Any], number: int) -> Reply:
        if number < times:
            return reply if isinstance(reply, Reply) else reply(body)
        return embeddings(body)

    return script


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("tasks.troubles.FIRST_WAIT", 0.02)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda body, n: embeddings(body), path="/v1/embeddings") as running:
        yield running


def config(server: ScriptedServer, **changes: Any) -> Embedding:
    endpoint = {"model": "m", "base_url": server.url, "timeout": 5.0, "batch_size": 4} | changes
    return Embedding.model_validate({"endpoint": endpoint})


def embed(texts: list[str], embedding: Embedding, items: Path, **options: Any) -> EmbeddedTexts:
    arguments: dict[str, Any] = {"prompt": "", "threads": 1, "device": "cpu"} | options
    given = GivenTexts(texts, arguments.pop("names", None))
    return embed_texts(given, resolve_model(embedding), embedding, items=items, **arguments)


TEXTS = [f"text {number} {'x' * (number % 5)}" for number in range(10)]


def test_each_text_gets_its_own_vector_whatever_the_order_of_the_answer(
    server: ScriptedServer, tmp_path: Path
) -> None:
    embedded = embed(TEXTS, config(server, price=0.5), tmp_path, prompt="query: ")
    wanted = np.stack([vector_of(f"query: {text}") for text in TEXTS]).astype(np.float64)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded.vectors, wanted, atol=1e-7)
    assert sorted(len(body["input"]) for body in server.bodies) == [2, 4, 4]
    tokens = sum(len(f"query: {text}") for text in TEXTS)
    figures = {name: embedded.figures[name] for name in ("n_calls", "tokens", "cost", "currency")}
    assert figures == {
        "n_calls": 3,
        "tokens": tokens,
        "cost": pytest.approx(tokens * 0.5 / 1e6, rel=1e-12),
        "currency": "USD",
    }


def test_a_text_is_asked_for_once_and_only_what_decides_its_vector_asks_anew(
    server: ScriptedServer, tmp_path: Path
) -> None:
    first = embed([*TEXTS, TEXTS[0]], config(server), tmp_path)
    n_calls = len(server.bodies)
    again = embed(TEXTS[::-1], config(server, batch_size=2, timeout=9.0, price=1.0), tmp_path)
    assert len(server.bodies) == n_calls
    np.testing.assert_array_equal(again.vectors[::-1], first.vectors[:-1])
    assert (again.figures["n_encoded"], again.figures["tokens"]) == (0, 0)
    embed([*TEXTS, "a new one"], config(server), tmp_path)
    assert [body["input"] for body in server.bodies[n_calls:]] == [["a new one"]]
    assert embed(["a new one"], config(server, model="n"), tmp_path).figures["n_encoded"] == 1


@pytest.mark.parametrize(
    "fault",
    [
        error(500),
        error(429, retry_after="0.05"),
        Reply(is_cut=True),
        Reply(raw=b"<html>a proxy's page</html>"),
        lambda body: embeddings(body, data=embeddings(body).raw["data"][1:]),  # one too few
        lambda body: with_vector(body, [float("nan")] * DIM),
        lambda body: with_vector(body, [0.0] * DIM),
        lambda body: with_vector(body, [1.0] * (DIM + 1)),
    ],
    ids=["500", "429", "cut", "html", "too_few", "nan", "zero", "ragged"],
)
def test_a_fault_that_passes_costs_another_call_and_nothing_else(
    server: ScriptedServer, tmp_path: Path, fault: Any
) -> None:
    server.script = at_first(fault)
    embedded = embed(TEXTS[:3], config(server), tmp_path)
    assert len(server.bodies) == 2
    wanted = np.stack([vector_of(text) for text in TEXTS[:3]]).astype(np.float64)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded.vectors, wanted, atol=1e-7)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda body: with_vector(body, [float("nan")] * DIM), "NaN or infinity for 'bad'"),
        (lambda body: embeddings(body, data=[]), "0 embeddings of 1 texts"),
        (lambda body: error(500, "out of memory"), "500: out of memory"),
        (lambda body: error(401, "who are you?"), "401: who are you?"),
        (lambda body: Reply(is_hung=True), "no reply within"),
    ],
    ids=["nan", "none", "500", "401", "slow"],
)
def test_a_fault_that_stays_names_the_text_and_what_came_before_is_stored(
    server: ScriptedServer, tmp_path: Path, fault: Any, words: str
) -> None:
    server.script = lambda body, n: fault(body) if "bad" in body["input"] else embeddings(body)
    small = config(server, batch_size=1, timeout=1.0, attempts=2, max_concurrency=1)
    with pytest.raises(StageError, match=r"m at http://127\.0\.0\.1") as raised:
        embed(["a longer text", "bad"], small, tmp_path)  # the longest go first
    assert words in str(raised.value)
    assert "the next run asks for the rest" in str(raised.value)
    server.script = lambda body, n: embeddings(body)
    assert embed(["a longer text", "bad"], small, tmp_path).figures["n_encoded"] == 1


def test_a_batch_that_is_too_large_is_halved_until_the_endpoint_takes_it(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = lambda body, n: (
        error(413, "batch too large") if len(body["input"]) > 3 else embeddings(body)
    )
    assert embed(TEXTS, config(server, batch_size=10), tmp_path).vectors.shape == (10, DIM)
    server.script = lambda body, n: (
        error(400, "too many tokens") if max(map(len, body["input"])) > 50 else embeddings(body)
    )
    with pytest.raises(StageError, match=r"too many tokens, for long\.txt#0-60 \(60 characters\)"):
        embed(["y", "z" * 60], config(server), tmp_path, names=["short.txt#0-1", "long.txt#0-60"])


def test_an_endpoint_without_base64_is_asked_for_numbers(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = lambda body, n: (
        error(400, "encoding_format must be float")
        if body["encoding_format"] == "base64"
        else embeddings(body)
    )
    embed(TEXTS[:2], config(server), tmp_path)
    assert [body["encoding_format"] for body in server.bodies] == ["base64", "float"]


def test_dimensions_are_asked_for_and_checked(server: ScriptedServer, tmp_path: Path) -> None:
    embed(TEXTS[:1], config(server, dimensions=DIM), tmp_path)
    assert server.bodies[-1]["dimensions"] == DIM
    with pytest.raises(StageError, match=r"have 16 dimensions, and embedding.endpoint.dimensions"):
        embed(TEXTS[:1], config(server, dimensions=8), tmp_path)
    embed(TEXTS[:1], config(server), tmp_path)
    server.script = lambda body, n: with_vector(body, [1.0] * 5)  # another model, the old name
    with pytest.raises(StageError, match="those before had 16"):
        embed(TEXTS[1:2], config(server), tmp_path)


def test_an_endpoint_that_cannot_work_is_refused_before_anything_is_spent(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="variable NO_KEY is not set"):
        check_endpoint(config(server, api_key_env="NO_KEY"), tmp_path)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    with pytest.raises(ConfigurationError, match="is the server running"):
        check_endpoint(config(server, base_url=nobody), tmp_path)
    with pytest.raises(ConfigurationError, match="base_url is wrong"):
        check_endpoint(config(server, base_url=server.url + "/v2"), tmp_path)
    monkeypatch.setenv("MY_KEY", "sk-secret-1")
    server.script = lambda body, n: error(401, "the key sk-secret-1 is wrong")
    with pytest.raises(ConfigurationError, match=r"\[key\].*variable MY_KEY"):
        check_endpoint(config(server, api_key_env="MY_KEY"), tmp_path)
    assert "authorization: Bearer sk-secret-1" in server.headers[-1].replace("Auth", "auth")
    server.script = lambda body, n: embeddings(body)
    n_before = len(server.bodies)
    check_endpoint(config(server), tmp_path)
    check_endpoint(config(server), tmp_path)  # known by now
    assert len(server.bodies) == n_before + 1


def test_an_evaluation_embeds_by_the_endpoint_and_reports_tokens_and_money(
    server: ScriptedServer, command: Command, small: Path
) -> None:
    text = small.read_text() + f'[embedding.endpoint]\nmodel = "m"\nbase_url = "{server.url}"\n'
    small.write_text(text + "price = 2.0\n")
    report = command.evaluate(small)
    (row,) = command.sql(
        "select figures ->> 'tokens' as tokens, (figures ->> 'cost')::double as cost, "
        "(figures ->> 'n_encoded')::int as n_encoded, embedding_model, embedding_weights_digest "
        f"from stages join runs using (run_id) where run_id = '{report['run_id']}' "
        "and stage = 'embed_chunks'"
    )
    texts = [text for body in server.bodies for text in body["input"]]
    assert len(texts) == len(set(texts)) == row["n_encoded"] + 1 + 5  # the probe, five queries
    assert int(row["tokens"]) > 0
    assert row["cost"] == pytest.approx(int(row["tokens"]) * 2e-6, rel=1e-9)
    assert (row["embedding_model"], row["embedding_weights_digest"]) == ("m", None)
    assert report["sizes"]["dim"] == DIM
    command.evaluate(small, "--set", "chunking.size=60")
    texts = [text for body in server.bodies for text in body["input"]]
    assert len(texts) == len(set(texts))  # whole documents that are one chunk again, and queries
    refused = command("evaluate", str(small), "--set", "chunking.unit=tokens", exit_code=2)
    assert "is behind an endpoint, and its tokenizer is not known here" in refused.stderr
