"""A model of the Hugging Face hub as a folder: from the hub's cache, else downloaded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from schemas.errors import ConfigurationError
from tasks.quieting import quiet_libraries

DEFAULT_ORGANIZATION = "sentence-transformers"  # of names without one, as the library has it
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*")

WANTED = ["*.json", "*.txt", "*.model", "*.tiktoken", "*.safetensors"]
PICKLED = ["*pytorch_model*.bin"]  # only where a model has no safetensors
UNWANTED = ["onnx/*", "openvino/*", "coreml/*"]


def hub_snapshot(
    name: str,
    revision: str | None,
    *,
    hint: str,
    say: Callable[[str], None] | None = None,
    section: str = "embedding",
) -> tuple[Path, str]:
    """Find or download a snapshot; return its folder and its commit.

    The cache is asked first: no request is made for what is there, and an unpinned name does not
    move between two runs. ``HF_HUB_OFFLINE``, ``HF_HOME`` and ``HF_TOKEN`` mean what they always
    do.

    Args:
        name: ``organization/model``, or ``model`` of the organization sentence-transformers.
        revision: a commit, tag or branch; None: the main branch.
        hint: how else to get this model, for the message of an error.
        say: told before a download begins.
        section: of the experiment file, for the message of an error.

    Raises:
        ConfigurationError: not a name, no such model or revision, or the hub cannot be reached.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{section}.model is {name!r}: neither a folder nor a name on the hub, such as "
            "'all-MiniLM-L6-v2' or 'BAAI/bge-small-en-v1.5'"
        )
    repo = name if "/" in name else f"{DEFAULT_ORGANIZATION}/{name}"
    with quiet_libraries():
        try:
            folder = _fetch(repo, revision, local_files_only=True)
        except Exception:  # not cached, or not whole: each version has its own exceptions
            folder = None
        if folder is None:
            try:
                if say is not None and not _is_offline():
                    say(f"downloading {repo} from the Hugging Face hub")
                folder = _fetch(repo, revision, local_files_only=False)
            except Exception as error:
                raise ConfigurationError(_explain(repo, revision, error, hint, section)) from None
    if folder is None:
        raise ConfigurationError(
            f"{section}.model: {repo} has no weights on the hub (*.safetensors or "
            f"pytorch_model.bin), so it is no sentence-transformers model. {hint}"
        )
    return folder, folder.name


def _fetch(repo: str, revision: str | None, *, local_files_only: bool) -> Path | None:
    """The snapshot's folder, or None when it holds no weights."""
    from huggingface_hub import snapshot_download

    for patterns, weights in ((WANTED, "*.safetensors"), (WANTED[:-1] + PICKLED, "*.bin")):
        folder = Path(
            snapshot_download(
                repo,
                revision=revision,
                cache_dir=os.environ.get("SENTENCE_TRANSFORMERS_HOME"),
                allow_patterns=patterns,
                ignore_patterns=UNWANTED,
                local_files_only=local_files_only,
            )
        )
        if any(folder.rglob(weights)):
            return folder
    return None


def _is_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _explain(repo: str, revision: str | None, error: Exception, hint: str, section: str) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    which = f"{repo} at revision {revision}" if revision else repo
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME") or constants.HF_HUB_CACHE
    if isinstance(error, RevisionNotFoundError):
        reason = "the hub has no such revision"
    elif isinstance(error, GatedRepoError):
        reason = "it is gated: accept its terms on the hub and set HF_TOKEN"
    elif isinstance(error, RepositoryNotFoundError):
        reason = "the hub has no such model (or it is private: set HF_TOKEN)"
    elif _is_offline():
        reason = "HF_HUB_OFFLINE is set, so the hub was not asked"
    else:
        lines = str(error).strip().splitlines()
        reason = f"the hub could not be asked ({lines[0] if lines else type(error).__name__})"
    return (
        f"{section}.model: {which} cannot be had. It is not in the hub's cache ({cache}), and "
        f"{reason}. {hint}"
    )
