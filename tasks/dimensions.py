"""How many dimensions a model's vectors have, read from its files without loading it."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

POOLING_MODES = "pooling_mode_"  # each that is on adds its vector to the end


def dimensions_of(folder: Path) -> int | None:
    """Dimensions of the vectors of a sentence-transformers model; None: its files do not say.

    The last module that changes them decides: a dense layer, a pooling, a table of static vectors.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        for module in reversed(json.loads((folder / "modules.json").read_text("utf-8"))):
            found = _of_module(folder / str(module["path"]), str(module["type"]))
            if found is not None:
                return found
    return None


def _of_module(folder: Path, kind: str) -> int | None:
    name = kind.rpartition(".")[2]
    if name == "Dense":
        return int(_read(folder)["out_features"])
    if name == "Pooling":
        config = _read(folder)
        modes = [value for key, value in config.items() if key.startswith(POOLING_MODES)]
        n_modes = sum(value is True for value in modes)
        return int(config["word_embedding_dimension"]) * max(1, n_modes)
    if name == "StaticEmbedding":
        return _width_of_table(folder / "model.safetensors")
    return None


def _read(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    return config


def _width_of_table(path: Path) -> int:
    """The second number of the shape that a safetensors file's header gives its one table."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(min(size, 1 << 20)))
    shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
    return int(max(shapes, key=len)[1])
