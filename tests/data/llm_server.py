"""A scripted OpenAI-compatible server on loopback: in a thread for tests, a process for benches.

``python llm_server.py --latency 0.2 --width 32`` prints its port, and counts at ``GET /stats``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

N_PHRASES = 8


@dataclass
class Reply:
    """What is sent back: ``content`` as a chat completion, or ``raw`` as it stands."""

    content: str | None = None
    finish: str = "stop"
    message: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    raw: Any = None  # a JSON value or bytes in place of a chat completion
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    is_hung: bool = False  # never answered
    is_cut: bool = False  # the connection is closed in the middle of the body
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 50}
    )

    def body(self) -> bytes:
        if isinstance(self.raw, bytes):
            return self.raw
        if self.raw is not None:
            return json.dumps(self.raw).encode()
        message = {"role": "assistant", "content": self.content, **self.message}
        choice = {"index": 0, "finish_reason": self.finish, "message": message}
        table = {"id": "x", "object": "chat.completion", "created": 1, "model": "scripted"}
        return json.dumps(table | {"choices": [choice], "usage": self.usage}).encode()


def error(status: int, message: str = "scripted", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, raw={"error": {"message": message}}, headers=named)


def purpose_of(body: dict[str, Any]) -> str:
    """Which of our prompts a request is: by the form of JSON that its instructions ask for."""
    system = body["messages"][0]["content"]
    for purpose in ("key_phrases", "questions", "answers"):
        if f'{{"{purpose}": [' in system:
            return purpose
    return "summary"


def blocks_of(body: dict[str, Any]) -> list[str]:
    """The pieces of data in the user message."""
    text = body["messages"][-1]["content"]
    return [text for _, text in re.findall(r"<(data-[0-9a-f]{16})>\n(.*?)\n</\1>", text, re.DOTALL)]


def lines_of(block: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in block.splitlines()]


def sensible(body: dict[str, Any]) -> Reply:
    """Eight phrases, a question for each, and "1" to all questions but the last one asked."""
    purpose = purpose_of(body)
    if purpose == "summary":
        is_probe = not blocks_of(body)
        return Reply('{"ok": true}' if is_probe else "A short summary of the passages.")
    blocks = blocks_of(body)
    if purpose == "key_phrases":
        words = list(dict.fromkeys(re.findall(r"\w+", blocks[0])))[:N_PHRASES]
        return Reply(json.dumps({"key_phrases": words}))
    if purpose == "questions":
        asked = [
            {"index": line["index"], "question": f"Does it say {line['text']}?"}
            for line in lines_of(blocks[1])
        ]
        return Reply(json.dumps({"questions": asked}))
    questions = lines_of(blocks[1])
    answers = [
        {
            "index": line["index"],
            "reason": "it says so",
            "answer": "0" if position == N_PHRASES - 1 else "1",
        }
        for position, line in enumerate(questions)
    ]
    return Reply(json.dumps({"answers": answers}))


class ScriptedServer:
    """Answers by ``script``, given the request and how many came before it."""

    def __init__(
        self,
        script: Callable[[dict[str, Any], int], Reply] | None = None,
        path: str = "/v1/chat/completions",
    ):
        self.path = path
        self.script = script or (lambda body, n: sensible(body))
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.answered: Counter[str] = Counter()  # requests that got a 200, by content
        self.statuses: Counter[int] = Counter()
        self.in_flight = 0
        self.most_in_flight = 0
        self.keeps_bodies = True
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def purposes(self) -> Counter[str]:
        """How many requests of each kind came, the probe apart."""
        return Counter(
            purpose_of(body) if blocks_of(body) else "probe" for body in list(self.bodies)
        )

    def __enter__(self) -> ScriptedServer:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        def work() -> None:
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self.start())
            started.set()
            self._loop.run_forever()

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)content-length: (\d+)", head)
        raw = await reader.readexactly(int(length[1])) if length else b""
        if head.startswith("GET /stats"):
            self._write(writer, Reply(raw=self.stats()))
            return True
        if not head.startswith(f"POST {self.path} "):
            self._write(writer, Reply(status=404, raw=b"<html>not here</html>"))
            return True
        body = json.loads(raw)
        number = sum(self.statuses.values())
        if self.keeps_bodies:
            self.bodies.append(body)
            self.headers.append(head)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.script(body, number)
            self.statuses[reply.status] += 1
            if reply.is_hung:
                await asyncio.sleep(3600)
            if reply.delay:
                await asyncio.sleep(reply.delay)
        finally:
            self.in_flight -= 1
        if reply.is_cut:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{")
            await writer.drain()
            return False
        self._write(writer, reply)
        await writer.drain()
        if reply.status == 200:
            self.answered[hashlib.sha256(raw).hexdigest()] += 1
        return True

    def stats(self) -> dict[str, Any]:
        return {
            "n_answered": sum(self.answered.values()),
            "n_different": len(self.answered),
            "most_in_flight": self.most_in_flight,
            "statuses": dict(self.statuses),
        }

    @staticmethod
    def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
        body = reply.body()
        kind = "text/html" if body.startswith(b"<") else "application/json"
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **reply.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode() + body)


def _serve(options: argparse.Namespace) -> None:
    dice = random.Random(options.seed)
    server = ScriptedServer()
    server.keeps_bodies = False

    def script(body: dict[str, Any], number: int) -> Reply:
        if options.width and server.in_flight > options.width:
            return error(429)
        if dice.random() < options.random_429:
            return error(429)
        if options.hang_after is not None and number >= options.hang_after:
            return Reply(is_hung=True)
        reply = sensible(body)
        reply.delay = options.latency
        return reply

    server.script = script

    async def serve() -> None:
        await server.start(options.port)
        print(server.port, flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--random-429", type=float, default=0.0)
    parser.add_argument("--hang-after", type=int)
    parser.add_argument("--seed", type=int, default=1)
    _serve(parser.parse_args())
