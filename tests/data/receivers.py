"""Receivers of notifications on the loopback interface: one that listens, and some that do not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "s3cret-token"  # noqa: S105


class Receivers:
    """One server; how it behaves is the path's first word."""

    def __init__(self, port: int):
        self.port = port
        self.heard: list[dict[str, Any]] = []
        self.is_up = True  # whether ``takes`` answers with 200

    def url(self, behaviour: str) -> str:
        """An apprise URL with a secret in it; rto: how long apprise itself would wait."""
        return f"json://user:{SECRET}@127.0.0.1:{self.port}/{behaviour}?rto=300&cto=300"


@contextmanager
def receivers() -> Iterator[Receivers]:
    """Start the server."""
    known: list[Receivers] = []
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            behaviour = self.path.strip("/").partition("?")[0]
            if behaviour == "hangs":
                is_over.wait()
            elif behaviour == "drips":
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                while not is_over.is_set():
                    self.wfile.write(b" ")
                    time.sleep(0.1)
            elif behaviour == "takes" and known[0].is_up:
                known[0].heard.append(body)
                self._answer(200)
            else:
                self._answer(500)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the sender was killed
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.append(Receivers(server.server_address[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield known[0]
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()


def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
