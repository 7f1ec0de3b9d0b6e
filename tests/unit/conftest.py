"""Unit tests run without Prefect's server, models or network; a warning is an error."""

import os

import pytest

os.environ.setdefault("POLARS_MAX_THREADS", "2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/unit" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("error"), append=False)
