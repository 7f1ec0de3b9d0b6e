"""The section ``[index]``: how vectors are searched, exhaustively or by an approximate kind.

A kind stands for a FAISS factory string; any other factory string may stand in its place. What
decides the index file (``for_building``) and what only decides searches in it (``for_searching``)
are told apart, so that another ``n_probe`` searches the same file.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.sections import Section

SqType = Literal["8bit", "6bit", "4bit", "fp16", "bf16"]

TRAINED: dict[str, Any] = {"train_size": None, "seed": 1234}
DEFAULTS: dict[str, dict[str, Any]] = {
    "flat": {},
    "hnsw": {"m": 32, "ef_construction": 80, "ef_search": 128, "seed": 1234},
    "ivf_flat": {"n_lists": None, "n_probe": 32, **TRAINED},
    "ivf_pq": {"n_lists": None, "n_probe": 32, "pq_m": None, "pq_bits": 8, **TRAINED}
    | {"n_candidates": None},
    "sq": {"sq_type": "8bit", **TRAINED, "n_candidates": None},
}
"""The keys that belong to each kind beside ``metric``, with their defaults."""
FACTORY_KEYS: dict[str, Any] = {
    "build_parameters": None,
    "search_parameters": None,
    "n_candidates": None,
    **TRAINED,
}
"""The keys that belong to a factory string."""
SEARCH_KEYS = ("ef_search", "n_probe", "n_candidates", "search_parameters")
FLAT_FACTORY = "Flat"
LARGEST_IN_FACTORY = 1 << 24  # lists or neighbours; FAISS would reserve memory for more
MOST_PQ_BITS = 16
MOST_PARAMETER = 2**31 - 1
POINTS_PER_LIST = 39  # the least that FAISS advises
LISTS_PER_ROOT = 4  # FAISS's guideline: 4 to 16 times the root of the number of vectors
SQ_FACTORY = {"8bit": "SQ8", "6bit": "SQ6", "4bit": "SQ4", "fp16": "SQfp16", "bf16": "SQbf16"}

Parameters = Annotated[str, Field(pattern=r"^[A-Za-z_]+=[0-9.]+(,[A-Za-z_]+=[0-9.]+)*$")]


class Index(Section):
    """How vectors are searched. A key that the file leaves out gets its kind's default."""

    kind: Annotated[str, Field(min_length=1, max_length=200)] = "flat"
    metric: Literal["inner_product", "cosine", "l2"] = "cosine"
    # hnsw: neighbours a vector, candidates while it is built, candidates of a search
    m: Annotated[int | None, Field(ge=2, le=512)] = None
    ef_construction: Annotated[int | None, Field(ge=1, le=100_000)] = None
    ef_search: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    # ivf_flat, ivf_pq: lists (None: by the number of vectors), and how many a search reads
    n_lists: Annotated[int | None, Field(ge=1, le=LARGEST_IN_FACTORY)] = None
    n_probe: Annotated[int | None, Field(ge=1, le=LARGEST_IN_FACTORY)] = None
    # ivf_pq: parts of a vector (None: by its dimensions), bits a part
    pq_m: Annotated[int | None, Field(ge=1, le=65_536)] = None
    pq_bits: Annotated[int | None, Field(ge=1, le=MOST_PQ_BITS)] = None
    sq_type: SqType | None = None
    # a factory string: in FAISS's own words, such as "efConstruction=80" and "nprobe=16"
    build_parameters: Parameters | None = None
    search_parameters: Parameters | None = None
    # what is trained: how many vectors it learns from (None: see ``sample_size``)
    train_size: Annotated[int | None, Field(ge=1)] = None
    seed: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None
    # candidates of a search that are scored exactly; None: the depth and an eighth, at least 16
    n_candidates: Annotated[int | None, Field(ge=1, le=1_000_000)] = None

    @model_validator(mode="before")
    @classmethod
    def _keys_of_its_kind(cls, table: Any) -> Any:
        """Refuse what does not belong to the kind, and fill in its defaults."""
        kind = table.get("kind", "flat") if isinstance(table, dict) else None
        if not isinstance(kind, str):
            return table
        own = DEFAULTS.get(kind, FACTORY_KEYS)
        if kind not in DEFAULTS:
            _refuse_unlike_factory(kind)
        for key, value in table.items():
            if value is None or key in own or key not in cls.model_fields:
                continue
            if key not in ("kind", "metric"):
                raise ValueError(_foreign_key(key, kind, own))
        given = {key: value for key, value in table.items() if value is not None}
        return {**own, **given}

    @field_validator("build_parameters", "search_parameters")
    @classmethod
    def _parameters_search(cls, parameters: str | None) -> str | None:
        """Refuse what FAISS would take, and then fail when it searches."""
        if parameters is None:
            return None
        for name, _, value in (part.partition("=") for part in parameters.split(",")):
            least = 1 if re.search(r"(nprobe|efSearch|efConstruction|k_factor(_rf)?)$", name) else 0
            if not least <= float(value) <= MOST_PARAMETER:
                raise ValueError(f"{name} is {value}: expected {least} to {MOST_PARAMETER}")
            if name == "ht":
                raise ValueError("ht is of polysemous codes, for which no index is trained here")
        return parameters

    @model_validator(mode="after")
    def _sample_reaches(self) -> Index:
        needed = max(self.n_lists or 1, 1 << self.pq_bits if self.pq_bits else 1)
        if self.train_size is not None and self.train_size < needed:
            raise ValueError(
                f"train_size is {self.train_size}, but {needed} centroids are learnt from it "
                f"(n_lists, or 2^pq_bits): give at least {needed}"
            )
        return self

    @property
    def is_factory(self) -> bool:
        """Whether ``kind`` is a factory string of the user's own."""
        return self.kind not in DEFAULTS

    @property
    def is_exhaustive(self) -> bool:
        """Whether every vector is compared, as it is stored."""
        return self.kind in ("flat", FLAT_FACTORY)

    @property
    def is_rough(self) -> bool:
        """Whether its own scores may be those of compressed vectors, so that more are rescored."""
        return "n_candidates" in DEFAULTS.get(self.kind, FACTORY_KEYS)

    def for_building(self) -> Index:
        """What decides the index file."""
        return self.model_copy(update=dict.fromkeys(SEARCH_KEYS))

    def for_searching(self) -> Index:
        """What decides searches in the file, whose content stands for itself."""
        kept = {"kind", "metric", *SEARCH_KEYS}
        return self.model_copy(update=dict.fromkeys(set(type(self).model_fields) - kept))

    def factory(self, *, n_vectors: int, dim: int) -> str:
        """The FAISS factory string for so many vectors of so many dimensions."""
        lists = self.n_lists or lists_for(n_vectors)
        if self.kind == "flat":
            return FLAT_FACTORY
        if self.kind == "hnsw":
            return f"HNSW{self.m}"
        if self.kind == "ivf_flat":
            return f"IVF{lists},Flat"
        if self.kind == "ivf_pq":
            return f"IVF{lists},PQ{self.pq_m or parts_for(dim)}x{self.pq_bits}"
        if self.kind == "sq":
            return SQ_FACTORY[str(self.sq_type)]
        return self.kind


def lists_for(n_vectors: int) -> int:
    """How many lists fit so many vectors: 4 √n, fewer where a list would be nearly empty."""
    by_root = round(LISTS_PER_ROOT * math.sqrt(n_vectors))
    return max(1, min(by_root, n_vectors // POINTS_PER_LIST))


def parts_for(dim: int) -> int:
    """The most parts of at least eight dimensions that divide a vector evenly."""
    return max(parts for parts in range(1, max(1, dim // 8) + 1) if dim % parts == 0)


def _refuse_unlike_factory(kind: str) -> None:
    """Factory strings begin with a capital; anything else is a kind misspelt."""
    if not re.match(r"[A-Z]", kind):
        near = difflib.get_close_matches(kind.lower(), DEFAULTS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"kind is {kind!r}: expected one of {', '.join(DEFAULTS)}, or a FAISS factory string "
            f"such as 'OPQ16_64,IVF256,PQ16'{hint}"
        )
    scale = {"": 1, "k": 1 << 10, "M": 1 << 20}
    for digits, unit in re.findall(r"([0-9]+)([kM]?)", kind):
        if int(digits) * scale[unit] > LARGEST_IN_FACTORY:
            raise ValueError(
                f"kind is {kind!r}: {digits}{unit} is more than {LARGEST_IN_FACTORY}, for which "
                "FAISS would reserve memory before it has seen a vector"
            )
    if "NSG" in kind:
        raise ValueError(
            f"kind is {kind!r}: FAISS can build an NSG graph for ever, where vectors are equal or "
            "links few; expected another kind, such as 'HNSW32'"
        )
    # FAISS takes these from the string and then ends the whole process, or fails when it searches
    if found := re.search(r"(?:HNSW[01]|(?<=[A-Za-z_])0+)(?![0-9])", kind):
        least = "2 links" if found[0][:1] == "H" else "1"
        raise ValueError(f"kind is {kind!r}: {found[0]} is too few; expected at least {least}")
    for bits in re.findall(r"PQ[0-9]+x([0-9]+)", kind):
        if int(bits) > MOST_PQ_BITS:
            raise ValueError(f"kind is {kind!r}: expected at most {MOST_PQ_BITS} bits a part")


def _foreign_key(key: str, kind: str, own: dict[str, Any]) -> str:
    kinds = [name for name, keys in DEFAULTS.items() if key in keys]
    if key in FACTORY_KEYS:
        kinds.append("a factory string")
    known = ", ".join(own) or "none but metric"
    return (
        f"{key} belongs to {', '.join(kinds)}, but kind is {kind!r}, whose keys are: {known}. "
        "Leave it out, or set kind"
    )
