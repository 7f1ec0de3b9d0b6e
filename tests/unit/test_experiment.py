"""Reading an experiment file: what is accepted, and how each fault is named."""

from pathlib import Path

import pytest

from schemas.errors import ConfigurationError
from schemas.experiment import Experiment, read_experiment
from schemas.retrievers import Retrieval

MINIMAL = """
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[labelling]
method = "document"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "handbook.toml"
    path.write_text(MINIMAL, encoding="utf-8")
    return path


def refusal(file: Path, text: str, *settings: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_experiment(file, settings)
    return str(caught.value)


def test_the_name_is_the_files_stem(file: Path) -> None:
    assert read_experiment(file).name == "handbook"


def test_paths_are_relative_to_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir("/")
    experiment = read_experiment(file)
    assert experiment.corpus.path == str(tmp_path / "docs")
    assert experiment.benchmark.path == str(tmp_path / "benchmark.jsonl")


def test_a_model_that_is_a_folder_beside_the_file_is_a_path(file: Path, tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    assert read_experiment(file, ("embedding.model=my-model",)).embedding.model == str(
        tmp_path / "my-model"
    )
    assert read_experiment(file).embedding.model == "all-MiniLM-L6-v2"


def test_a_setting_is_read_as_toml_else_as_text(file: Path) -> None:
    experiment = read_experiment(
        file,
        ("chunking.size=512", "name=night 2", 'measures=["hit@1"]', "chunking.with_title=false"),
    )
    assert experiment.chunking.size == 512
    assert experiment.name == "night 2"
    assert experiment.measures == ("hit@1",)
    assert experiment.chunking.with_title is False


@pytest.mark.parametrize("setting", ["chunking.size", "=5", "a b=5", "chunking..size=5"])
def test_a_setting_without_key_or_value_is_refused(file: Path, setting: str) -> None:
    assert "expected KEY=VALUE" in refusal(file, MINIMAL, setting)


def test_a_setting_below_a_value_is_refused(file: Path) -> None:
    assert "is a value, not a table" in refusal(file, MINIMAL, "name=x", "name.first=y")


def test_an_unknown_key_names_the_nearest(file: Path) -> None:
    message = refusal(file, MINIMAL + "[chunking]\nsise = 5\n")
    assert "chunking.sise: unknown key; did you mean 'size'?" in message
    assert str(file) in message


def test_an_unknown_section_names_the_nearest(file: Path) -> None:
    assert "did you mean 'chunking'?" in refusal(file, MINIMAL + "[chunkin]\nsize = 5\n")


def test_a_wrong_type_names_the_key_and_what_came(file: Path) -> None:
    message = refusal(file, MINIMAL + '[chunking]\nsize = "big"\n')
    assert "chunking.size: expected a number, but got 'big'" in message


def test_every_fault_is_named_at_once(file: Path) -> None:
    message = refusal(file, '[corpus]\npath = "x"\n[chunking]\nsize = 0\n')
    assert "3 settings cannot be used" in message
    assert "benchmark: this setting is required" in message
    assert "labelling: this setting is required" in message
    assert "chunking.size" in message


def test_the_label_method_is_required_and_its_choices_are_named(file: Path) -> None:
    message = refusal(file, MINIMAL.replace('method = "document"', "level = 1"))
    assert (
        "labelling.method: this setting is required (one of: answer_text, span, document)"
        in message
    )


def test_overlap_must_be_below_size(file: Path) -> None:
    message = refusal(file, MINIMAL + "[chunking]\nsize = 100\noverlap = 100\n")
    assert "overlap is 100 and size is 100" in message


def test_a_cutoff_beyond_the_depth_is_refused(file: Path) -> None:
    message = refusal(file, MINIMAL, "retrieval.depth=10", 'measures=["ndcg@20"]')
    assert "ndcg@20" in message
    assert "depth" in message


def test_an_unknown_measure_names_the_nearest(file: Path) -> None:
    assert "ndcg" in refusal(file, MINIMAL, 'measures=["nDGC@10"]')


def test_a_measure_listed_twice_is_refused(file: Path) -> None:
    assert "listed twice: hit@1" in refusal(file, MINIMAL, 'measures=["hit@1", "hit@1"]')


def test_invalid_toml_is_refused_with_its_line(file: Path) -> None:
    message = refusal(file, "[corpus\n")
    assert "not valid TOML" in message
    assert "line 1" in message


def test_a_file_that_is_not_utf8_names_the_byte(file: Path) -> None:
    file.write_bytes(MINIMAL.encode() + b"# caf\xe9\n")
    with pytest.raises(ConfigurationError, match=f"byte {len(MINIMAL.encode()) + 5} is not UTF-8"):
        read_experiment(file)


def test_a_byte_order_mark_is_dropped(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert read_experiment(file).name == "handbook"


def test_a_missing_file_and_a_folder_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="rankhouse init"):
        read_experiment(tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="name the TOML file"):
        read_experiment(tmp_path)


def test_an_experiment_is_frozen_and_its_digest_depends_on_values_only(file: Path) -> None:
    one, two = read_experiment(file), read_experiment(file)
    assert one.digest == two.digest
    assert read_experiment(file, ("chunking.size=5",)).digest != one.digest
    with pytest.raises(ValueError, match="frozen"):
        one.name = "other"  # type: ignore[misc]


def test_an_experiment_survives_json(file: Path) -> None:
    experiment = read_experiment(file)
    assert Experiment.model_validate(experiment.model_dump(mode="json")) == experiment


def test_a_store_with_credentials_is_refused_and_they_are_not_shown(file: Path) -> None:
    message = refusal(file, MINIMAL + '[execution]\nstore = "s3://key:hush@bucket/x"\n')
    assert "credentials" in message
    assert "hush" not in message
    parts = read_experiment_store(file, "s3://bucket/a@b")
    assert parts == "s3://bucket/a@b"


def read_experiment_store(file: Path, url: str) -> str | None:
    file.write_text(MINIMAL + f'[execution]\nstore = "{url}"\n', encoding="utf-8")
    return read_experiment(file).execution.store


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("chunking.size=true", "chunking.size: expected a number, but got True"),
        ('chunking.size="800"', "chunking.size: expected a number, but got '800'"),
        ("retrieval.depth=99999999999999999999999999", "expected a number up to 2^53"),
        ("labelling.min_coverage=nan", "expected a number up to 2^53"),
        ("chunking.with_title=1", "expected true or false, but got 1"),
        ('corpus.path=""', "corpus.path: expected a text that is not empty"),
        ('benchmark.path=""', "benchmark.path: expected a text that is not empty"),
        ('corpus.path="a\\u0000b"', "NUL"),
        ("measures=[]", "measures: expected a list that is not empty"),
        ('measures="hit@1"', "measures: expected a list, but got 'hit@1'"),
        ('chunking="fixed"', "chunking: expected a table, but got 'fixed'"),
        ('name=""', "name: expected 1 to 100 characters"),
    ],
)
def test_nothing_is_taken_for_what_it_is_not(file: Path, setting: str, words: str) -> None:
    assert words in refusal(file, MINIMAL, setting)


def test_a_reranker_that_is_a_folder_beside_the_file_is_a_path(file: Path, tmp_path: Path) -> None:
    (tmp_path / "my-reranker").mkdir()
    rerank = read_experiment(file, ("retrieval.rerank.model=my-reranker",)).retrieval.rerank
    assert rerank is not None
    assert rerank.model == str(tmp_path / "my-reranker")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("retrieval.method=bm26", "retrieval.method: input should be 'dense', 'bm25' or 'hybrid'"),
        ("retrieval.bm25.kk=2", "retrieval.bm25.kk: unknown key; did you mean 'k1'?"),
        ("retrieval.bm25.b=1.5", "retrieval.bm25.b: input should be less than or equal to 1"),
        ("retrieval.bm25.language=tlh", "retrieval.bm25.language: input should be 'ar', 'ca'"),
        ("retrieval.rerank.depth=5", "retrieval.rerank.model: this setting is required"),
        ("retrieval.rerank={model='x',modle='y'}", "retrieval.rerank.modle: unknown key; did you"),
        ("retrieval.hybrid={dense_weight=0,bm25_weight=0}", "are both 0"),
    ],
)
def test_a_fault_in_a_retrievers_table_is_named(file: Path, setting: str, message: str) -> None:
    assert message in refusal(file, MINIMAL, setting)


def test_the_retrievers_of_the_readme_are_read(file: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Retrievers\n")[2].partition("\n## ")[0]
    file.write_text(MINIMAL + section.partition("```toml\n")[2].partition("```")[0])
    retrieval = read_experiment(file).retrieval
    assert (retrieval.method, retrieval.hybrid.bm25_depth) == ("hybrid", 100)
    assert retrieval.rerank is not None
    as_they_are = Retrieval(method="hybrid", rerank=retrieval.rerank)
    depths = {"dense_depth": None, "bm25_depth": None}  # None is retrieval.depth
    hybrid = retrieval.hybrid.model_copy(update=depths)
    assert retrieval.model_copy(update={"hybrid": hybrid}) == as_they_are, "defaults are shown"
