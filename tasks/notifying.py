"""Send a notification through apprise, within a limit, without showing where it goes.

The library runs in a child process that is killed when its time is up: a receiver that is dead,
hangs or drips costs a night nothing but that time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from schemas.errors import ConfigurationError

CHILD = Path(__file__).with_name("notifying_child.py")
CHECK_SECONDS = 60.0
"""For importing apprise on a busy machine; nothing is sent."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the message at one receiver, which is known by its place from 1."""

    place: int
    is_delivered: bool
    reason: str = ""  # why not; never a URL or host


def receivers_of(variable: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The URLs that an environment variable holds, separated by white space."""
    return tuple((environment.get(variable, "") if variable else "").split())


def check_receivers(variable: str, urls: Sequence[str]) -> None:
    """Refuse what could never be told, before a night begins.

    Raises:
        ConfigurationError: apprise is not installed, or does not know a URL; which one is said by
            its place.
    """
    if not urls:
        return
    if find_spec("apprise") is None:
        raise ConfigurationError(
            f"{variable} names {len(urls)} receivers, and apprise, which sends to them, is not "
            'installed: pip install -e ".[notify]", or unset the variable'
        )
    for delivery in _ask(urls, "", "", seconds=CHECK_SECONDS, is_check=True):
        if not delivery.is_delivered:
            raise ConfigurationError(
                f"{variable}: receiver {delivery.place} of {len(urls)}: {delivery.reason}. "
                "Expected URLs as apprise writes them, such as mailto:// or json://, separated by "
                "white space."
            )


def send(urls: Sequence[str], title: str, body: str, *, seconds: float) -> list[Delivery]:
    """Send one message to every receiver at once; comes back within about ``seconds``.

    Args:
        urls: as apprise writes them.
        title: one line of plain text.
        body: plain text.
        seconds: after which whoever has not answered counts as not reached.
    """
    return _ask(urls, title, body, seconds=seconds, is_check=False)


def _ask(
    urls: Sequence[str], title: str, body: str, *, seconds: float, is_check: bool
) -> list[Delivery]:
    asked = {"urls": list(urls), "title": title, "body": body}
    said = _run(json.dumps({**asked, "seconds": seconds, "is_check": is_check}), seconds)
    found: dict[int, Delivery] = {}
    for line in said.splitlines():
        with suppress(ValueError):  # half a line of a child that was killed
            index, is_delivered, reason = json.loads(line)
            found[index] = Delivery(index + 1, is_delivered, reason)
    late = f"no answer within {seconds:g} s"
    return [found.get(i, Delivery(i + 1, False, late)) for i in range(len(urls))]


def _run(asked: str, seconds: float) -> str:
    """What the child printed until it ended or was killed, with all that it started."""
    child = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-I", str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a traceback may show a URL
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(asked, timeout=seconds)
    except subprocess.TimeoutExpired as expired:
        _kill(child)
        said, _ = child.communicate()
        return said or _text(expired.stdout)
    except BaseException:
        _kill(child)
        raise
    return said


def _kill(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _text(output: bytes | str | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
