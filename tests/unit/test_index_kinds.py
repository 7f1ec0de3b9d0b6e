"""Index kinds: what belongs to each, what FAISS makes of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from pydantic import ValidationError

from schemas.errors import IndexMismatchError, StageError
from schemas.indexes import Index, lists_for, parts_for
from tasks.dimensions import dimensions_of
from tasks.factories import fault_of, make_index, parts_of
from tasks.indexes import StoredVectors, open_index
from tasks.indexing import write_index

KINDS: list[dict[str, Any]] = [
    {"kind": "hnsw", "m": 8},
    {"kind": "ivf_flat", "n_lists": 8, "n_probe": 8},
    {"kind": "ivf_pq", "n_lists": 4, "pq_m": 4, "pq_bits": 4, "n_probe": 4},
    {"kind": "sq"},
    {"kind": "sq", "sq_type": "fp16"},
    {"kind": "IVF4,PQ4x4fs", "search_parameters": "nprobe=4"},
    {"kind": "IVF8_HNSW8,SQ8", "search_parameters": "nprobe=8,quantizer_efSearch=16"},
]


def vectors_of(n: int, dim: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("table", KINDS, ids=lambda table: table["kind"])
def test_every_kind_gives_the_same_bytes_again_with_any_number_of_threads(
    tmp_path: Path, table: dict[str, Any], metric: str
) -> None:
    config = Index(metric=metric, **table)
    written = []
    for turn, threads in enumerate((1, 2)):
        path = tmp_path / f"{turn}.faiss"
        write_index(vectors_of(1_000), config.for_building(), path, threads=threads)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    found = open_index(path, config.for_searching(), threads=1).nearest(vectors_of(5), 100)[1]
    assert all(row in found[row] for row in range(5))  # they are stored: each finds itself


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize(
    "table",
    [
        {"kind": "ivf_flat", "n_lists": 32},
        {"kind": "ivf_pq", "n_lists": 8, "pq_m": 2, "pq_bits": 4},
        {"kind": "sq"},
        {"kind": "PQ2x4"},
        {"kind": "OPQ2_16,IVF8,PQ2x4"},
        {"kind": "IVF8,PQ2x4fs"},
        {"kind": "RQ2x4"},
    ],
    ids=lambda table: table["kind"],
)
def test_vectors_between_two_centroids_go_to_the_same_one_with_any_number_of_threads(
    tmp_path: Path, table: dict[str, Any], metric: str
) -> None:
    # far from 0 and close to each other, so that float32 cannot tell which centroid is nearer
    vectors = 5 + np.float32(1e-3) * vectors_of(1_000, 48)
    written = set()
    for threads in (1, 2, 3):
        write_index(vectors, Index(metric=metric, **table), tmp_path / "index", threads=threads)
        written.add((tmp_path / "index").read_bytes())
    assert len(written) == 1


def test_a_search_parameter_is_no_part_of_what_is_built() -> None:
    few, many = (Index(kind="ivf_flat", n_lists=8, n_probe=n) for n in (1, 8))
    assert few.for_building() == many.for_building()
    assert few.for_searching() != many.for_searching()


def test_more_probes_find_what_fewer_missed_in_the_same_file(tmp_path: Path) -> None:
    vectors, few = vectors_of(2_000), Index(kind="ivf_flat", n_lists=32, n_probe=1)
    write_index(vectors, few.for_building(), tmp_path / "index.faiss")
    exact = StoredVectors("cosine", 1, vectors).nearest(vectors_of(20, seed=1), 5)[1]
    for n_probe, is_exact in ((1, False), (32, True)):
        config = Index(kind="ivf_flat", n_lists=32, n_probe=n_probe).for_searching()
        opened = open_index(tmp_path / "index.faiss", config, threads=1)
        assert (opened.nearest(vectors_of(20, seed=1), 5)[1] == exact).all() == is_exact


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_a_graph_gives_as_many_as_are_asked_for_although_ef_search_is_less(
    tmp_path: Path, metric: str, is_filtered: bool
) -> None:
    # vectors in clusters, where FAISS with efSearch = 16 ends before it has found 300
    vectors = np.repeat(vectors_of(100), 10, axis=0) + np.float32(0.3) * vectors_of(1_000, seed=1)
    queries = vectors_of(20, seed=2)
    config = Index(kind="hnsw", metric=metric, m=16, ef_search=16)
    write_index(vectors, config.for_building(), tmp_path / "index.faiss")
    opened = open_index(tmp_path / "index.faiss", config.for_searching(), threads=1)
    rows = np.arange(0, 1_000, 2) if is_filtered else np.arange(1_000)
    found = (opened.within(rows) if is_filtered else opened).nearest(queries, 300)
    assert all(len(set(row)) == 300 for row in found[1].tolist())
    assert np.isin(found[1], rows).all()
    assert (np.diff(found[0], axis=1) <= 0).all()

    plain: Any = faiss.read_index(str(tmp_path / "index.faiss"))
    plain.hnsw.efSearch = 16
    few = opened.nearest(queries, 16)[1]
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    asked = queries if metric == "l2" else unit.astype(np.float32)
    assert (plain.search(asked, 300)[1] < 0).any(axis=1).all()  # FAISS alone
    assert np.array_equal(plain.search(asked, 16)[1], few)  # and what is enough stays as it is


def test_another_seed_learns_other_centroids(tmp_path: Path) -> None:
    for seed in (1, 2):
        config = Index(kind="ivf_flat", n_lists=8, seed=seed)
        write_index(vectors_of(1_000), config, tmp_path / f"{seed}.faiss")
    assert (tmp_path / "1.faiss").read_bytes() != (tmp_path / "2.faiss").read_bytes()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"kind": "flat", "n_probe": 4},
            "n_probe belongs to ivf_flat, ivf_pq, but",
        ),
        ({"kind": "hnsw", "pq_m": 4}, r"pq_m belongs to ivf_pq"),
        ({"kind": "hsnw"}, r"did you mean 'hnsw'\?"),
        ({"kind": "IVF99999999,Flat"}, r"more than 16777216"),
        ({"kind": "PQ8x24"}, r"at most 16 bits"),
        ({"kind": "ivf_flat", "n_lists": 50, "train_size": 49}, r"give at least 50"),
        ({"kind": "ivf_pq", "train_size": 255}, r"give at least 256"),
        ({"kind": "IVF4,Flat", "search_parameters": "nprobe"}, r"pattern"),
    ],
)
def test_what_does_not_fit_the_kind_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Index(**table)


def test_a_section_survives_its_own_json() -> None:
    for table in ({}, *KINDS):
        index = Index(**table)
        assert Index.model_validate_json(index.model_dump_json()) == index


@pytest.mark.parametrize(
    ("table", "dim", "message"),
    [
        ({"kind": "IVF4,Foo"}, None, "is no factory string that FAISS knows"),
        ({"kind": "IVF4(,Flat"}, None, "unbalanced parentheses"),
        ({"kind": "IVF4,PQ7"}, 16, r"16-dimensional"),
        ({"kind": "IVF4,PQ7"}, None, None),
        ({"kind": "ivf_pq", "pq_m": 7}, 384, r"the nearest that do are 6 and 8"),
        ({"kind": "ivf_pq", "pq_m": 7}, None, None),
        ({"kind": "ivf_pq", "pq_m": 8}, 384, None),
        ({"kind": "IDMap,Flat"}, None, "leave out IDMap"),
        ({"kind": "IVF4,Flat", "search_parameters": "beam=4"}, 16, "could not set parameter beam"),
        ({"kind": "flat"}, 16, None),
    ],
)
def test_faults_are_known_without_a_vector(
    table: dict[str, Any], dim: int | None, message: str | None
) -> None:
    fault = fault_of(Index(**table), dim)
    assert fault is None if message is None else message in str(fault)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "ivf_flat", "n_lists": 101}, r"101 lists need at least 101 vectors .* are 100"),
        ({"kind": "ivf_pq"}, r"256 centroids a part .* at least 256 vectors .* are 100"),
        ({"kind": "OPQ4_8,Flat"}, r"OPQ's product quantiser need at least 256"),
        ({"kind": "IVF50,Flat", "train_size": 20}, r"are 20 \(index.train_size, of 100\)"),
    ],
)
def test_fewer_vectors_than_centroids_says_how_many_are_needed(
    tmp_path: Path, table: dict[str, Any], message: str
) -> None:
    with pytest.raises(StageError, match=message):
        write_index(vectors_of(100), Index(**table), tmp_path / "index.faiss")
    assert not (tmp_path / "index.faiss").exists()


def test_defaults_suit_the_number_of_vectors_and_dimensions() -> None:
    # 4 x the root of 10,000; 100 // 39; never none
    assert [lists_for(n) for n in (10_000, 100, 5)] == [256, 2, 1]
    assert [parts_for(dim) for dim in (384, 100, 7)] == [48, 10, 1]
    config = Index(kind="ivf_pq")
    assert config.factory(n_vectors=10_000, dim=384) == "IVF256,PQ48x8"
    assert make_index(config, n_vectors=10_000, dim=384).nlist == 256


def test_a_file_of_one_kind_does_not_serve_another(tmp_path: Path) -> None:
    write_index(vectors_of(100), Index(kind="hnsw"), tmp_path / "index.faiss")
    with pytest.raises(IndexMismatchError, match=r"IndexHNSWFlat .* 'sq'"):
        open_index(tmp_path / "index.faiss", Index(kind="sq"))


def test_dimensions_are_read_from_a_models_files(tmp_path: Path) -> None:
    def model(*modules: tuple[str, dict[str, Any]]) -> Path:
        for kind, config in modules:
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / "config.json").write_text(json.dumps(config))
        listed = [
            {"path": kind, "type": f"sentence_transformers.models.{kind}"} for kind, _ in modules
        ]
        (tmp_path / "modules.json").write_text(json.dumps(listed))
        return tmp_path

    pooling = {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True}
    both = pooling | {"pooling_mode_max_tokens": True}
    assert dimensions_of(model(("Pooling", pooling), ("Normalize", {}))) == 48
    assert dimensions_of(model(("Pooling", both))) == 96
    assert dimensions_of(model(("Pooling", both), ("Dense", {"out_features": 12}))) == 12
    assert dimensions_of(model(("Router", {}))) is None
    assert dimensions_of(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "kind", ["HNSW0", "HNSW1,Flat", "IVF4_HNSW1,Flat", "IVF0,Flat", "PQ0", "OPQ00,IVF4,SQ8"]
)
def test_a_factory_string_whose_count_kills_the_process_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="too few; expected at least"):
        Index(kind=kind)


@pytest.mark.parametrize("kind", ["NSG32", "NSG8,Flat", "IVF64_NSG8,Flat"])
def test_a_graph_that_faiss_may_build_for_ever_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="for ever"):
        Index(kind=kind)


@pytest.mark.parametrize("kind", ["HNSW16", "IVF10,Flat", "PQ8x4", "OPQ16_64,IVF256,PQ16"])
def test_counts_that_hold_a_nought_are_none(kind: str) -> None:
    assert Index(kind=kind).kind == kind


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("nprobe=0", "nprobe is 0: expected 1 to 2147483647"),
        ("quantizer_efSearch=0", "expected 1"),
        ("k_factor_rf=0", "expected 1"),
        ("nprobe=99999999999999", "expected 1 to 2147483647"),
        ("nprobe=4,ht=50", "polysemous"),
    ],
)
def test_parameters_with_which_faiss_would_fail_when_it_searches_are_refused(
    parameters: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Index(kind="IVF8,Flat", search_parameters=parameters)
    with pytest.raises(ValueError, match=message):
        Index(kind="IVF8,Flat", build_parameters=parameters)
    assert Index(kind="IVF8,Flat", search_parameters="max_codes=0,nprobe=1").search_parameters


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "l2"])
@pytest.mark.parametrize("value", [1e20, np.nan, np.inf])
@pytest.mark.parametrize("kind", ["flat", "hnsw", "IVF8,Flat"])
def test_vectors_with_which_faiss_would_end_the_process_are_refused_before_it_sees_them(
    tmp_path: Path, kind: str, value: float, metric: Any
) -> None:
    vectors = vectors_of(1_000)
    vectors[700] = value
    with pytest.raises(StageError, match="vector 700 has the length"):
        write_index(vectors, Index(kind=kind, metric=metric), tmp_path / "index.faiss")


@pytest.mark.parametrize("kind", ["ivf_pq", "PQ8", "OPQ8_16,IVF4,PQ8", "HNSW8_PQ8"])
def test_codes_are_not_ordered_for_hamming_distances_which_no_search_uses(kind: str) -> None:
    # that takes two seconds a part of a vector, and nothing else of the building a tenth of it
    index = make_index(Index(kind=kind), n_vectors=1_000, dim=32)
    flags = [
        part.do_polysemous_training
        for part in parts_of(index)
        if hasattr(part, "do_polysemous_training")
    ]
    assert flags
    assert not any(flags)
