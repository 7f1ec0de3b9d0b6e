"""Whom ``[retrieval]`` asks when retrieval happens elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from schemas.retrievers import Retrieval
from tasks.elsewhere import Elsewhere
from tasks.http_retrieving import retrieve_by_http
from tasks.plugin_retrieving import retrieve_by_plugin
from tasks.progress import progress_writer
from tasks.run_file_retrieving import read_run_file


def retrieve_elsewhere(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    retrieval: Retrieval,
    *,
    are_documents: bool,
    identity: Mapping[str, Any],
    items: Path,
    shows_progress: bool,
) -> Elsewhere:
    """The rankings of the plug-in, the server or the run file that the section names.

    Args:
        documents: DOCUMENTS.
        chunks: CHUNKS.
        queries: BENCHMARK.
        retrieval: the section.
        are_documents: whether documents are ranked.
        identity: of a server, what has to be equal for its stored answers to be reused.
        items: the folder of the store of a server's answers.
        shows_progress: whether a person watches stderr.

    Raises:
        RankhouseError: see the three modules.
    """
    if retrieval.plugin is not None:
        return retrieve_by_plugin(
            documents, chunks, queries, retrieval, are_documents=are_documents
        )
    if retrieval.http is not None:
        return retrieve_by_http(
            documents,
            chunks,
            queries,
            retrieval,
            are_documents=are_documents,
            identity=identity,
            items=items,
            say=progress_writer(shows_progress),
        )
    return read_run_file(
        str(retrieval.run_file),
        documents,
        chunks,
        queries,
        are_documents=are_documents,
        depth=retrieval.depth,
    )
