"""Keys of stages: over content, never over paths, and never silently absent."""

from pathlib import Path

import pytest

from schemas.artifacts import Artifact
from schemas.experiment import Chunking
from tasks.caching import Workspace, stage_policy

POLICY = stage_policy("chunk_corpus", "tasks.matching", ignoring=("source",))


def artifact(digest: str = "a", n_items: int = 1) -> Artifact:
    return Artifact(kind="chunks", suffix=".parquet", digest=digest, size=3, n_items=n_items)


def workspace(folder: str) -> Workspace:
    return Workspace(store_url=folder, scratch=folder, items=folder)


def test_a_key_names_its_stage() -> None:
    assert POLICY.key_of({}).startswith("chunk_corpus-")


def test_an_artifact_counts_by_its_digest_alone() -> None:
    assert POLICY.key_of({"x": artifact()}) == POLICY.key_of({"x": artifact(n_items=2)})
    assert POLICY.key_of({"x": artifact()}) != POLICY.key_of({"x": artifact("b")})


def test_a_section_counts_by_value() -> None:
    assert POLICY.key_of({"c": Chunking()}) == POLICY.key_of({"c": Chunking()})
    assert POLICY.key_of({"c": Chunking()}) != POLICY.key_of({"c": Chunking(size=5)})


def test_the_workspace_and_what_is_ignored_do_not_count() -> None:
    one = POLICY.key_of({"workspace": workspace("/one"), "source": Path("/one")})
    two = POLICY.key_of({"workspace": workspace("/two"), "source": object()})
    assert one == two


def test_two_stages_with_equal_inputs_have_two_keys() -> None:
    other = stage_policy("label", "tasks.matching")
    assert other.key_of({"x": 1}).partition("-")[2] != POLICY.key_of({"x": 1}).partition("-")[2]


def test_the_name_of_an_input_counts() -> None:
    assert POLICY.key_of({"start": 1, "end": 2}) != POLICY.key_of({"start": 2, "end": 1})


def test_true_and_one_and_text_are_three_values() -> None:
    assert len({POLICY.key_of({"x": value}) for value in (True, 1, "1", None)}) == 4


def test_an_input_that_cannot_be_keyed_is_an_error_not_a_missing_cache() -> None:
    with pytest.raises(TypeError, match="input 'x' of a stage is a object"):
        POLICY.key_of({"x": object()})


def test_another_librarys_version_changes_the_key() -> None:
    with_numpy = stage_policy("chunk_corpus", "tasks.matching", libraries=("numpy",))
    assert with_numpy.key_of({}) != POLICY.key_of({})
