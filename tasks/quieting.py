"""Model libraries work without a word: no progress bars, advice or warnings of theirs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LIBRARIES = ("huggingface_hub", "sentence_transformers", "transformers")


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Show only the errors of model libraries; after the block everything is as before."""
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), _no_progress_bars():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    were_disabled = are_progress_bars_disabled()
    if not were_disabled:
        disable_progress_bars()
    try:
        yield
    finally:
        if not were_disabled:
            enable_progress_bars()
