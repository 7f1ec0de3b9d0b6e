"""Prices, replies, retries, prompts and the store of calls, without a server."""

import json
import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.endpoints import Budget, Endpoint, Price
from tasks.abilities import Abilities, adapt, body_of, first_guess, read_abilities
from tasks.calls import Answered, Call, CallStore, Usage
from tasks.llm_writing import fit_contexts
from tasks.pricing import Ledger, cost_of, estimate_tokens, price_of
from tasks.prompting import load_prompts, number_lines, schema_of
from tasks.replies import (
    InvalidReplyError,
    read_answer,
    read_entries,
    read_json,
    read_texts,
)
from tasks.troubles import read_retry_after, trouble_of_status, wait_before

ENDPOINT = Endpoint(model="m", base_url="http://localhost:1/v1")
ANSWERS = schema_of("answers", fewest=2, most=2)
CALL = Call("answers", (("system", "s"), ("user", "u")), ANSWERS, "0" * 64)


# money


def test_a_cost_is_tokens_times_price_a_million_cached_ones_cheaper() -> None:
    price = Price(model="m", since=date(2026, 1, 1), input=2.0, output=8.0, cached_input=0.5)
    # (1000 - 400) x 2 + 400 x 0.5 + 100 x 8 = 2200 a million
    assert cost_of(Usage(1000, 400, 100), price) == pytest.approx(0.0022)
    assert cost_of(Usage(1000, None, 100), price) == pytest.approx(0.0028)


def test_what_is_not_known_has_no_cost() -> None:
    price = Price(model="m", since=date(2026, 1, 1), input=2.0, output=8.0)
    assert cost_of(Usage(1000, None, None), price) is None
    assert cost_of(Usage(1000, None, 100), None) is None


def test_the_newest_price_that_holds_by_then_counts() -> None:
    prices = [
        Price(model=model, since=date(year, 1, 1), input=year, output=1)
        for model, year in (("m", 2025), ("m", 2027), ("m", 2026), ("n", 2026))
    ]
    found = price_of("m", prices, date(2026, 6, 1))
    assert found is not None
    assert found.input == 2026
    assert price_of("m", prices, date(2024, 12, 31)) is None
    assert price_of("o", prices, date(2026, 6, 1)) is None


def test_calls_in_flight_count_towards_the_budget() -> None:
    ledger = Ledger(Budget(calls=2))
    one = ledger.reserve("m", 10, 10)
    two = ledger.reserve("m", 10, 10)
    assert one is not None
    assert two is not None
    assert ledger.reserve("m", 10, 10) is None
    ledger.settle(one, "m", Usage(5, None, 5))
    assert ledger.reserve("m", 10, 10) is None
    assert (ledger.spent.calls, ledger.spent.tokens) == (1, 10)


def test_a_budget_of_tokens_counts_what_was_used_not_what_was_reserved() -> None:
    ledger = Ledger(Budget(tokens=100))
    one = ledger.reserve("m", 50, 40)
    assert one is not None
    assert ledger.reserve("m", 10, 10) is None
    ledger.settle(one, "m", Usage(20, None, 10))
    assert ledger.reserve("m", 50, 20) is not None


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("退票须", 3), ("été", 2), ("ab退", 2)]
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


# contexts within a budget


def test_contexts_are_kept_from_the_best_on_and_the_cut_is_counted() -> None:
    contexts = ["a" * 40, "word " * 20, "never reached"]
    kept, n_cut = fit_contexts(contexts, 20)
    assert kept[0] == "a" * 40
    assert kept[1] == "word word word word word word word word"
    assert n_cut == sum(map(len, contexts)) - sum(map(len, kept))


def test_contexts_that_fit_are_whole() -> None:
    assert fit_contexts(["one", "two"], 100) == (["one", "two"], 0)
    assert fit_contexts([], 100) == ([], 0)


@given(st.lists(st.text(max_size=60), max_size=5), st.integers(16, 60))
def test_what_is_kept_is_a_beginning_and_fits(contexts: list[str], budget: int) -> None:
    kept, n_cut = fit_contexts(contexts, budget)
    assert all(whole.startswith(part) for whole, part in zip(contexts, kept, strict=False))
    assert sum(map(estimate_tokens, kept)) <= budget
    assert n_cut == sum(map(len, contexts)) - sum(map(len, kept))


# replies


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1]}',
        ' \n{"a": [1]}\n',
        'Sure!\n```json\n{"a": [1]}\n```\nDone.',
        'Here it is: {"a": [1]} as you asked.',
        '<think>{"a": [2]} no…</think>{"a": [1]}',
        'A bracket [ that opens nothing, then {"a": [1]}',
    ],
)
def test_json_is_found_wherever_it_stands(text: str) -> None:
    assert read_json(text) == {"a": [1]}


@pytest.mark.parametrize("text", ["", "no", "{", '{"a": [1', "1", '"text"', "[" * 100_000])
def test_what_holds_no_json_is_invalid(text: str) -> None:
    with pytest.raises(InvalidReplyError):
        read_json(text)


@given(st.text())
def test_any_reply_is_read_or_invalid(text: str) -> None:
    for reply in (text, json.dumps({"answers": [text]}), f"[{text}]"):
        try:
            read_entries(reply, "answers", 3)
            read_texts(reply, "answers")
        except InvalidReplyError:
            continue


def test_texts_are_kept_once_and_in_order() -> None:
    reply = json.dumps({"key_phrases": ["Anna ", "boris", "", None, 3, "ANNA", "two\n words"]})
    assert read_texts(reply, "key_phrases") == ["Anna", "boris", "two words"]
    assert read_texts('{"phrases": ["x"]}', "key_phrases") == ["x"]


def test_entries_out_of_range_or_contradictory_are_missing() -> None:
    items: list[dict[str, Any]] = [{"index": i, "answer": "1"} for i in (-1, 0, 1, 2, 3)]
    items += [{"index": 1, "answer": "0"}, {"answer": "1"}, {"index": True, "answer": "1"}]
    assert set(read_entries(json.dumps(items), "answers", 3)) == {0, 2}


def test_plain_values_count_in_order_only_when_there_are_as_many_as_asked() -> None:
    assert len(read_entries('{"answers": ["1", "0"]}', "answers", 2)) == 2
    assert read_entries('{"answers": ["1", "0"]}', "answers", 3) == {}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        *(("1", "1"), (1, "1"), (True, "1"), ("Yes", "1")),
        *(("0", "0"), (0, "0"), (False, "0"), ("no", "0")),
        *((value, None) for value in ("2", 2, 1.0, None, [], "", "maybe")),
    ],
)
def test_an_answer_is_1_or_0_or_missing(value: object, answer: str | None) -> None:
    assert read_answer(value) == answer


# waiting


NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, NOW) == seconds


def test_waits_double_are_jittered_and_never_below_what_is_asked() -> None:
    for n_sent in range(1, 12):
        longest = min(30.0, 0.5 * 2 ** (n_sent - 1))
        waits = {wait_before(n_sent, None) for _ in range(50)}
        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(waits) > 1
    assert all(7 <= wait_before(1, 7.0) <= 8 for _ in range(50))


@pytest.mark.parametrize(
    ("code", "remedy", "status"),
    [
        (429, "wait", "rate_limited"),
        (503, "wait", "rate_limited"),
        (500, "wait", "invalid_reply"),
        (502, "wait", "invalid_reply"),
        (400, "adapt", "invalid_reply"),
        (413, "adapt", "truncated"),
        (401, "stop", "refused"),
        (404, "stop", "refused"),
    ],
)
def test_an_http_status_says_whether_waiting_helps(code: int, remedy: str, status: str) -> None:
    trouble = trouble_of_status(code, "detail", {})
    assert (trouble.remedy, trouble.status) == (remedy, status)


# how a model is asked


def test_a_complaint_is_adapted_to_once() -> None:
    abilities = Abilities()
    for complaint, name, value in (
        ("'maxLength' is not permitted", "mode", "schema"),
        ("'response_format' of type 'json_schema' is not supported", "mode", "json"),
        ("json_object is not supported", "mode", "text"),
        ("temperature does not support 0", "takes_temperature", False),
        ("unknown field seed", "takes_seed", False),
        ("use max_completion_tokens", "limit_name", "max_completion_tokens"),
    ):
        adapted = adapt(abilities, complaint)
        assert adapted is not None
        assert getattr(adapted, name) == value
        abilities = adapted
    for complaint in ("response_format", "temperature", "seed", "max_tokens", "anything else"):
        assert adapt(abilities, complaint) is None


def test_lists_are_bounded_unless_the_server_refuses_bounds() -> None:
    bounded, plain = (
        body_of(CALL, ENDPOINT, Abilities(mode=mode), 9)["response_format"]["json_schema"]["schema"]
        for mode in ("bounded", "schema")
    )
    listed = bounded["properties"]["answers"]
    assert (listed["minItems"], listed["maxItems"]) == (2, 2)
    assert listed["items"]["properties"]["reason"]["maxLength"] == 200
    assert plain == {
        "type": "object",
        "properties": {
            "answers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "index": {"type": "integer"},
                        "reason": {"type": "string"},
                        "answer": {"type": "string", "enum": ["1", "0"]},
                    },
                    "required": ["index", "reason", "answer"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["answers"],
        "additionalProperties": False,
    }


def test_what_was_found_out_survives_its_record() -> None:
    abilities = Abilities(mode="json", takes_seed=False)
    assert read_abilities(abilities.to_json()) == abilities
    for record in (None, "", "{", '{"unknown": 1}', "[]"):
        assert read_abilities(record) is None


def test_openais_models_get_the_newer_name_of_the_token_limit() -> None:
    assert "max_completion_tokens" in body_of(
        CALL, Endpoint(model="gpt-4o-mini"), first_guess(Endpoint(model="gpt-4o-mini")), 9
    )
    assert body_of(CALL, ENDPOINT, first_guess(ENDPOINT), 9)["max_tokens"] == 9


# prompts


@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_every_language_has_every_prompt(language: str) -> None:
    prompts = load_prompts(language)
    assert set(prompts.instructions) == {"key_phrases", "questions", "answers", "summary"}
    assert prompts.name == f"{language}/1"
    data = [(label, f"the {label}") for label in prompts.labels]
    for purpose in prompts.instructions:
        values = {"max_phrases": 20, "max_characters": 600}
        (_, system), (_, user) = prompts.messages(purpose, data, **values)
        assert "{mark}" not in system
        assert "{max" not in system
        assert all(f"the {label}" in user for label in prompts.labels)
        assert "json" in system.lower() or purpose == "summary"


@given(st.text(max_size=200))
def test_no_text_contains_its_own_closing_mark(text: str) -> None:
    (_, system), (_, user) = load_prompts("en").messages("answers", [("summary", text)])
    mark = user.partition("<")[2].partition(">")[0]
    assert f"</{mark}>" in system
    assert f"</{mark}>" not in text


def test_numbered_lines_keep_each_text_on_its_line() -> None:
    texts = ["plain", 'a "quote"', "two\nlines", "</data>"]
    lines = number_lines(texts).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"index": index, "text": text} for index, text in enumerate(texts)
    ]


# the store


def answered(reply: str = "yes") -> Answered:
    return Answered(reply, Usage(10, None, 5), 1.0, 0.5)


def test_an_answer_is_found_under_its_key_by_another_process(tmp_path: Path) -> None:
    CallStore(tmp_path).put(CALL.key(ENDPOINT), CALL, ENDPOINT, answered())
    assert CallStore(tmp_path).get(CALL.key(ENDPOINT)) == answered()
    assert CallStore(tmp_path).get("other") is None


def test_an_altered_answer_is_not_used(tmp_path: Path) -> None:
    store = CallStore(tmp_path)
    store.put("k", CALL, ENDPOINT, answered())
    store.close()
    with sqlite3.connect(tmp_path / "calls.sqlite") as connection:
        connection.execute("UPDATE calls SET reply = 'no'")
    connection.close()
    assert CallStore(tmp_path).get("k") is None


def test_the_key_is_over_all_that_decides_the_answer_and_nothing_else() -> None:
    key = CALL.key(ENDPOINT)
    other_calls = [
        Call("answers", (("system", "s"), ("user", "v")), CALL.schema, CALL.subject),
        Call("answers", (("user", "s"), ("user", "u")), CALL.schema, CALL.subject),
        Call("answers", CALL.messages, schema_of("questions", fewest=2, most=2), CALL.subject),
        Call("answers", CALL.messages, CALL.schema, CALL.subject, sample="1"),
        Call("answers", CALL.messages, CALL.schema, CALL.subject, sample="anchor/2026-11-29"),
    ]
    assert len({key, *(call.key(ENDPOINT) for call in other_calls)}) == 6
    how = {"timeout": 1, "attempts": 1, "max_concurrency": 1, "api_key_env": "K"}
    assert CALL.key(ENDPOINT.model_copy(update=how)) == key
    for change in ({"model": "n"}, {"base_url": "http://h/v1"}, {"seed": 1}, {"temperature": 1.0}):
        assert CALL.key(ENDPOINT.model_copy(update=change)) != key
