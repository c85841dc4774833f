"""A local server that speaks the Anthropic Messages API and OpenAI's Chat Completions and Embeddings, and misbehaves on
request.

In tests::

    with WireServer(lambda seen: Say(text="Hello")) as server:
        config = ModelConfig(..., base_url=server.url, api_key="key")

From a shell, with a scenario of ``tests.wire.scenarios`` or a ``module:callable``::

    python -m tests.wire.server --port 8099 --scenario humaneval
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from tests.wire.rules import anthropic_fault, embeddings_fault, openai_fault
from tests.wire.say import Handler, Raw, Seen, Wire, anthropic_events, anthropic_sse, openai_chunks, openai_sse

OPENAI_PATH = "/v1/chat/completions"
EMBEDDINGS_PATH = "/v1/embeddings"
FAULTS = {"anthropic": anthropic_fault, "openai": openai_fault, "embeddings": embeddings_fault}


class WireServer:
    """``seen`` are the requests that came, ``faults`` what was wrong with them, ``left`` when clients hung up early."""

    def __init__(self, handler: Handler, *, port: int = 0, key: str = "", pace: float = 0.0) -> None:
        self.handler = handler
        self.key = key
        self.pace = pace
        self.seen: list[Seen] = []
        self.heads: list[dict[str, str]] = []
        """The headers of everything that was asked, of lists of models too."""
        self.faults: list[str] = []
        self.left: list[float] = []
        self.strict = True
        self.watch_for = b""
        self.named_at = 0.0
        """When ``watch_for`` was last written to a client, by the monotonic clock."""
        self._port = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="wire-server", daemon=True)

    @property
    def url(self) -> str:
        """For the anthropic provider."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the wire server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._stopping = asyncio.Event()
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=2**26)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._exchange(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.heads.append(headers)
        answer = self._answer(path, headers, body)
        sending = asyncio.ensure_future(self._send(writer, answer))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self.left.append(time.monotonic())
        for task in (sending, gone):
            task.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)

    def _answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Raw:
        plain = path.split("?")[0]
        if plain.endswith("/models"):
            return Raw(headers={"content-type": "application/json"}, body=json.dumps({"data": [{"id": "wire-model"}]}))
        if plain.endswith(("/props", "/info")) or "/api/" in plain:
            return Raw.error(404, "not_found_error", "another kind of server says this")
        try:
            asked = json.loads(body)
        except ValueError:
            return Raw.error(400, "invalid_request_error", "the body is no JSON")
        if plain.endswith("/count_tokens"):
            count = json.dumps({"input_tokens": len(body) // 4})
            return Raw(headers={"content-type": "application/json"}, body=count)
        forms = {OPENAI_PATH: "openai", EMBEDDINGS_PATH: "embeddings"}
        form = next((form for end, form in forms.items() if plain.endswith(end)), "anthropic")
        seen = Seen(form, plain, headers, asked, len(self.seen), body)  # type: ignore[arg-type]
        self.seen.append(seen)
        return self._refusal(seen) or self._spoken(seen)

    def _refusal(self, seen: Seen) -> Raw | None:
        given = seen.headers.get("authorization", "").removeprefix("Bearer ") or seen.headers.get("x-api-key", "")
        if self.key and given != self.key:
            return Raw.error(401, "authentication_error", "invalid x-api-key")
        fault = FAULTS[seen.form](seen.body)
        if fault:
            self.faults.append(fault)
        return Raw.error(400, "invalid_request_error", fault) if fault and self.strict else None

    def _spoken(self, seen: Seen) -> Raw:
        said = self.handler(seen)
        if isinstance(said, Raw):
            return said
        wire = said.wire or Wire(pace=self.pace)
        openai = seen.form == "openai"
        parts = openai_sse(openai_chunks(said, seen)) if openai else anthropic_sse(anthropic_events(said, seen))
        return Raw.sse(_travelling(parts, wire), wire=replace(wire, events=None))

    async def _send(self, writer: asyncio.StreamWriter, answer: Raw) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        headers = {"request-id": "req_wire", "x-request-id": "req_wire", "connection": "close", **answer.headers}
        headers |= {"transfer-encoding": "chunked"} if answer.stream else {"content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} Status\r\n{head}\r\n".encode())
        if not answer.stream:
            writer.write(body)
            await writer.drain()
            return
        for piece in _chunks(body, answer.wire):
            if self.watch_for and self.watch_for in piece:
                self.named_at = time.monotonic()
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(answer.wire.pace)
        await _end(writer, answer.wire)


def _travelling(parts: Sequence[str], wire: Wire) -> str:
    kept = list(parts) if wire.events is None else list(parts[: wire.events])
    inserted = [wire.insert.get(at, "") + part for at, part in enumerate(kept)]
    inserted.append(wire.insert.get(len(kept), ""))
    text = "".join(inserted)
    return text.replace("\n", "\r\n") if wire.crlf else text


def _chunks(body: bytes, wire: Wire) -> list[bytes]:
    if wire.chunk:
        return [body[at : at + wire.chunk] for at in range(0, len(body), wire.chunk)]
    blank = b"\r\n\r\n" if wire.crlf else b"\n\n"
    return [piece + blank for piece in body.split(blank) if piece]


async def _end(writer: asyncio.StreamWriter, wire: Wire) -> None:
    match wire.then:
        case "stall":
            await asyncio.sleep(3600)
        case "reset":
            sock: Any = writer.get_extra_info("socket")
            await asyncio.sleep(0.05)  # the client should have read what was sent before the connection dies
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        case "cut":
            writer.write(b"ff\r\nevent: mess")
            await writer.drain()
            return
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def find_scenario(name: str) -> Handler:
    if ":" in name:
        module, _, attribute = name.partition(":")
        found: Handler = getattr(importlib.import_module(module), attribute)
        return found
    from tests.wire.scenarios import SCENARIOS

    return SCENARIOS[name]


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a model scenario over the wire.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--scenario", default="humaneval", help="name in tests.wire.scenarios, or module:callable")
    parser.add_argument("--pace", type=float, default=0.01, help="seconds between two events")
    parser.add_argument("--key", default="", help="accept only this key")
    given = parser.parse_args()
    with WireServer(find_scenario(given.scenario), port=given.port, key=given.key, pace=given.pace) as server:
        print(f"{given.scenario}: anthropic at {server.url}, openai at {server.openai_url}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
