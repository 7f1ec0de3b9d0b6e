"""The command ``rankhouse``: finds a command's module when it is called, and reports errors."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import FailedError, RankhouseError, UsageError
from warehouse.files import is_full

if TYPE_CHECKING:
    from flows.lasting_servers import LastingServer
    from flows.server_processes import Server
    from schemas.home import Home

COLLECT_AFTER = 20_000
"""New objects before Python looks for cycles; after 700, as by default, imports take longer."""
LIBRARY_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own allocator keeps what was freed
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}

# One line each, so that `rankhouse --help` loads no command's module.
COMMANDS = {
    "demo": "Run the demo evaluation in a home of its own.",
    "init": "Write an experiment file for your own documents.",
    "evaluate": "Evaluate one experiment.",
    "experiment": "Evaluate a grid of experiments.",
    "nightly": "Run one night of a suite, compared and gated.",
    "baseline": "Accept a run as what later nights are compared with.",
    "runs": "List the latest runs; note and tag them.",
    "history": "Show how a measure went, night by night.",
    "leaderboard": "Order the experiments of a night.",
    "compare": "Compare a run with a baseline; test it for losses that matter.",
    "explain": "Say what differs between a run and its baseline.",
    "worst": "List the queries that lost most between two runs.",
    "serve": "Run a suite every night on this machine.",
    "recover": "Free what nights of a killed worker hold.",
    "status": "Tell whether the nights still come, and land.",
    "sql": "Ask the published warehouse in SQL.",
    "export": "Write a run as TREC, Parquet, ragas or CSV files.",
    "import": "Store a TREC run and its qrels as a run.",
    "recompute": "Compute a measure for past runs.",
    "warehouse": "Migrate, load, verify or prune the warehouse.",
    "cache": "List, prune or verify stored stages.",
    "trec": "Score TREC run files against qrels.",
    "measures": "Print every measure's contract.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules of ``flows.commands``, imported when called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse words that are not UTF-8, of any command, before anything is written."""
        for position, argument in enumerate(args, start=1):
            try:
                argument.encode()
            except UnicodeEncodeError:
                raise UsageError(f"argument {position} is not UTF-8: {argument!a}") from None
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a day's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"flows.commands.{cmd_name}")
        command: click.Command = module.command
        _keep_examples_whole(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _keep_examples_whole(command: click.Command) -> None:
    r"""Put ``\b`` before examples, click's mark for lines that are not to be wrapped."""
    leaves = command.commands.values() if isinstance(command, click.Group) else []
    for found in (command, *leaves):
        found.help = (found.help or "").replace("\n\nExample: ", "\n\n\b\nExample: ")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: rankhouse demo",
)
@click.version_option(package_name="rankhouse", message="rankhouse %(version)s")
def command() -> None:
    """Tell how good the retrieval step of a RAG system is, and why that changed.

    Everything lives under $RANKHOUSE_HOME, by default the nearest .rankhouse/ upwards.
    """


class Terminated(BaseException):
    """SIGTERM came: leave as Ctrl-C does, so that what was started is stopped."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came. Python ends by SIGINT once KeyboardInterrupt itself left an ``exec``."""


STOPPED = {signal.SIGINT: ("stopped", 130), signal.SIGTERM: ("terminated", 143)}
_signals: list[int] = []  # SIGINT and SIGTERM, in the order in which they came


def _stop(number: int, frame: object) -> None:
    _signals.append(number)
    raise Terminated if number == signal.SIGTERM else Interrupted


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave with its exit code (see the README)."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        sys.stdout = sys.stdout or open(os.devnull, "w")
        sys.stderr = sys.stderr or open(os.devnull, "w")
    try:
        code = run(lambda: command.main(arguments, prog_name="rankhouse", standalone_mode=False))
    except (KeyboardInterrupt, Terminated):  # it came while another error was being explained
        code = STOPPED[signal.Signals(_signals[0]) if _signals else signal.SIGINT][1]
    if _signals:
        _leave_threads(code)
    sys.exit(code)


def _leave_threads(code: int) -> None:
    """Leave at once: the runs of a grid that compute in threads cannot be interrupted."""
    import threading

    if threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def run(call: Callable[[], Any]) -> int:
    """Call and turn what happens into an exit code; errors become one message on stderr."""
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    try:
        result = call()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, Terminated, click.Abort):
        return _explain_signal()
    except Exception as error:
        # A library may make something else of a signal: DuckDB a RuntimeError, say.
        return _explain_signal() if _signals else _explain_error(error)
    return result if isinstance(result, int) else 0


def _explain_signal() -> int:
    """Say what stopped the command; Ctrl-C where no handler of ours saw a signal."""
    return _explain(*STOPPED[signal.Signals(_signals[0]) if _signals else signal.SIGINT])


def _explain_error(error: Exception) -> int:
    if isinstance(error, RankhouseError):
        return _explain(f"error: {error}", error.exit_code)
    if isinstance(error, OSError):
        return _explain_os_error(error)
    return _explain_defect(error)


def _explain(message: str, exit_code: int) -> int:
    from flows.printing import say

    for line in message.splitlines():
        say(line)
    return exit_code


def _explain_os_error(error: OSError) -> int:
    """What the system refused is no defect of ours."""
    if isinstance(error, BrokenPipeError):
        _silence_stdout()
        return 141
    if is_full(error):
        return _explain_full(error)
    return _explain(f"error: {error.filename or 'standard output'}: {error.strerror or error}", 1)


def _explain_full(error: Exception) -> int:
    """Polars, Arrow and DuckDB each have an error of their own for a full disk."""
    where = getattr(error, "filename", None)
    at = f"{where}: " if where else ""
    return _explain(f"error: {at}no space is left on the disk; make room, and try again", 1)


def _explain_defect(error: Exception) -> int:
    if is_full(error):
        return _explain_full(error)
    return _explain(
        f"error: {type(error).__name__}: {error}\n"
        f"This is a defect of Rankhouse; its trace is in {_keep_trace()}",
        1,
    )


@contextlib.contextmanager
def _silence_explained() -> Iterator[None]:
    """Say of a Prefect server that cannot be reached what to do about it."""
    try:
        yield
    except RuntimeError as error:
        if "Failed to reach API" not in str(error):
            raise
        raise FailedError(
            f"the Prefect server does not answer: {error}. Is PREFECT_API_URL right, and is it "
            "running? Without PREFECT_API_URL a server of the command's own is started."
        ) from None


@contextlib.contextmanager
def prefect_environment(home: Home) -> Iterator[Server]:
    """Set, before Prefect and the model libraries are imported, what the user has not set."""
    from flows.servers import prefect_server

    with prefect_server(home) as server:
        for name, value in {**server.environment, **LIBRARY_SETTINGS}.items():
            os.environ.setdefault(name, value)
        with _silence_explained():
            yield server


@contextlib.contextmanager
def serving_environment(home: Home, port: int) -> Iterator[LastingServer | None]:
    """As ``prefect_environment``, for a server that lasts; None: a configured one is used."""
    from flows.lasting_servers import LASTING, lasting_server
    from flows.prefect_settings import has_configured_server, settings_for, unset
    from schemas.home import HOME_VARIABLE

    with contextlib.ExitStack() as stack:
        server = None
        environment = {**settings_for(home), **unset(LASTING)}
        if not has_configured_server():
            server = stack.enter_context(lasting_server(home, port))
            environment = server.environment
        os.environ[HOME_VARIABLE] = str(home.path)  # for nights, wherever they run
        for name, value in {**environment, **LIBRARY_SETTINGS}.items():
            os.environ.setdefault(name, value)
        with _silence_explained():
            yield server


def _keep_trace() -> str:
    """Write the trace of the error at hand to a file: a terminal is not the place for it."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="rankhouse-", suffix=".txt", delete=False
    ) as stream:
        traceback.print_exc(file=stream)
    return stream.name


def _silence_stdout() -> None:
    """Keep the interpreter from complaining, at exit, about a reader that has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
