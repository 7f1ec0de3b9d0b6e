"""What a process has cost is its own, and memory that was freed goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks.measuring import peak_memory
from tasks.memory import give_back

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def run(script: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [int(number) for number in done.stdout.split()]


def test_the_peak_stays_when_the_memory_is_gone() -> None:
    script = (
        "from tasks.measuring import peak_memory\n"
        "before = peak_memory()\n"
        "block = bytearray(b'x' * 200_000_000)\n"
        "del block\n"
        "print(before, peak_memory())"
    )
    before, after = run(script)
    assert after - before > 100 * MEGABYTE
    assert after >= 200 * MEGABYTE


@on_linux
def test_the_peak_is_not_that_of_the_process_that_started_it() -> None:
    block = np.ones(50 * MEGABYTE)  # 400 MB, all of it resident
    (of_child,) = run("from tasks.measuring import peak_memory\nprint(peak_memory())")
    assert peak_memory() > block.nbytes
    assert MEGABYTE < of_child < 200 * MEGABYTE


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_what_was_freed_goes_back_to_the_system() -> None:
    script = (
        "from pathlib import Path\n"
        "from tasks.memory import give_back\n"
        "def resident():\n"
        "    return 4096 * int(Path('/proc/self/statm').read_text().split()[1])\n"
        "texts = [bytes(50_000) for _ in range(4_000)]\n"  # 200 MB, none of them a map of its own
        "kept = texts[::100]\n"  # all over the heap
        "del texts\n"
        "before = resident()\n"
        "give_back()\n"
        "print(before, resident())"
    )
    before, after = run(script)
    assert before - after > 100 * MEGABYTE


def test_giving_back_works_with_and_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow

    assert sys.modules["pyarrow"] is pyarrow
    give_back()
    monkeypatch.delitem(sys.modules, "pyarrow")
    give_back()
    assert "pyarrow" not in sys.modules


def test_what_comes_after_the_libraries_is_collected_however_often_they_are_frozen() -> None:
    script = (
        "import gc, weakref\n"
        "from tasks.memory import freeze_libraries\n"
        "class Run: pass\n"
        "def cycle():\n"
        "    run = Run()\n"
        "    run.itself = run\n"
        "    return weakref.ref(run)\n"
        "gc.disable()\n"
        "freeze_libraries()\n"
        "after = cycle()\n"
        "freeze_libraries()\n"
        "gc.collect()\n"
        "print(int(after() is None), gc.get_freeze_count())"
    )
    is_gone, n_frozen = run(script)
    assert is_gone
    assert n_frozen > 1_000
