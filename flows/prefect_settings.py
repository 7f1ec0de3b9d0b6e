"""Prefect's settings: ours, below what the user has set by environment or profile."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from schemas.home import Home

QUIET = {
    # Without these a temporary server prints a telemetry error and each state of each task.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rankhouse",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "DO_NOT_TRACK": "1",
}


def has_configured_server() -> bool:
    """Whether the user has named a Prefect server, by environment or active profile."""
    return bool(os.environ.get("PREFECT_API_URL") or active_profile().get("PREFECT_API_URL"))


def settings_for(home: Home) -> dict[str, str]:
    """What a command sets before it imports Prefect, without what the user has set."""
    home.prefect.mkdir(parents=True, exist_ok=True)
    settings = {**QUIET, "PREFECT_LOCAL_STORAGE_PATH": str(home.prefect / "results")}
    if not active_profile():
        settings["PREFECT_HOME"] = str(home.prefect)
    return unset(settings)


def records_folder(home: Home) -> Path:
    """Where commands find the records of finished stages."""
    name = "PREFECT_LOCAL_STORAGE_PATH"
    return Path(os.environ.get(name) or active_profile().get(name) or home.prefect / "results")


def active_profile() -> dict[str, str]:
    """The settings of the user's active Prefect profile, read without importing Prefect."""
    folder = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH", folder / "profiles.toml"))
    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    name = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
    settings = profiles.get("profiles", {}).get(name, {})
    return {key: str(value) for key, value in settings.items()}


def unset(settings: dict[str, str]) -> dict[str, str]:
    """Without what the user has set by environment or profile."""
    profile = active_profile()
    return {
        name: value
        for name, value in settings.items()
        if name not in os.environ and name not in profile
    }
