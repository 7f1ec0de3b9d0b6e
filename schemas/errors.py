"""Every error that Rankhouse raises on purpose.

RankhouseError
├── RefusedError              exit 2: nothing was spent or written
│   ├── UsageError            the command's words
│   ├── ConfigurationError    an experiment, grid or suite file
│   ├── InputError            a corpus, benchmark, qrels or run file
│   └── StorageError          a home, store or warehouse that cannot be used
├── FailedError               exit 1: work had begun
│   ├── ArtifactDamagedError  a stored artifact is missing, short or altered
│   ├── StageError            a stage could not produce its output
│   │   └── IndexMismatchError  an index and vectors that do not belong together
│   └── ValidationRefusedError  frames that break their table's model
└── FindingError              exit 3: a check found something

A message says what came, what was expected, where, and what to do.
"""

from __future__ import annotations

from pathlib import Path


class RankhouseError(Exception):
    """The root; ``exit_code`` is what the command line returns."""

    exit_code = 1


class RefusedError(RankhouseError):
    """Refused before anything was spent or written."""

    exit_code = 2


class UsageError(RefusedError):
    """The command's words cannot be followed."""


class ConfigurationError(RefusedError):
    """A configuration file, or a setting in it, cannot be used."""


class InputError(RefusedError):
    """An input file cannot be used; names the file and, where known, the line (from 1)."""

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None):
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message)


class StorageError(RefusedError):
    """A home folder, artifact store or warehouse file cannot be used."""


class FailedError(RankhouseError):
    """Work had begun and could not be finished."""

    exit_code = 1


class ArtifactDamagedError(FailedError):
    """A stored artifact is missing, short or altered; ``name`` is its path in the store."""

    def __init__(self, message: str, *, name: str):
        self.name = name
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep ``name`` when the error crosses a process."""
        return _rebuild_damaged, (str(self), self.name)


class StageError(FailedError):
    """A stage could not produce its output."""


class IndexMismatchError(StageError):
    """An index does not fit the vectors or chunks that it is used with."""


class ValidationRefusedError(FailedError):
    """Frames that break their table's model; nothing of the run was written."""


class FindingError(RankhouseError):
    """A check, verification or status found something to look at."""

    exit_code = 3


def _rebuild_damaged(message: str, name: str) -> ArtifactDamagedError:
    return ArtifactDamagedError(message, name=name)
