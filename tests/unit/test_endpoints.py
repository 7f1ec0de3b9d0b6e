"""What an experiment file may say of an LLM, and what is refused without repeating a secret."""

from typing import Any

import pytest

from schemas.comparability import comparability_key
from schemas.endpoints import Endpoint
from schemas.errors import ConfigurationError
from schemas.experiment import Experiment, parse_experiment


def experiment(**summary: Any) -> Experiment:
    table = {
        "name": "x",
        "corpus": {"path": "c"},
        "benchmark": {"path": "b"},
        "labelling": {"method": "span"},
        "summary": summary,
    }
    return parse_experiment(table, where="x.toml")


def judge_key(**summary: Any) -> str:
    return comparability_key(experiment(**summary), benchmark_digest="d", measure="qa")


PRICE = {"model": "m", "since": "2026-01-01", "input": 1.0, "output": 2.0}


def test_a_judge_is_the_lexical_one_or_a_table() -> None:
    assert experiment().summary.judge_name == "lexical"
    summary = experiment(judge={"model": "m"}).summary
    assert (summary.judge_name, summary.generator_name) == ("m", "extractive")
    assert list(summary.endpoints) == ["judge"]
    assert not summary.is_deterministic


def test_openais_key_is_sent_to_openai_alone_unless_a_variable_is_named() -> None:
    assert Endpoint(model="m").key_variable == "OPENAI_API_KEY"
    assert Endpoint(model="m", base_url="http://localhost:1/v1").key_variable is None
    named = Endpoint(model="m", base_url="http://localhost:1/v1", api_key_env="MY_KEY")
    assert named.key_variable == "MY_KEY"


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ({"judge": "gpt"}, "summary.judge: judge is 'gpt': expected 'lexical', or a table"),
        ({"generator": "gpt"}, "expected 'extractive', or a table"),
        ({"judge": {}}, "summary.judge.model: this setting is required"),
        ({"judge": {"modle": "m"}}, "summary.judge.modle: unknown key; did you mean 'model'"),
        ({"judge": {"model": "m", "timeout": 0}}, "summary.judge.timeout"),
        ({"judge": {"model": "m", "base_url": "localhost:1"}}, "must begin with http://"),
        ({"judge": {"model": "m", "base_url": "http://localhost:99999/v1"}}, "up to 65535"),
        ({"judge": {"model": "m", "base_url": "http://host\x1b/v1"}}, "a control character"),
        ({"coeff": 1.01}, "summary.coeff: input should be less than or equal to 1"),
        ({"coeff": -0.01}, "summary.coeff: input should be greater than or equal to 0"),
        ({"repeats": 2}, "the lexical judge gives the same answers"),
        ({"prices": [PRICE | {"input": -1}]}, "summary.prices.0.input"),
        ({"prices": [PRICE | {"output": -0.5}]}, "summary.prices.0.output"),
        ({"prices": [PRICE | {"output": float("inf")}]}, "summary.prices.0.output"),
        ({"prices": [PRICE, PRICE]}, "two prices since the same day"),
        ({"prices": [PRICE, PRICE | {"model": "n", "currency": "EUR"}]}, "one currency"),
        ({"budget": {}}, "a budget names calls, tokens or money"),
        ({"budget": {"calls": 0}}, "summary.budget.calls"),
        ({"budget": {"money": 1}, "judge": {"model": "n"}, "prices": [PRICE]}, "price of n"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_key(summary: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        experiment(**summary)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "judge",
    [
        {"base_url": "https://user:s3cr3t@host/v1"},
        {"base_url": "https://s3cr3t@host/v1"},
        {"base_url": "https://host/v1?key=s3cr3t"},
        {"base_url": "https://host/v1#s3cr3t"},
        {"base_url": "https://host:s3cr3t/v1 "},
        {"api_key_env": "sk-s3cr3t"},
        {"api_key_env": "s3cr3t"},
        {"api_key": "sk-s3cr3t"},
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(judge: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        experiment(judge={"model": "m"} | judge)
    assert "s3cr3t" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"base_url": "http://localhost:2/v1"},
        {"temperature": 1.0},
        {"seed": 7},
        {"max_output_tokens": 100},
        {"reasoning_effort": "low"},
    ],
)
def test_another_judge_is_not_comparable(change: dict[str, Any]) -> None:
    one = {"model": "m", "base_url": "http://localhost:1/v1"}
    assert judge_key(judge=one) != judge_key(judge=one | change)
    assert judge_key(judge=one) != judge_key(judge=one, prompts="fr")


def test_how_a_judge_is_asked_and_what_it_costs_is_no_part_of_comparability() -> None:
    how = {"timeout": 5, "attempts": 2, "max_concurrency": 1, "api_key_env": "OTHER_KEY"}
    one = judge_key(judge={"model": "m"})
    assert one == judge_key(judge={"model": "m"} | how)
    assert one == judge_key(judge={"model": "m"}, prices=[PRICE], budget={"calls": 3}, repeats=5)
    assert one == judge_key(judge={"model": "m"}, generator={"model": "other"}, deadline=5)
